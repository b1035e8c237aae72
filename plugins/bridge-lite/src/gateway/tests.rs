use super::*;
use crate::config::BridgeConfig;
use crate::fixture::{link, request};

fn config(keys: &str) -> BridgeConfig {
    let keys = format!(r#", "bridge": "br1", "ipam": {{"type": "host-local"}}, {keys}"#);
    BridgeConfig::read(&request(&keys, "")).unwrap()
}

/// Gateways of a node that runs are known by these: they must never change.
#[test]
fn bridge_and_vlan_give_the_same_names_for_ever() {
    let config = config(r#""vlan": 100, "isGateway": true"#);
    let gateway = Gateway::of(&config).unwrap();
    assert_eq!(gateway.name, "br1.100");
    assert_eq!(gateway.port, "veth9fe58f098fb");
    assert_eq!(holder_name(&config), "br1.100");
}

#[test]
fn without_vlan_or_gateway_the_bridge_has_the_addresses() {
    for keys in [
        r#""isGateway": true"#,
        r#""vlan": 100"#,
        r#""vlanTrunk": [{"id": 100}], "isGateway": true"#,
        r#""vlan": 100, "isGateway": true, "ipam": {}"#,
    ] {
        let config = config(keys);
        assert_eq!(Gateway::of(&config), None, "{keys}");
        assert_eq!(holder_name(&config), "br1", "{keys}");
    }
}

#[test]
fn a_pair_that_serves_something_else_is_not_taken() {
    let config = config(r#""vlan": 100, "isGateway": true"#);
    let gateway = Gateway::of(&config).unwrap();
    let bridge = Link {
        index: 3,
        ..link("bridge")
    };
    let of = |master: Option<u32>| Link {
        master,
        ..link("veth")
    };
    let misused = |link: Option<u32>, port: Option<u32>, bridge: Option<&Link>| {
        let ends = Ends {
            link: of(link),
            port: of(port),
        };
        gateway.misused(&ends, bridge)
    };
    assert_eq!(misused(None, Some(3), Some(&bridge)), None);
    // The bridge was deleted, and perhaps made anew.
    assert_eq!(misused(None, None, Some(&bridge)), None);
    assert_eq!(misused(None, None, None), None);
    for (link, port, bridge) in [
        (None, Some(4), Some(&bridge)),
        (None, Some(4), None),
        (Some(3), Some(3), Some(&bridge)),
    ] {
        assert!(misused(link, port, bridge).is_some());
    }
}
