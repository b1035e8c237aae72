use super::*;
use cni::Version;

use crate::config::BridgeConfig;
use crate::fixture::{attachment, ipam_result, link};

const SANDBOX: &str = "/run/netns/pod";

fn config() -> BridgeConfig {
    BridgeConfig {
        bridge: "cni0".into(),
        layer3: true,
        is_gateway: true,
        container_up: true,
        mtu: Some(1400),
        ..BridgeConfig::default()
    }
}

/// An attachment as ADD made it.
struct Made {
    bridge: Link,
    port: Link,
    pod: Link,
    result: AddResult,
}

fn made(config: &BridgeConfig) -> Made {
    let ipam = ipam_result(&[("10.1.0.2/16", "")], &[("0.0.0.0/0", "")]);
    let want = Want::links(config, &attachment()).with_ipam(ipam).unwrap();
    let mac = |last| Some(Mac([2, 0, 0, 0, 0, last]));
    let bridge = Link {
        index: 3,
        name: "cni0".into(),
        mac: mac(3),
        ..link("bridge")
    };
    let port = Link {
        index: 7,
        name: want.identity.name.clone(),
        mac: Some(want.identity.marks.mac),
        mtu: 1400,
        master: Some(3),
        peer: Some(2),
        group: want.identity.marks.group,
        alias: want.identity.marks.alias.clone(),
        port: Some(want.port_flags()),
        ..link("veth")
    };
    let pod = Link {
        index: 2,
        name: "eth0".into(),
        mac: mac(2),
        mtu: 1400,
        peer: Some(7),
        ..link("veth")
    };
    let result = want.result([&bridge, &port, &pod], None, SANDBOX, Version::V1_0_0);
    Made {
        bridge,
        port,
        pod,
        result,
    }
}

/// What CHECK says of the links after `change`.
fn links_after(config: &BridgeConfig, change: impl FnOnce(&mut Made)) -> Result<(), Error> {
    let mut made = made(config);
    change(&mut made);
    let want = Want::links(config, &attachment());
    let want = want.with_previous(&made.result)?;
    let previous = Previous::of(&made.result, &want, SANDBOX)?;
    bridge(&want, &previous, &made.bridge)?;
    pair(&want, &previous, &made.pod, &made.port)?;
    port(&want, &made.port, 3)?;
    mtus(&want, &previous, &made.pod, &made.port)?;
    pod_link(&want, &previous, &made.pod)
}

#[test]
fn what_add_made_is_as_wanted() {
    links_after(&config(), |_| {}).unwrap();
}

type Change = fn(&mut Made);

/// Changes, and how CHECK's message begins after each.
const CHANGES: &[(Change, &str)] = &[
    (
        |m| m.bridge.kind = "dummy".into(),
        "Interface cni0 does not have link type of bridge",
    ),
    (|m| m.bridge.up = false, "bridge cni0 is down"),
    (
        |m| m.bridge.mac = Some(Mac([2; 6])),
        "Bridge interface cni0 Mac doesn't match: 02:00:00:00:00:03",
    ),
    (
        |m| m.pod.kind = "macvlan".into(),
        "Error: Container interface eth0 not of type veth",
    ),
    (
        |m| m.pod.peer = Some(8),
        "CNI veth created for bridge cni0 was not found",
    ),
    (
        |m| m.port.peer = Some(9),
        "CNI veth created for bridge cni0 was not found",
    ),
    (
        |m| m.port.name = "renamed".into(),
        "CNI veth created for bridge cni0 was not found",
    ),
    (
        |m| m.result.interfaces[1].name = "lo".into(),
        "CNI veth created for bridge cni0 was not found",
    ),
    (
        |m| m.result.interfaces[1].sandbox = SANDBOX.into(),
        "CNI veth created for bridge cni0 was not found",
    ),
    (
        |m| m.port.master = None,
        "CNI veth created for bridge cni0 was not found",
    ),
    (
        |m| m.port.master = Some(4),
        "CNI veth created for bridge cni0 was not found",
    ),
    (|m| m.port.up = false, "interface veth"),
    (|m| m.port.oper_up = false, "interface veth"),
    (|m| m.port.mtu = 1500, "interface veth"),
    (
        |m| m.result.interfaces[1].mtu = Some(1300),
        "interface veth",
    ),
    (|m| m.port.group = 0, "interface veth"),
    (|m| m.port.alias = "x".into(), "interface veth"),
    (
        |m| m.port.port.as_mut().unwrap().hairpin = true,
        "port veth",
    ),
    (
        |m| m.port.port.as_mut().unwrap().isolated = true,
        "port veth",
    ),
    (|m| m.pod.up = false, "interface eth0 of the pod is down"),
    (
        |m| m.pod.mtu = 1500,
        "interface eth0 has mtu 1500, not 1400",
    ),
    (
        |m| m.pod.mac = Some(Mac([2; 6])),
        "Interface eth0 Mac 02:00:00:00:00:02 doesn't match container Mac: 02:02:02:02:02:02",
    ),
    (
        |m| m.result.interfaces.clear(),
        "interface eth0 is not in prevResult",
    ),
    (
        |m| m.result.interfaces[2].sandbox = "/run/netns/other".into(),
        "Sandbox in prevResult /run/netns/other doesn't match configured netns: /run/netns/pod",
    ),
];

