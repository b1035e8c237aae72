use super::*;
use crate::fixture::request;

fn read(keys: &str) -> Result<BridgeConfig, Error> {
    BridgeConfig::read(&request(keys, ""))
}

#[test]
fn nothing_but_the_name_gives_every_default() {
    let config = read("").unwrap();
    let expected = BridgeConfig {
        bridge: "cni0".into(),
        container_up: true,
        ..BridgeConfig::default()
    };
    assert_eq!(config, expected);
}

#[test]
fn every_key_arrives() {
    let config = read(
        r#", "bridge": "br1", "isGateway": true, "forceAddress": true, "ipMasq": true,
           "mtu": 1400, "hairpinMode": true, "enabledad": true, "portIsolation": true,
           "ipMasqBackend": "nftables", "ipam": {"type": "host-local"},
           "vlan": 0, "vlanTrunk": [], "preserveDefaultVlan": true, "macspoofchk": true,
           "dns": {"nameservers": ["10.0.0.1"]}, "runtimeConfig": {"mac": "02:00:00:00:00:01"}"#,
    )
    .unwrap();
    let expected = BridgeConfig {
        bridge: "br1".into(),
        layer3: true,
        is_gateway: true,
        is_default_gateway: false,
        force_address: true,
        ip_masq: true,
        masq_backend: Some(Backend::Nftables),
        mtu: Some(1400),
        hairpin: true,
        promiscuous: false,
        isolated: true,
        dad: true,
        mac_spoof_check: true,
        container_up: true,
        mac: Some(Mac([2, 0, 0, 0, 0, 1])),
        dns: Some(Dns {
            nameservers: vec!["10.0.0.1".into()],
            ..Dns::default()
        }),
    };
    assert_eq!(config, expected);
}

#[test]
fn the_default_gateway_is_a_gateway() {
    assert!(read(r#", "isDefaultGateway": true"#).unwrap().is_gateway);
}

#[test]
fn what_is_refused_names_key_value_and_code() {
    let table = [
        (r#""vlan": 5"#, 2, "vlan: 5 "),
        (
            r#""vlanTrunk": [{"id": 3}]"#,
            2,
            r#"vlanTrunk: [{"id":3}] "#,
        ),
        (r#""vlan": 5, "preserveDefaultVlan": true"#, 2, "vlan: 5 "),
        (
            r#""preserveDefaultVlan": 1"#,
            6,
            "failed to load netconf: cannot read \"preserveDefaultVlan\": ",
        ),
        (
            r#""macspoofchk": 1"#,
            6,
            "failed to load netconf: cannot read \"macspoofchk\": ",
        ),
        (
            r#""ipMasqBackend": "pf""#,
            7,
            r#"unknown ipmasq backend "pf""#,
        ),
        (r#""bridge": "a/b""#, 7, r#"bridge: "a/b" "#),
        (r#""bridge": "br%d""#, 7, r#"bridge: "br%d" "#),
        (r#""bridge": "sixteen-bytes-xx""#, 7, "bridge: "),
        (r#""mtu": -1"#, 7, "mtu: -1 "),
        (r#""mtu": 67"#, 7, "mtu: 67 "),
        (r#""mtu": 65536"#, 7, "mtu: 65536 "),
        (
            r#""mtu": "1500""#,
            6,
            "failed to load netconf: cannot read \"mtu\": ",
        ),
        (
            r#""hairpinMode": true, "promiscMode": true"#,
            7,
            "cannot set hairpin mode and promiscuous mode at the same time",
        ),
        (
            r#""disableContainerInterface": true, "ipam": {"type": "host-local"}"#,
            7,
            "cannot use IPAM when DisableContainerInterface flag is set",
        ),
        (
            r#""cniVersion": "0.2.0""#,
            7,
            "cannot convert: no valid IP addresses",
        ),
        (
            r#""args": {"cni": {"mac": "zz"}}"#,
            7,
            "failed to make veth pair: address zz: invalid MAC address",
        ),
        (
            r#""args": {"cni": {"mac": "01:00:00:00:00:01"}}"#,
            7,
            "failed to make veth pair: address 01:00:00:00:00:01: not a unicast MAC address",
        ),
    ];
    for (keys, code, start) in table {
        let error = read(&format!(", {keys}")).unwrap_err();
        assert_eq!(error.code, code, "{keys}: {error}");
        assert!(error.msg.starts_with(start), "{keys}: {error}");
    }
}

#[test]
fn the_mac_of_the_highest_source_wins() {
    let cni = r#""args": {"cni": {"mac": "02:00:00:00:00:02"}}"#;
    let runtime = r#""runtimeConfig": {"mac": "02:00:00:00:00:03"}"#;
    let args = "IgnoreUnknown=1;MAC=02:00:00:00:00:01";
    let last_byte = |keys: &str| {
        let config = BridgeConfig::read(&request(keys, args)).unwrap();
        config.mac.map(|Mac([.., last])| last)
    };
    assert_eq!(last_byte(""), Some(1));
    assert_eq!(last_byte(&format!(", {cni}")), Some(2));
    assert_eq!(last_byte(&format!(", {cni}, {runtime}")), Some(3));
}

#[test]
fn unknown_args_are_refused_unless_they_are_to_be_ignored() {
    let error = BridgeConfig::read(&request("", "IP=10.1.0.9")).unwrap_err();
    assert_eq!(error.code, code::INVALID_ENVIRONMENT);
    assert!(BridgeConfig::read(&request("", "IP=10.1.0.9;IgnoreUnknown=1")).is_ok());
}

#[test]
fn an_empty_resolver_list_still_replaces() {
    let with = |dns: &str| read(&format!(r#", "dns": {dns}"#)).unwrap().dns;
    assert_eq!(with("{}"), None);
    assert_eq!(with(r#"{"search": null, "domain": ""}"#), None);
    assert_eq!(with(r#"{"search": []}"#), Some(Dns::default()));
}

#[test]
fn del_reads_what_it_can() {
    let config = DelConfig::read(&request(
        r#", "bridge": 5, "ipMasq": true, "vlan": 9999, "mtu": "x""#,
        "",
    ));
    assert_eq!(config.bridge(), "cni0");
    assert!(config.ip_masq);
}
