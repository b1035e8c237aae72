//! Pods that come and go all at once, on a node that has no bridge yet.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use cni::AddResult;
use serde_json::{Value, json};
use tests::{Family, Node, Pod};

const PODS: u16 = 32;

/// Each pod has a host port of its own, and both rates.
fn asked(number: u16) -> Value {
    json!({
        "portMappings": [
            { "hostPort": 8000 + number, "containerPort": 80, "protocol": "tcp" },
            { "hostPort": 9000 + number, "containerPort": 53, "protocol": "udp" }
        ],
        "bandwidth": {
            "ingressRate": 100_000_000, "ingressBurst": 8_000_000,
            "egressRate": 100_000_000, "egressBurst": 8_000_000
        }
    })
}

/// Runs `call` for every pod on a thread of its own, and collects what it gives.
fn at_once<T: Send>(pods: &[Pod], call: impl Fn(u16, &Pod) -> T + Sync) -> Vec<T> {
    let call = &call;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..)
            .zip(pods)
            .map(|(number, pod)| scope.spawn(move || call(number, pod)))
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join().unwrap());
        joined.collect()
    })
}

#[test]
fn pods_that_come_and_go_at_once() {
    let Some(node) = Node::new("parallel") else {
        return;
    };
    let outside = node.outside();
    let list = node.conflist("20-dual-stack.conflist");
    let pods: Vec<Pod> = (0..PODS)
        .map(|number| node.pod(&format!("pod{number}")))
        .collect();
    let untouched = node.snapshot(&list.name);

    let results: Vec<AddResult> = at_once(&pods, |number, pod| {
        node.add(&list, pod, asked(number))
            .unwrap_or_else(|error| panic!("{}: {error}", pod.id))
    });
    let addresses = |result: &AddResult| result.ips.iter().map(|ip| ip.address.addr()).collect();
    let addresses: Vec<Vec<IpAddr>> = results.iter().map(addresses).collect();
    let distinct: BTreeSet<_> = addresses.iter().flatten().collect();
    assert_eq!(distinct.len(), 2 * pods.len(), "{addresses:?}");
    expect_shared_once(&node);
    for (number, (pod, addresses)) in (0..).zip(pods.iter().zip(&addresses)) {
        for address in addresses {
            let at = |port| SocketAddr::new(*address, port);
            let _tcp = pod.namespace.serve_tcp(at(80)).unwrap();
            let _udp = pod.namespace.serve_udp(at(53)).unwrap();
            let node_at = |port: u16| SocketAddr::new(Family::of(*address).node(), port);
            let seen = [
                node.namespace.ask_tcp(at(80)),
                outside.ask_tcp(node_at(8000 + number)),
                outside.ask_udp(node_at(9000 + number)),
            ];
            for seen in seen {
                assert_eq!(seen.unwrap().local.ip(), *address, "{}", pod.id);
            }
        }
    }
    at_once(&pods, |_, pod| node.check(&list, pod).unwrap());

    at_once(&pods, |_, pod| {
        node.del(&list, pod)
            .unwrap_or_else(|error| panic!("{}: {error}", pod.id));
    });
    let left = node.snapshot(&list.name).since(&untouched);
    let left = left.filter(|line| !is_shared(line));
    assert!(left.is_empty(), "left:\n{left}");
    expect_shared_once(&node);
    for pod in &pods {
        let links = pod.namespace.netlink().unwrap().links().unwrap();
        assert_eq!(links.len(), 1, "{}: {links:?}", pod.id);
    }
}

/// Each of a few pods comes, is checked and goes again and again, whatever the others are at.
#[test]
fn pods_that_come_while_others_go() {
    let Some(node) = Node::new("parallel-churn") else {
        return;
    };
    let list = node.conflist("20-dual-stack.conflist");
    let pods: Vec<Pod> = (0..8)
        .map(|number| node.pod(&format!("pod{number}")))
        .collect();
    let untouched = node.snapshot(&list.name);
    at_once(&pods, |number, pod| {
        for round in 0..5 {
            let added = node.add(&list, pod, asked(number)).map(drop);
            let steps = [
                ("ADD", added),
                ("CHECK", node.check(&list, pod)),
                ("DEL", node.del(&list, pod)),
            ];
            for (step, done) in steps {
                done.unwrap_or_else(|error| panic!("{} {step} {round}: {error}", pod.id));
            }
        }
    });
    let left = node.snapshot(&list.name).since(&untouched);
    let left = left.filter(|line| !is_shared(line));
    assert!(left.is_empty(), "left:\n{left}");
    expect_shared_once(&node);
}

/// What all pods share, as iptables-save prints it.
const SHARED: [&str; 8] = [
    ":CNI-HOSTPORT-DNAT -",
    ":CNI-HOSTPORT-SETMARK -",
    ":CNI-HOSTPORT-MASQ -",
    "-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT",
    "-A OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT",
    "-A POSTROUTING -m comment --comment \"CNI portfwd requiring masquerade\" \
     -j CNI-HOSTPORT-MASQ",
    "-A CNI-HOSTPORT-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE",
    "-A CNI-HOSTPORT-SETMARK -m comment --comment \"CNI portfwd masquerade mark\" \
     -j MARK --set-xmark 0x2000/0x2000",
];

/// Each chain, jump and rule that pods share is there exactly once.
#[track_caller]
fn expect_shared_once(node: &Node) {
    for save in ["iptables-save", "ip6tables-save"] {
        let saved = node.namespace.read(save, &["-t", "nat"]).unwrap();
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for line in saved.lines() {
            // A chain's counters are no part of it.
            let line = line.split(" [").next().unwrap_or(line);
            *counts.entry(line).or_default() += 1;
        }
        for line in SHARED {
            assert_eq!(counts.get(line), Some(&1), "{line}\n{saved}");
        }
    }
}

/// Whether a line of a snapshot is of what all pods share: the bridge, the shared chains and
/// rules, and the chains that iptables itself declares.
fn is_shared(line: &str) -> bool {
    let built_in = ["PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"];
    let declared = |chain: &&str| line.ends_with(&format!("nat: :{chain} ACCEPT"));
    line.starts_with("cni0 bridge ")
        || SHARED
            .iter()
            .any(|shared| line.ends_with(&format!("nat: {shared}")))
        || built_in.iter().any(declared)
}
