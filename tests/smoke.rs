//! The shortest way through: one pod comes, reaches its gateway, and goes.

use std::net::IpAddr;

use serde_json::json;
use tests::Node;

#[test]
fn a_pod_comes_reaches_its_gateway_and_goes() {
    let Some(node) = Node::new("smoke") else {
        return;
    };
    let config = node.bridge_config(json!({}));
    // What all pods share stays after the first.
    let first = node.pod("first");
    node.call("bridge", "ADD", &first, &config, &[]).ok();
    node.call("bridge", "DEL", &first, &config, &[]).ok();
    let before = node.snapshot("testnet");

    let pod = node.pod("second");
    let added = node.call("bridge", "ADD", &pod, &config, &[]);
    assert_eq!(added.ok()["ips"][0]["address"], "10.244.0.3/24");
    let gateway: IpAddr = "10.244.0.1".parse().unwrap();
    pod.namespace.ping(gateway).unwrap();
    assert!(!node.snapshot("testnet").since(&before).is_empty());

    node.call("bridge", "DEL", &pod, &config, &[]).ok();
    assert_eq!(node.snapshot("testnet"), before);
}
