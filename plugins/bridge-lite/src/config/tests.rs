use cni::code;

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
           "vlan": 5, "vlanTrunk": [{"id": 3}], "preserveDefaultVlan": true, "macspoofchk": true,
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
        vlans: Some(Vlans {
            access: Some(5),
            trunk: [3].into(),
            preserve_default: true,
        }),
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

/// What a pod's VLANs are read as: untagged, tagged and whether the default VLAN is kept.
fn vlans(keys: &str) -> Option<(Option<u16>, Vec<u16>, bool)> {
    let vlans = read(&format!(", {keys}")).unwrap().vlans?;
    let trunk = vlans.trunk.into_iter().collect();
    Some((vlans.access, trunk, vlans.preserve_default))
}

#[test]
fn vlans_are_asked_for_by_either_key() {
    for nothing in [
        r#""vlan": 0"#,
        r#""vlan": null, "vlanTrunk": null"#,
        r#""preserveDefaultVlan": true"#,
    ] {
        assert_eq!(vlans(nothing), None, "{nothing}");
    }
    let table: [(&str, Option<u16>, &[u16], bool); 8] = [
        (r#""vlan": 4094"#, Some(4094), &[], false),
        (
            r#""VLAN": 1, "PreserveDefaultVLAN": true"#,
            Some(1),
            &[],
            true,
        ),
        (r#""vlanTrunk": []"#, None, &[], false),
        (r#""vlanTrunk": [{}]"#, None, &[], false),
        (r#""vlanTrunk": [{"id": 4094}]"#, None, &[4094], false),
        (
            r#""vlanTrunk": [{"minID": 7, "maxID": 7}]"#,
            None,
            &[7],
            false,
        ),
        (
            r#""vlan": 5, "vlanTrunk": [{"minID": 8, "maxid": 10, "ID": 3}, {"id": 9}, {"id": 1}]"#,
            Some(5),
            &[1, 3, 8, 9, 10],
            false,
        ),
        (
            r#""vlanTrunk": [{"id": 3, "minID": null}]"#,
            None,
            &[3],
            false,
        ),
    ];
    for (keys, access, trunk, preserve) in table {
        assert_eq!(
            vlans(keys),
            Some((access, trunk.to_vec(), preserve)),
            "{keys}"
        );
    }
}

#[test]
fn what_is_no_vlan_is_refused_in_the_field_s_words() {
    let (both, greater) = (
        "minID and maxID should be configured simultaneously",
        "minID is greater than maxID in trunk parameter",
    );
    let table = [
        (
            r#""vlan": -1"#,
            "invalid VLAN ID -1 (must be between 0 and 4094)",
            "vlan: -1; allowed: ",
        ),
        (
            r#""vlan": 4095"#,
            "invalid VLAN ID 4095 (must be",
            "vlan: 4095; allowed: ",
        ),
        // Not 1 modulo 65536.
        (
            r#""vlan": 65537"#,
            "invalid VLAN ID 65537 (must be",
            "vlan: 65537; allowed: ",
        ),
        (
            r#""vlanTrunk": [{"minID": 0, "maxID": 9}]"#,
            "incorrect trunk minID parameter",
            "vlanTrunk[0].minID: 0; allowed: 1 to 4094",
        ),
        (
            r#""vlanTrunk": [{}, {"minID": 9, "maxID": 4095}]"#,
            "incorrect trunk maxID parameter",
            "vlanTrunk[1].maxID: 4095; allowed: 1 to 4094",
        ),
        (
            r#""vlanTrunk": [{"minID": 9, "maxID": 8}]"#,
            greater,
            "vlanTrunk[0]: minID 9, maxID 8; allowed: ",
        ),
        (
            r#""vlanTrunk": [{"maxID": 8}]"#,
            &format!("{both}, minID is missing"),
            "vlanTrunk[0].maxID: 8; allowed: both or neither",
        ),
        (
            r#""vlanTrunk": [{"minID": 8, "id": 3}]"#,
            &format!("{both}, maxID is missing"),
            "vlanTrunk[0].minID: 8; allowed: both or neither",
        ),
        (
            r#""vlanTrunk": [{"id": 0}]"#,
            "incorrect trunk id parameter",
            "vlanTrunk[0].id: 0; allowed: 1 to 4094",
        ),
    ];
    for (keys, msg, details) in table {
        let error = read(&format!(", {keys}")).unwrap_err();
        assert_eq!(error.code, code::INVALID_CONFIG, "{keys}: {error}");
        assert!(error.msg.starts_with(msg), "{keys}: {error}");
        assert!(error.details.starts_with(details), "{keys}: {error}");
    }
    for (keys, key) in [
        (r#""vlan": "5""#, "vlan"),
        (r#""vlan": 5.5"#, "vlan"),
        (r#""vlanTrunk": "5""#, "vlanTrunk"),
        (r#""vlanTrunk": [5]"#, "vlanTrunk[0]"),
        (r#""vlanTrunk": [{"id": "5"}]"#, "vlanTrunk[0].id"),
        (r#""preserveDefaultVlan": 1"#, "preserveDefaultVlan"),
    ] {
        let error = read(&format!(", {keys}")).unwrap_err();
        assert_eq!(error.code, code::DECODING_FAILURE, "{keys}: {error}");
        let begin = format!("failed to load netconf: cannot read {key:?}: ");
        assert!(error.msg.starts_with(&begin), "{keys}: {error}");
    }
}

#[test]
fn a_gateway_s_name_must_fit() {
    let with = |bridge: &str, more: &str| {
        read(&format!(
            r#", "bridge": "{bridge}", "vlan": 100, "ipam": {{"type": "host-local"}}{more}"#
        ))
    };
    let gateway = r#", "isGateway": true"#;
    with("bridge-of-1", gateway).unwrap();
    for gateway in [gateway, r#", "isDefaultGateway": true"#] {
        let error = with("bridge-of-12", gateway).unwrap_err();
        assert_eq!(error.code, code::INVALID_CONFIG);
        let begin = r#"vlan: gateway "bridge-of-12.100" is not an interface name"#;
        assert!(error.msg.starts_with(begin), "{error}");
    }
    // Where there is no gateway there is no name.
    with("bridge-of-12", "").unwrap();
    read(r#", "bridge": "bridge-of-12", "vlan": 100, "isGateway": true"#).unwrap();
    let trunk = r#", "vlan": 0, "vlanTrunk": [{"id": 100}], "isGateway": true"#;
    with("bridge-of-12", trunk).unwrap();
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
