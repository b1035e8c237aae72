//! IPv6 duplicate address detection.

use std::time::Duration;

use serde_json::{Value, json};
use tests::{Node, at, eventually, sh};

/// Longer than ADD waits for detection, and shorter than it waits for the port.
const LONG: Duration = Duration::from_secs(7);

/// A configuration of IPv6, with or without detection.
fn config(node: &Node, enabled: bool) -> Value {
    let ipam = json!({ "type": "host-local", "dataDir": node.data, "subnet": "fd00:10:244::/64" });
    node.bridge_config(json!({ "enabledad": enabled, "ipam": ipam }))
}

fn sysctl(pod: &tests::Pod, key: &str) -> String {
    let file = format!("/proc/sys/net/ipv6/conf/eth0/{key}");
    sh(&pod.namespace, &format!("cat {file}")).trim().to_owned()
}

#[test]
fn without_detection_an_address_can_be_used_at_once() {
    let Some(node) = Node::new("nodad") else {
        return;
    };
    let pod = node.pod("pod");
    node.call("bridge", "ADD", &pod, config(&node, false), &[])
        .ok();
    let addresses = sh(&pod.namespace, "ip -6 address show dev eth0");
    assert!(!addresses.contains("tentative"), "{addresses}");
    assert_eq!(sysctl(&pod, "accept_dad"), "0");
}

#[test]
fn with_detection_add_waits_until_it_has_ended() {
    let Some(node) = Node::new("dad") else {
        return;
    };
    let pod = node.pod("pod");
    let config = config(&node, true);
    let result = node.call("bridge", "ADD", &pod, &config, &[]);
    for (namespace, link) in [(&pod.namespace, "eth0"), (&node.namespace, "cni0")] {
        let addresses = sh(namespace, &format!("ip -6 address show dev {link}"));
        assert!(!addresses.contains("tentative"), "{addresses}");
    }
    assert_eq!(
        (sysctl(&pod, "accept_dad"), sysctl(&pod, "enhanced_dad")),
        ("1".into(), "1".into())
    );
    let checked = tests::with(&config, "prevResult", result.ok());
    node.call("bridge", "CHECK", &pod, checked, &[]).ok();
    pod.namespace.ping(at("fd00:10:244::1")).unwrap();
}

/// Detection cannot end on a link that is down, which says nothing of the address.
#[test]
fn a_link_that_is_down_for_long_is_no_duplicate() {
    let Some(node) = Node::new("slow") else {
        return;
    };
    let pod = node.pod("pod");
    let config = config(&node, true);
    let netlink = node.namespace.netlink().unwrap();
    let host_veth = || {
        let links = netlink.links().unwrap();
        let port = links.into_iter().find(|link| link.name.starts_with("veth"));
        port.map(|port| port.name).ok_or("no port yet")
    };
    std::thread::scope(|scope| {
        let added = scope.spawn(|| node.call("bridge", "ADD", &pod, &config, &[]));
        let port = eventually(host_veth).unwrap();
        sh(&node.namespace, &format!("ip link set {port} down"));
        std::thread::sleep(LONG);
        sh(&node.namespace, &format!("ip link set {port} up"));
        added.join().unwrap().ok();
    });
    pod.namespace.ping(at("fd00:10:244::1")).unwrap();
}

#[test]
fn a_duplicate_address_is_refused() {
    let Some(node) = Node::new("dup") else {
        return;
    };
    let config = config(&node, true);
    // A neighbour takes the address that the next pod will be given.
    let neighbour = node.pod("neighbour");
    node.call("bridge", "ADD", &neighbour, &config, &[]).ok();
    neighbour
        .namespace
        .add_address("eth0", at("fd00:10:244::3/64"))
        .unwrap();
    let before = node.snapshot("testnet");

    let pod = node.pod("pod");
    let (_, said) = node.call("bridge", "ADD", &pod, &config, &[]).error();
    assert!(said.contains("fd00:10:244::3"), "{said}");
    assert!(said.contains("DADFAILED"), "{said}");
    assert_eq!(node.snapshot("testnet"), before);
    assert_eq!(sh(&pod.namespace, "ip -brief link").lines().count(), 1);
}

#[test]
fn a_gateway_that_is_a_duplicate_is_refused() {
    let Some(node) = Node::new("dupgw") else {
        return;
    };
    // On the bridge, which was made by hand, somebody else is the gateway.
    let router = node.namespace("router");
    lab::connect(
        lab::End {
            namespace: &node.namespace,
            link: "port",
            addresses: &[],
        },
        lab::End {
            namespace: &router,
            link: "eth0",
            addresses: &[at("fd00:10:244::1/64")],
        },
    )
    .unwrap();
    sh(
        &node.namespace,
        "ip link add cni0 type bridge; ip link set port master cni0; ip link set cni0 up",
    );
    let pod = node.pod("pod");
    let config = config(&node, true);
    let answer = node.call("bridge", "ADD", &pod, &config, &[]);
    answer.expect_refused("gateway", 100, &["cni0", "fd00:10:244::1", "DADFAILED"]);
    assert_eq!(sh(&pod.namespace, "ip -brief link").lines().count(), 1);
    let links = sh(&node.namespace, "ip -brief link");
    assert!(!links.contains("veth"), "{links}");
}