#[test]
fn every_change_to_a_link_is_noticed() {
    for (at, (change, start)) in CHANGES.iter().enumerate() {
        let error = links_after(&config(), change).unwrap_err();
        assert!(error.msg.starts_with(start), "row {at}: {error}");
        assert_eq!(error.code, cni::code::CHECK_FAILED);
    }
}

#[test]
fn promiscuity_is_noticed_only_where_it_was_asked_for() {
    let promiscuous = BridgeConfig {
        promiscuous: true,
        ..config()
    };
    links_after(&promiscuous, |_| {}).unwrap_err();
    links_after(&promiscuous, |m| m.bridge.promiscuous = true).unwrap();
    links_after(&config(), |m| m.bridge.promiscuous = true).unwrap();
}

/// Without the key, and in a version whose results tell of none.
#[test]
fn an_mtu_that_nobody_told_is_that_of_the_other_end() {
    let config = BridgeConfig {
        mtu: None,
        ..config()
    };
    let mtus = |pod: u32, port: u32, told: [Option<u32>; 2]| {
        links_after(&config, |m| {
            (m.pod.mtu, m.port.mtu) = (pod, port);
            let [told_pod, told_port] = told;
            m.result.interfaces[2].mtu = told_pod;
            m.result.interfaces[1].mtu = told_port;
        })
    };
    for (pod, port, told) in [
        (1500, 1500, [None, None]),
        (9000, 9000, [None, None]),
        (1300, 1500, [Some(1300), Some(1500)]),
        (1300, 1500, [Some(1300), None]),
    ] {
        mtus(pod, port, told).unwrap();
    }
    for (pod, port, told) in [
        (1300, 1500, [None, None]),
        (1500, 1300, [None, None]),
        (1300, 1500, [Some(1500), Some(1500)]),
    ] {
        let error = mtus(pod, port, told).unwrap_err();
        let expected = format!("interface eth0 has mtu {pod}, not ");
        assert!(error.msg.starts_with(&expected), "{error}");
    }
}

#[test]
fn what_others_may_change_is_no_difference() {
    // The host veth's MAC, as udev does.
    links_after(&config(), |m| m.port.mac = Some(Mac([2; 6]))).unwrap();
    // MAC and MTU of the pod's interface, where the result says so.
    links_after(&config(), |m| {
        m.pod.mac = Some(Mac([2; 6]));
        m.pod.mtu = 1300;
        m.result.interfaces[2].mac = "02:02:02:02:02:02".into();
        m.result.interfaces[2].mtu = Some(1300);
    })
    .unwrap();
    // A pod whose interface was left down on purpose.
    let down = BridgeConfig {
        container_up: false,
        ..config()
    };
    links_after(&down, |m| {
        m.pod.up = false;
        m.port.oper_up = false;
    })
    .unwrap();
}

#[test]
fn a_reference_plugin_s_pair_passes_without_marks() {
    links_after(&config(), |m| {
        m.port.name = "veth0123abcd".into();
        m.port.group = 0;
        m.port.alias = String::new();
        m.result.interfaces[1].name = "veth0123abcd".into();
    })
    .unwrap();
}

