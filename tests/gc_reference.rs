//! GC on a node whose pods the reference plugins (Debian's `containernetworking-plugins`) have made.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tests::{Node, Plugins, Pod, entry, eventually, reference_variants, with};

/// The network that is collected, and another.
const NETWORKS: [&str; 2] = ["testnet", "testnet2"];

fn configs(node: &Node, network: usize, port: u16, version: &str) -> Vec<Value> {
    let list = json!({
        "cniVersion": version,
        "name": NETWORKS[network],
        "plugins": [
            {
                "type": "bridge", "bridge": format!("cni{network}"), "isGateway": true,
                "ipMasq": true, "hairpinMode": true,
                "ipam": {
                    "type": "host-local",
                    "ranges": [
                        [{ "subnet": format!("10.24{network}.0.0/24") }],
                        [{ "subnet": format!("fd00:{network}::/64") }]
                    ],
                    "routes": [{ "dst": "0.0.0.0/0" }]
                }
            },
            { "type": "portmap", "capabilities": { "portMappings": true } },
            { "type": "bandwidth", "capabilities": { "bandwidth": true } }
        ]
    });
    let asked = json!({
        "portMappings": [
            { "hostPort": port, "containerPort": 80, "protocol": "tcp" },
            { "hostPort": port, "containerPort": 53, "protocol": "udp" }
        ],
        "bandwidth": {
            "ingressRate": 100_000_000, "ingressBurst": 8_000_000,
            "egressRate": 100_000_000, "egressBurst": 8_000_000
        }
    });
    node.configs(&node.list(list), &asked)
}

/// A line for each thing that the node holds, of both networks.
fn lines(node: &Node) -> BTreeSet<String> {
    let [first, second] = NETWORKS.map(|network| node.snapshot(network));
    let all = first.to_string();
    let lines = all.lines().map(str::to_owned);
    lines.chain(second.reservations).collect()
}

/// A pod of the reference plugins, and the lines that it has made.
fn attach(theirs: &Plugins, network: usize, port: u16) -> (Pod, Value, BTreeSet<String>) {
    let node = theirs.node;
    let pod = node.pod(&format!("pod{port}"));
    let before = lines(node);
    let added = theirs.add(&configs(node, network, port, "1.0.0"), &pod, &[]);
    let result = added.ok().clone();
    (pod, result, &lines(node) - &before)
}

#[test]
fn their_pods_are_collected_by_ours() {
    for variant in reference_variants() {
        let Some(node) = Node::new("gc-reference") else {
            return;
        };
        let ours = Plugins::ours(&node, variant);
        let theirs = Plugins::theirs(&node, variant);
        for network in [0, 1] {
            let (pod, result, _) = attach(&theirs, network, 7000);
            theirs.del(&configs(&node, network, 7000, "1.0.0"), &pod, &result);
            pod.namespace.remove().unwrap();
        }
        let (alive, alive_result, _) = attach(&theirs, 0, 8000);
        let (elsewhere, elsewhere_result, _) = attach(&theirs, 1, 8001);
        let (gone, _, of_gone) = attach(&theirs, 0, 8002);
        let (held, _, of_held) = attach(&theirs, 0, 8003);
        let all = lines(&node);
        let _held = held.namespace.netns().try_clone().unwrap();
        let held_veth = host_veth(&of_held);
        gone.namespace.remove().unwrap();
        held.namespace.remove().unwrap();

        let valid = json!([entry(&alive.id, "eth0")]);
        let collect = || {
            for config in configs(&node, 0, 0, "1.1.0") {
                let config = with(&config, "cni.dev/valid-attachments", &valid);
                let config = with(&config, "runtimeConfig", &Value::Null);
                let none = [
                    ("CNI_CONTAINERID", ""),
                    ("CNI_NETNS", ""),
                    ("CNI_IFNAME", ""),
                ];
                ours.call(&config, "GC", &alive, &none).ok();
            }
            lines(&node)
        };
        // The links of one that still has its namespace say nothing of their network, and are used.
        let is_link = |line: &String| {
            let (name, _) = line.split_once(' ').unwrap();
            name.starts_with("bwp") || *line == held_veth || name == veth_name(&held_veth)
        };
        let stays: BTreeSet<_> = of_held
            .iter()
            .filter(|line| is_link(line))
            .cloned()
            .collect();
        let dead = &(&of_gone | &of_held) - &stays;
        let expected = &all - &dead;
        let same = eventually(|| {
            let now = collect();
            let (left, lost) = (&now - &expected, &expected - &now);
            let same = left.is_empty() && lost.is_empty();
            same.then_some(()).ok_or((left, lost))
        });
        assert_eq!(same, Ok(()), "iptables-{variant}");
        ours.check(&configs(&node, 0, 8000, "1.0.0"), &alive, &alive_result);
        ours.check(
            &configs(&node, 1, 8001, "1.0.0"),
            &elsewhere,
            &elsewhere_result,
        );

        // With its veth the ifb goes, which nothing is sent through any more.
        node.namespace
            .read("ip", &["link", "del", veth_name(&held_veth)])
            .unwrap();
        assert_eq!(
            collect(),
            &(&all - &of_gone) - &of_held,
            "iptables-{variant}"
        );
        ours.check(&configs(&node, 0, 8000, "1.0.0"), &alive, &alive_result);
    }
}

/// The line of the host's end of a veth pair.
fn host_veth(lines: &BTreeSet<String>) -> String {
    let mut veths = lines.iter().filter(|line| line.contains(" veth mac "));
    veths.next().unwrap().clone()
}

fn veth_name(line: &str) -> &str {
    line.split_once(' ').unwrap().0
}
