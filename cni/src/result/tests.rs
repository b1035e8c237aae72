use serde_json::json;

use super::*;

/// A result with every field set.
fn full() -> AddResult {
    let host = Interface {
        name: "cni0".into(),
        mac: "02:00:00:00:00:01".into(),
        ..Interface::default()
    };
    let pod = Interface {
        name: "eth0".into(),
        mac: "02:00:00:00:00:02".into(),
        mtu: Some(1500),
        sandbox: "/run/netns/p".into(),
        socket_path: "/run/s".into(),
        pci_id: "0000:00:1f.6".into(),
    };
    let ip = |address: &str, gateway: &str| IpConfig {
        address: address.parse().unwrap(),
        gateway: Some(gateway.parse().unwrap()),
        interface: Some(1),
    };
    let route = |dst: &str| Route {
        dst: dst.parse().unwrap(),
        gw: None,
        mtu: None,
        advmss: None,
        priority: None,
        table: None,
        scope: None,
    };
    AddResult {
        interfaces: vec![host, pod],
        ips: vec![ip("10.1.0.2/16", "10.1.0.1"), ip("fd00::2/64", "fd00::1")],
        routes: vec![
            Route {
                gw: Some("10.1.0.1".parse().unwrap()),
                mtu: Some(1400),
                advmss: Some(1360),
                priority: Some(5),
                table: Some(100),
                scope: Some(253),
                ..route("0.0.0.0/0")
            },
            route("::/0"),
        ],
        dns: Dns {
            nameservers: vec!["10.1.0.1".into()],
            domain: "d".into(),
            search: vec!["s".into()],
            options: vec!["ndots:5".into()],
        },
    }
}

const DNS: &str =
    r#""dns":{"nameservers":["10.1.0.1"],"domain":"d","search":["s"],"options":["ndots:5"]}"#;
const ROUTES: &str = r#""routes":[{"dst":"0.0.0.0/0","gw":"10.1.0.1","mtu":1400,"advmss":1360,"priority":5,"table":100,"scope":253},{"dst":"::/0"}]"#;

/// The printed text, so that the order of keys is compared too.
fn golden(version: Version) -> String {
    if version < Version::V0_3_0 {
        format!(
            r#"{{"cniVersion":"{version}","ip4":{{"ip":"10.1.0.2/16","gateway":"10.1.0.1","routes":[{{"dst":"0.0.0.0/0","gw":"10.1.0.1"}}]}},"ip6":{{"ip":"fd00::2/64","gateway":"fd00::1","routes":[{{"dst":"::/0"}}]}},{DNS}}}"#
        )
    } else if version < Version::V1_0_0 {
        format!(
            r#"{{"cniVersion":"{version}","interfaces":[{{"name":"cni0","mac":"02:00:00:00:00:01"}},{{"name":"eth0","mac":"02:00:00:00:00:02","sandbox":"/run/netns/p"}}],"ips":[{{"version":"4","interface":1,"address":"10.1.0.2/16","gateway":"10.1.0.1"}},{{"version":"6","interface":1,"address":"fd00::2/64","gateway":"fd00::1"}}],{ROUTES},{DNS}}}"#
        )
    } else {
        format!(
            r#"{{"cniVersion":"{version}","interfaces":[{{"name":"cni0","mac":"02:00:00:00:00:01"}},{{"name":"eth0","mac":"02:00:00:00:00:02","mtu":1500,"sandbox":"/run/netns/p","socketPath":"/run/s","pciID":"0000:00:1f.6"}}],"ips":[{{"interface":1,"address":"10.1.0.2/16","gateway":"10.1.0.1"}},{{"interface":1,"address":"fd00::2/64","gateway":"fd00::1"}}],{ROUTES},{DNS}}}"#
        )
    }
}

#[test]
fn goldens_of_every_version() {
    for version in Version::ALL {
        let printed = full().to_json(*version).unwrap().to_string();
        assert_eq!(printed, golden(*version), "{version}");
    }
}

#[test]
fn what_was_printed_reads_back_the_same() {
    for version in Version::ALL {
        let printed = full().to_json(*version).unwrap();
        let read = AddResult::from_json(&printed, Version::NEWEST).unwrap();
        assert_eq!(read.to_json(*version).unwrap(), printed, "{version}");
        if *version >= Version::V1_0_0 {
            assert_eq!(read, full());
        }
    }
}

#[test]
fn converts_between_all_pairs_of_versions() {
    for from in Version::ALL {
        for to in Version::ALL {
            let printed = full().to_json(*from).unwrap();
            let read = AddResult::from_json(&printed, Version::NEWEST).unwrap();
            let converted = AddResult::from_json(&read.to_json(*to).unwrap(), *from).unwrap();
            let addresses = |result: &AddResult| {
                result
                    .ips
                    .iter()
                    .map(|ip| (ip.address, ip.gateway))
                    .collect::<Vec<_>>()
            };
            assert_eq!(addresses(&converted), addresses(&full()), "{from} {to}");
            assert_eq!(converted.routes.len(), 2, "{from} {to}");
        }
    }
}

