//! Every verb against a kernel, each test in namespaces of its own.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "the configuration allows them in test functions, not in what these share"
)]

mod addresses;
mod links;
mod namespaces;
mod qdiscs;
mod routes;
mod rules;
mod sysctls;
mod tables;
mod vlans;

use net::{Bridge, Link, Mac, Netlink, Netns, Veth};

/// A pod's namespace and a node's, or `None` (said aloud) where this user may make none.
fn namespaces() -> Option<(Netns, Netns)> {
    match (Netns::anonymous(), Netns::anonymous()) {
        (Ok(node), Ok(pod)) => Some((node, pod)),
        (Err(error), _) | (_, Err(error)) => {
            lab::skip(&format!("cannot make network namespaces: {error}"));
            None
        }
    }
}

/// Two namespaces with a veth pair between them, the node's end on a bridge.
struct Lab {
    node: Netlink,
    node_netns: Netns,
    pod: Netlink,
    pod_netns: Netns,
    bridge: Link,
    host: Link,
    eth0: Link,
}

const BRIDGE_MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
const HOST_MAC: Mac = Mac([2, 0, 0, 0, 0, 2]);
const POD_MAC: Mac = Mac([2, 0, 0, 0, 0, 3]);

impl Lab {
    fn new() -> Option<Lab> {
        let (node_netns, pod_netns) = namespaces()?;
        let node = Netlink::in_netns(&node_netns).expect("socket in the node");
        let pod = Netlink::in_netns(&pod_netns).expect("socket in the pod");
        let bridge = Bridge {
            name: "br0",
            mac: Some(BRIDGE_MAC),
            mtu: Some(1400),
            vlan_filtering: false,
        };
        node.create_bridge(&bridge).expect("bridge");
        let bridge = link(&node, "br0");
        assert!(!bridge.up, "before its sysctls can be set");
        node.set_up(bridge.index).expect("up");
        let bridge = link(&node, "br0");
        let veth = Veth {
            name: "veth0",
            mac: Some(HOST_MAC),
            group: 77,
            mtu: Some(1400),
            master: Some(bridge.index),
            peer_name: "eth0",
            peer_mac: Some(POD_MAC),
            peer_netns: &pod_netns,
        };
        node.create_veth(&veth).expect("veth");
        let (host, eth0) = (link(&node, "veth0"), link(&pod, "eth0"));
        Some(Lab {
            node,
            node_netns,
            pod,
            pod_netns,
            bridge,
            host,
            eth0,
        })
    }
}

/// The link of a name that is there.
fn link(netlink: &Netlink, name: &str) -> Link {
    let link = netlink.link(name).expect("get link");
    link.unwrap_or_else(|| panic!("no link {name}"))
}

/// Runs a program in a namespace and returns what it prints; `None` (said aloud) where there is no
/// such program.
fn run(netns: &Netns, program: &str, arguments: &str) -> Option<String> {
    let output = || {
        let mut command = std::process::Command::new(program);
        command.args(arguments.split_whitespace()).output()
    };
    match netns.enter(output).expect("enter") {
        Ok(output) => {
            assert!(output.status.success(), "{program} {arguments}: {output:?}");
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Err(error) => {
            lab::skip(&format!("cannot run {program}: {error}"));
            None
        }
    }
}
