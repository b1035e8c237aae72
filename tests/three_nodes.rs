//! Nodes that are set up by what `podnet plan` prints: their pods reach each other.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use std::fs;
use std::net::{IpAddr, SocketAddr};

use lab::Server;
use serde_json::{Value, json};
use tests::{Pod, Segment};

/// The second of the worked examples.
const WORKERS: &str = "\
podSubnet: 10.200.0.0/16
serviceSubnet: 10.32.0.0/24
nodeSubnet: 192.168.199.0/24
device: eth0
nodes:
- {name: k8sworker0, address: 192.168.199.210}
- {name: k8sworker1, address: 192.168.199.211}
- {name: k8sworker2, address: 192.168.199.212}
";

/// A node's pod, serving on its port 80.
struct Serving {
    pod: Pod,
    addresses: Vec<IpAddr>,
    _servers: Vec<Server>,
}

/// Sets a node up as it was planned, and starts a pod on it.
fn set_up(segment: &Segment, number: usize, options: &str) -> Serving {
    let planned = |what: &str| {
        let answer = segment.podnet(number, &format!("plan {what} --for k8sworker{number}"));
        assert_eq!(
            (answer.status, answer.stderr.as_str()),
            (0, ""),
            "{answer:?}"
        );
        answer.stdout
    };
    let node = &segment.nodes[number];
    let conflist: Value = serde_json::from_str(&planned(&format!("conflist {options}"))).unwrap();
    let list = node.list(conflist);
    let pod = node.pod("pod");
    let asked = json!({
        "portMappings": [{ "hostPort": 8080, "containerPort": 80, "protocol": "tcp" }],
        "bandwidth": { "ingressRate": 100_000_000, "ingressBurst": 8_000_000 },
    });
    let result = node.add(&list, &pod, asked).unwrap();
    node.check(&list, &pod).unwrap();
    let routes = planned("routes");
    // A second time, since it does no harm.
    for _ in 0..2 {
        node.namespace.read("sh", &["-ec", &routes]).unwrap();
    }
    let addresses: Vec<_> = result.ips.iter().map(|ip| ip.address.addr()).collect();
    let serve = |address: &IpAddr| pod.namespace.serve_tcp(SocketAddr::new(*address, 80));
    let servers = addresses.iter().map(|address| serve(address).unwrap());
    Serving {
        _servers: servers.collect(),
        pod,
        addresses,
    }
}

/// That a pod of each node reaches the pod of each, and its host port.
fn expect_all_reached(segment: &Segment, families: usize, options: &str) {
    let numbers = 0..segment.nodes.len();
    let pods: Vec<Serving> = numbers
        .map(|number| set_up(segment, number, options))
        .collect();
    for (number, pod) in pods.iter().enumerate() {
        assert_eq!(pod.addresses[0].to_string(), format!("10.200.{number}.2"));
        assert_eq!(pod.addresses.len(), families);
    }
    for from in &pods {
        for (number, to) in pods.iter().enumerate() {
            for address in &to.addresses {
                let seen = from.pod.namespace.ask_tcp(SocketAddr::new(*address, 80));
                assert_eq!(seen.unwrap().local.ip(), *address);
            }
            let node = format!("192.168.199.21{number}:8080").parse().unwrap();
            let seen = from.pod.namespace.ask_tcp(node).unwrap();
            assert_eq!(seen.local.ip(), to.addresses[0]);
        }
    }
}

#[test]
fn pods_of_three_nodes_reach_each_other() {
    let Some(segment) = Segment::new("workers") else {
        return;
    };
    fs::write(&segment.file, WORKERS).unwrap();
    expect_all_reached(&segment, 1, "");
}

#[test]
fn pods_of_three_dual_stack_nodes_reach_each_other() {
    let Some(segment) = Segment::new("workers6") else {
        return;
    };
    expect_all_reached(&segment, 2, "--types lite");
}
