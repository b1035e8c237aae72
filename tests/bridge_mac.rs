//! The bridge keeps its MAC, by which pods know their gateway, while ports come and go.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use std::process::Command;

use net::Mac;
use serde_json::{Value, json};
use tests::{Node, Pod, sh, with_mounts};

fn mac(node: &Node) -> Mac {
    let link = node.namespace.netlink().unwrap().link("cni0").unwrap();
    link.unwrap().mac.unwrap()
}

/// With a gateway and without.
fn configs(node: &Node) -> [Value; 2] {
    [true, false].map(|gateway| node.bridge_config(json!({ "isGateway": gateway })))
}

/// A port whose MAC is less than any other comes and goes.
const LEAST: &str = "ip link add least address 00:00:00:00:00:01 type veth peer name other
                     ip link set least master cni0; ip link delete least";

/// The plugin where /sys shows the node's links, as it does outside of a lab.
fn with_sys(node: &Node) -> Command {
    let mount = "mount -t sysfs sysfs /sys".to_owned();
    with_mounts(&[mount], node.bin.join("bridge"))
}

/// ADD; the bridge's MAC as its result tells it.
#[track_caller]
fn add(node: &Node, pod: &Pod, config: &Value) -> Mac {
    let result = node.call_as(with_sys(node), "ADD", pod, config, &[]);
    let told = result.ok()["interfaces"][0]["mac"].as_str().unwrap();
    told.parse().unwrap()
}

#[test]
fn of_a_bridge_that_add_made() {
    for gateway in [0, 1] {
        let Some(node) = Node::new("ownmac") else {
            return;
        };
        let config = &configs(&node)[gateway];
        let pods = ["one", "other"].map(|name| node.pod(name));
        node.call("bridge", "ADD", &pods[0], config, &[]).ok();
        let made = mac(&node);
        node.call("bridge", "ADD", &pods[1], config, &[]).ok();
        for pod in &pods {
            sh(&node.namespace, LEAST);
            assert_eq!(mac(&node), made);
            node.call("bridge", "DEL", pod, config, &[]).ok();
        }
        assert_eq!(mac(&node), made);
    }
}

/// A bridge made as a reference plugin makes it follows its ports until an ADD of ours.
#[test]
fn of_a_bridge_that_was_there() {
    for gateway in [0, 1] {
        let Some(node) = Node::new("othermac") else {
            return;
        };
        sh(
            &node.namespace,
            &format!("ip link add cni0 type bridge; ip link set cni0 up; {LEAST}"),
        );
        let config = &configs(&node)[gateway];
        let pod = node.pod("pod");
        let told = add(&node, &pod, config);
        sh(&node.namespace, LEAST);
        assert_eq!(mac(&node), told);
        node.call("bridge", "DEL", &pod, config, &[]).ok();
        assert_eq!(mac(&node), told);
    }
}

/// One that somebody has set stays, whatever it is.
#[test]
fn of_a_bridge_that_has_one_already() {
    let Some(node) = Node::new("setmac") else {
        return;
    };
    let set: Mac = "02:00:00:00:00:77".parse().unwrap();
    sh(
        &node.namespace,
        &format!("ip link add cni0 address {set} type bridge"),
    );
    for (name, config) in ["one", "other"].iter().zip(configs(&node)) {
        assert_eq!(add(&node, &node.pod(name), &config), set);
    }
}