#[test]
fn empty_parts_are_left_out_but_dns() {
    for (version, expected) in [
        (Version::V0_4_0, r#"{"cniVersion":"0.4.0","dns":{}}"#),
        (Version::V1_0_0, r#"{"cniVersion":"1.0.0","dns":{}}"#),
    ] {
        let printed = AddResult::default().to_json(version).unwrap();
        assert_eq!(printed.to_string(), expected);
        let read = AddResult::from_json(&printed, version);
        assert_eq!(read, Ok(AddResult::default()));
    }
    let error = AddResult::default().to_json(Version::V0_2_0).unwrap_err();
    assert_eq!(
        (error.code, error.msg.as_str()),
        (7, "cannot convert: no valid IP addresses")
    );
}

#[test]
fn only_the_first_address_of_a_family_fits_0_2_0() {
    let mut result = full();
    result.ips.retain(is_v4);
    let mut second = result.ips[0].clone();
    second.address = "10.9.0.2/24".parse().unwrap();
    result.ips.push(second);
    let printed = result.to_json(Version::V0_2_0).unwrap();
    assert_eq!(printed["ip4"]["ip"], "10.1.0.2/16");
    assert_eq!(printed.get("ip6"), None);
}

fn is_v4(ip: &IpConfig) -> bool {
    ip.address.addr().is_ipv4()
}

#[test]
fn reading_is_generous() {
    let value = json!({
        "CNIVERSION": "1.1.0", "unknown": {"a": 1},
        "Interfaces": [{"Name": "eth0", "PCIID": "x", "more": 1}],
        "IPS": [{"Address": "10.1.0.2/24", "gateway": "", "interface": 9}, null],
        "routes": [{"dst": "0.0.0.0/0", "GW": ""}], "dns": null
    });
    let read = AddResult::from_json(&value, Version::V0_1_0).unwrap();
    assert_eq!(read.interfaces[0].pci_id, "x");
    assert_eq!((read.ips.len(), read.ips[0].gateway), (1, None));
    assert_eq!(read.routes[0].gw, None);
}

#[test]
fn indexes_that_point_at_nothing() {
    let mut result = full();
    for (index, name) in [
        (None, None),
        (Some(0), Some("cni0")),
        (Some(1), Some("eth0")),
        (Some(2), None),
        (Some(-1), None),
        (Some(i64::MAX), None),
    ] {
        result.ips[0].interface = index;
        let found = result.interface_of(&result.ips[0]);
        assert_eq!(found.map(|i| i.name.as_str()), name, "{index:?}");
    }
}

#[test]
fn what_is_the_pod_s_and_what_the_node_s() {
    let interface = |name: &str, sandbox: &str| Interface {
        name: name.into(),
        sandbox: sandbox.into(),
        ..Interface::default()
    };
    let mut result = AddResult {
        interfaces: vec![
            interface("eth0", ""),
            interface("eth0", "/run/netns/x"),
            interface("net1", "/run/netns/x"),
        ],
        ips: full().ips[..1].to_vec(),
        ..AddResult::default()
    };
    assert_eq!(
        result.on_node().collect::<Vec<_>>(),
        [&interface("eth0", "")]
    );
    // One without a valid index may be the interface's.
    for (index, of_eth0) in [
        (Some(0), false),
        (Some(1), true),
        (Some(2), false),
        (None, true),
        (Some(3), true),
        (Some(-1), true),
        (Some(i64::MAX), true),
    ] {
        result.ips[0].interface = index;
        assert_eq!(result.ips_of("eth0").count() == 1, of_eth0, "{index:?}");
    }
}

#[test]
fn what_is_no_result() {
    for (value, msg) in [
        (json!([]), "invalid type: sequence, expected an object"),
        (
            json!({"ips": [{"address": "10.1.0.300/24"}]}),
            "cannot read \"ips[0].address\": \"10.1.0.300/24\": invalid IP address syntax",
        ),
        (
            json!({"ips": [{"address": "10.1.0.3/24", "gateway": "x"}]}),
            "cannot read \"ips[0].gateway\": \"x\": invalid IP address syntax",
        ),
        (
            json!({"ips": [{"gateway": "10.1.0.3"}]}),
            "cannot read \"ips[0]\": missing field `address`",
        ),
        (
            json!({"routes": [{"dst": "::/0", "scope": 256}]}),
            "cannot read \"routes[0].scope\": invalid value: integer `256`, expected an integer from 0 to 255",
        ),
        (
            json!({"cniVersion": "2.0.0"}),
            "result type supports [0.1.0 0.2.0 0.3.0 0.3.1 0.4.0 1.0.0 1.1.0] \
             but unmarshalled CNIVersion is \"2.0.0\"",
        ),
    ] {
        let error = AddResult::from_json(&value, Version::V1_0_0).unwrap_err();
        assert_eq!((error.code, error.msg.as_str()), (6, msg));
    }
    let other_family = json!({"cniVersion": "0.2.0"});
    let error = AddResult::from_json_of_family(&other_family, Version::V1_1_0).unwrap_err();
    assert_eq!(
        error.msg,
        "result type supports [1.0.0 1.1.0] but unmarshalled CNIVersion is \"0.2.0\""
    );
}