#[test]
fn addresses_must_be_there_with_their_prefix_and_without_a_duplicate() {
    let wanted = ["10.1.0.2/16".parse().unwrap()];
    let address = |net: &str, dad_failed| Address {
        net: net.parse().unwrap(),
        tentative: false,
        dad_failed,
        global: true,
    };
    let other = address("10.9.0.1/16", false);
    let found =
        |net, dad_failed| addresses("eth0", &wanted, &[other.clone(), address(net, dad_failed)]);
    found("10.1.0.2/16", false).unwrap();
    let error = found("10.1.0.2/24", false).unwrap_err();
    assert_eq!(
        error.msg,
        "Failed to match addr 10.1.0.2/16 on interface eth0"
    );
    found("10.1.0.2/16", true).unwrap_err();
}

/// What CHECK says of these routes of a pod that wants a default route.
fn routes_are(existing: &[Route], change: impl FnOnce(&mut AddResult)) -> Result<(), Error> {
    let config = config();
    let mut made = made(&config);
    change(&mut made.result);
    let want = Want::links(&config, &attachment());
    routes(&want.with_previous(&made.result)?, 2, existing)
}

fn route(dst: &str, gateway: &str, index: u32) -> Route {
    Route::new(dst.parse().unwrap(), gateway.parse().ok(), index)
}

#[test]
fn routes_must_be_there_and_lead_the_same_way() {
    let connected = route("10.1.0.0/16", "", 2);
    let default = route("0.0.0.0/0", "10.1.0.1", 2);
    let more = route("10.9.0.0/16", "10.1.0.5", 2);
    routes_are(&[connected.clone(), default.clone(), more], |_| {}).unwrap();
    let error = routes_are(std::slice::from_ref(&connected), |_| {}).unwrap_err();
    assert_eq!(
        error.msg,
        "Expected Route {0.0.0.0/0 via 10.1.0.1} not found in routing table"
    );
    let error = routes_are(&[default], |_| {}).unwrap_err();
    assert_eq!(
        error.msg,
        "Expected Route {10.1.0.0/16} not found in routing table"
    );
    for other_way in [
        route("0.0.0.0/0", "10.1.0.9", 2),
        route("0.0.0.0/0", "10.1.0.1", 5),
    ] {
        routes_are(&[connected.clone(), other_way], |_| {}).unwrap_err();
    }
}

#[test]
fn no_route_is_expected_that_the_kernel_does_not_make() {
    for (net, expected) in [
        ("10.1.0.2/16", true),
        ("10.1.0.2/32", false),
        ("10.1.0.2/0", false),
        ("10.1.0.2/4", false),
        ("fd00::2/64", true),
        ("fd00::2/0", true),
        ("fd00::2/128", false),
    ] {
        assert_eq!(
            has_connected_route(&net.parse().unwrap()),
            expected,
            "{net}"
        );
    }
}

#[test]
fn a_route_of_a_later_plugin_may_lead_by_another_link() {
    let existing = [
        route("10.1.0.0/16", "", 2),
        route("0.0.0.0/0", "10.1.0.1", 2),
        route("10.9.0.0/16", "172.16.0.1", 5),
    ];
    let more = ipam_result(&[], &[("10.9.0.0/16", "172.16.0.1")]).routes;
    routes_are(&existing, |result| result.routes.extend(more.clone())).unwrap();
    routes_are(&existing[..2], |result| result.routes.extend(more)).unwrap_err();
}

#[test]
fn what_was_asked_of_a_route_is_compared_and_nothing_else() {
    let connected = route("10.1.0.0/16", "", 2);
    let moved = Route {
        table: Some(100),
        priority: Some(7),
        mtu: Some(1300),
        advmss: Some(1260),
        ..route("0.0.0.0/0", "10.1.0.1", 2)
    };
    let existing = [connected, moved];
    routes_are(&existing, |_| {}).unwrap();
    type Ask = fn(&mut cni::Route);
    let table: &[(Ask, Ask)] = &[
        (|r| r.table = Some(100), |r| r.table = Some(254)),
        (|r| r.priority = Some(7), |r| r.priority = Some(8)),
        (|r| r.mtu = Some(1300), |r| r.mtu = Some(1200)),
        (|r| r.advmss = Some(1260), |r| r.advmss = Some(1200)),
        (|r| r.scope = Some(0), |r| r.scope = Some(253)),
    ];
    for (at, (same, other)) in table.iter().enumerate() {
        let asked = |ask: &Ask| routes_are(&existing, |result| ask(&mut result.routes[0]));
        assert!(asked(same).is_ok(), "row {at}");
        assert!(asked(other).is_err(), "row {at}");
    }
}
