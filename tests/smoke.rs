//! The shortest way through: a pod comes, is reached, and goes.

use std::net::{IpAddr, SocketAddr};

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

#[test]
fn a_pod_of_the_whole_chain_serves_its_host_port_and_goes() {
    let Some(node) = Node::new("chain") else {
        return;
    };
    let outside = node.outside();
    let list = node.conflist("10-k8nd.conflist");
    let asked = json!({
        "portMappings": [{ "hostPort": 8080, "containerPort": 80, "protocol": "tcp" }],
        "bandwidth": { "ingressRate": 8000000, "ingressBurst": 800000 }
    });
    // What all pods share stays after the first.
    let first = node.pod("first");
    node.add(&list, &first, asked.clone()).unwrap();
    node.del(&list, &first).unwrap();
    let before = node.snapshot(&list.name);

    let pod = node.pod("second");
    let added = node.add(&list, &pod, asked).unwrap();
    let server = SocketAddr::new(added.ips[0].address.addr(), 80);
    let _server = pod.namespace.serve_tcp(server).unwrap();
    let seen = outside.ask_tcp("192.0.2.10:8080".parse().unwrap()).unwrap();
    assert_eq!(seen.local, server);
    node.check(&list, &pod).unwrap();

    node.del(&list, &pod).unwrap();
    assert_eq!(node.snapshot(&list.name), before);
}
