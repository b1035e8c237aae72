//! What an ADD leaves of the node's own ways out.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use lab::Namespace;
use serde_json::json;
use tests::{Family, Node, eventually, sh};

/// Detection of the routers' own addresses, which takes one to two seconds.
const DAD: Duration = Duration::from_secs(10);

fn default_route(node: &Node) -> Result<String, String> {
    let routes = sh(&node.namespace, "ip -6 route show default proto ra");
    let there = (!routes.is_empty()).then_some(routes);
    there.ok_or_else(|| "no advertised default route".to_owned())
}

fn accept_ra(node: &Node, link: &str) -> String {
    let file = format!("/proc/sys/net/ipv6/conf/{link}/accept_ra");
    sh(&node.namespace, &format!("cat {file}"))
        .trim()
        .to_owned()
}

/// A router on the node's link of that name, without a word yet.
fn router(node: &Node, link: &str) -> Namespace {
    let router = node.namespace(link);
    let end = |namespace| lab::End {
        namespace,
        link,
        addresses: &[],
    };
    lab::connect(end(&node.namespace), end(&router)).unwrap();
    for namespace in [&node.namespace, &router] {
        let netlink = namespace.netlink().unwrap();
        let index = netlink.link(link).unwrap().unwrap().index;
        netlink.wait_addresses(index, DAD).unwrap();
    }
    router
}

/// A node that forwards takes no advertisements, unless it is told to.
#[test]
fn an_advertised_default_route_stays_when_the_node_begins_to_forward() {
    let Some(node) = Node::new("advertised") else {
        return;
    };
    let (uplink, _silent) = (router(&node, "up0"), router(&node, "up1"));
    uplink.advertise("up0").unwrap();
    eventually(|| default_route(&node)).unwrap();
    assert_eq!(accept_ra(&node, "up0"), "1");

    let ipv4 = node.bridge_config(json!({}));
    node.call("bridge", "ADD", &node.pod("pod4"), &ipv4, &[])
        .ok();
    assert_eq!(accept_ra(&node, "up0"), "1", "IPv4 has no use for it");

    let ipam = json!({
        "type": "host-local", "dataDir": node.data, "subnet": Family::V6.expand("$NET")
    });
    let ipv6 = node.bridge_config(json!({ "bridge": "cni6", "ipam": ipam }));
    node.call("bridge", "ADD", &node.pod("pod6"), &ipv6, &[])
        .ok();
    default_route(&node).unwrap();
    // It goes on to listen, but only where it did, and not to its pods.
    sh(&node.namespace, "ip -6 route flush proto ra");
    uplink.advertise("up0").unwrap();
    eventually(|| default_route(&node)).unwrap();
    assert_eq!(accept_ra(&node, "up1"), "1");
    assert_eq!(accept_ra(&node, "cni6"), "0");
}
