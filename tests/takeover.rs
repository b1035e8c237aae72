//! Binaries exchanged on a node in use: pods of the reference plugins (Debian's
//! `containernetworking-plugins`) are checked and removed by ours, and the other way round.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::thread;

use lab::{Namespace, Snapshot};
use serde_json::{Value, json};
use tests::{Family, Node, Plugins, Pod, address, reference_variants, with};

/// The network's name.
const NETWORK: &str = "testnet";

/// The configurations of the chain, for a pod with the given host port and both rates.
fn configs(node: &Node, port: usize, ranges: &Value) -> Vec<Value> {
    let text = ranges.to_string();
    let default = [(".0/", "0.0.0.0/0"), ("::/", "::/0")];
    let routes = default
        .iter()
        .filter(|(of_family, _)| text.contains(*of_family));
    let routes: Vec<_> = routes.map(|(_, dst)| json!({ "dst": dst })).collect();
    let list = json!({
        "cniVersion": "1.0.0",
        "name": NETWORK,
        "plugins": [
            {
                "type": "bridge", "isGateway": true, "ipMasq": true, "hairpinMode": true,
                "ipam": { "type": "host-local", "ranges": ranges, "routes": routes }
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

fn ipv4(node: &Node, port: usize) -> Vec<Value> {
    configs(node, port, &json!([[{ "subnet": "10.244.0.0/24" }]]))
}

fn ipv6(node: &Node, port: usize) -> Vec<Value> {
    configs(node, port, &json!([[{ "subnet": "fd00:244::/64" }]]))
}

fn dual_stack(node: &Node, port: usize) -> Vec<Value> {
    let ranges = json!([[{ "subnet": "10.244.0.0/24" }], [{ "subnet": "fd00:244::/64" }]]);
    configs(node, port, &ranges)
}

/// What the node holds after a pod has come and gone again.
#[track_caller]
fn used(plugins: &Plugins) -> Snapshot {
    let (node, configs) = (plugins.node, dual_stack(plugins.node, 7000));
    let pod = node.pod("first");
    let result = plugins.add(&configs, &pod, &[]).ok().clone();
    plugins.del(&configs, &pod, &result);
    pod.namespace.remove().unwrap();
    node.snapshot(NETWORK)
}

/// That the node holds what it held before.
#[track_caller]
fn expect_same(case: &str, node: &Node, before: &Snapshot) {
    let now = node.snapshot(NETWORK);
    let (left, lost) = (now.since(before), before.since(&now));
    assert_eq!(&now, before, "{case}: left:\n{left}\nlost:\n{lost}");
}

#[test]
fn their_pods_are_checked_and_removed_by_ours() {
    for variant in reference_variants() {
        let Some(node) = Node::new("take") else {
            return;
        };
        let (ours, theirs) = (
            Plugins::ours(&node, variant),
            Plugins::theirs(&node, variant),
        );
        let before = used(&theirs);
        for (ifname, configs) in [
            ("eth0", ipv4(&node, 8080)),
            ("eth0", ipv6(&node, 8080)),
            ("eth0", dual_stack(&node, 8080)),
            ("net1", dual_stack(&node, 8080)),
        ] {
            let pod = Pod {
                ifname: ifname.to_owned(),
                ..node.pod("pod")
            };
            let result = theirs.add(&configs, &pod, &[]).ok().clone();
            ours.check(&configs, &pod, &result);
            ours.del(&configs, &pod, &result);
            expect_same(&format!("{ifname}, iptables-{variant}"), &node, &before);
            pod.namespace.remove().unwrap();
        }
    }
}

#[test]
fn their_pods_are_removed_by_ours_whatever_is_missing() {
    for variant in reference_variants() {
        let Some(node) = Node::new("take") else {
            return;
        };
        let (ours, theirs) = (
            Plugins::ours(&node, variant),
            Plugins::theirs(&node, variant),
        );
        let before = used(&theirs);
        let configs = dual_stack(&node, 8080);
        for case in [
            "no prevResult",
            "no runtimeConfig",
            "no netns",
            "nothing",
            "twice",
        ] {
            let pod = node.pod(&case.replace(' ', "-"));
            let result = theirs.add(&configs, &pod, &[]).ok().clone();
            let result = match case {
                "no prevResult" | "nothing" => Value::Null,
                _ => result,
            };
            let configs: Vec<_> = match case {
                "no runtimeConfig" | "nothing" => {
                    let bare = |config| with(config, "runtimeConfig", &Value::Null);
                    configs.iter().map(bare).collect()
                }
                _ => configs.clone(),
            };
            let path = pod.namespace.path().display().to_string();
            let pod = if ["no netns", "nothing"].contains(&case) {
                pod.namespace.remove().unwrap();
                Pod {
                    namespace: node.namespace(&format!("stand-in-{}", case.len())),
                    ..pod
                }
            } else {
                pod
            };
            for config in configs.iter().rev() {
                let config = with(config, "prevResult", &result);
                let netns = [("CNI_NETNS", path.as_str())];
                ours.call(&config, "DEL", &pod, &netns).ok();
                if case == "twice" {
                    ours.call(&config, "DEL", &pod, &[("CNI_NETNS", "")]).ok();
                }
            }
            expect_same(&format!("{case}, iptables-{variant}"), &node, &before);
        }
    }
}

#[test]
fn our_pods_are_checked_and_removed_by_theirs() {
    for variant in reference_variants() {
        let Some(node) = Node::new("take") else {
            return;
        };
        let (ours, theirs) = (
            Plugins::ours(&node, variant),
            Plugins::theirs(&node, variant),
        );
        let before = used(&ours);
        let pod = node.pod("pod");
        for configs in [
            ipv4(&node, 8080),
            ipv6(&node, 8080),
            dual_stack(&node, 8080),
        ] {
            let result = ours.add(&configs, &pod, &[]).ok().clone();
            // Not portmap's, which looks for the rules of one family in the table of the other.
            let checkable = [configs[0].clone(), configs[2].clone()];
            theirs.check(&checkable, &pod, &result);
            theirs.del(&configs, &pod, &result);
            expect_same(&format!("iptables-{variant}"), &node, &before);
        }
    }
}

#[test]
fn both_on_one_node() {
    for variant in reference_variants() {
        for first_is_ours in [true, false] {
            let Some(node) = Node::new("mixed") else {
                return;
            };
            let ours = Plugins::ours(&node, variant);
            let theirs = Plugins::theirs(&node, variant);
            let first = if first_is_ours { &ours } else { &theirs };
            let outside = node.outside();
            let before = used(first);
            mixed(&ours, &theirs, &outside);
            expect_same(&format!("iptables-{variant}"), &node, &before);
        }
    }
}

/// Pods that are made by the one or the other, served, and removed by the one that did not make
/// them.
fn mixed(ours: &Plugins, theirs: &Plugins, outside: &Namespace) {
    let node = ours.node;
    let makers = [ours, theirs];
    let attach = |number: usize| {
        let pod = node.pod(&format!("pod{number}"));
        // Each family by both makers.
        let of_family = if number % 4 < 2 { ipv4 } else { ipv6 };
        let configs = of_family(node, 8000 + number);
        let result = makers[number % 2].add(&configs, &pod, &[]).ok().clone();
        (pod, configs, result)
    };
    let pods: Vec<_> = (0..8).map(attach).collect();

    let given: BTreeSet<_> = pods.iter().map(|(_, _, result)| address(result)).collect();
    assert_eq!(given.len(), pods.len(), "{given:?}");
    let rules = node.snapshot(NETWORK).rules;
    let distinct: BTreeSet<_> = rules.iter().collect();
    assert_eq!(distinct.len(), rules.len(), "{rules:#?}");
    for (number, (pod, configs, result)) in pods.iter().enumerate() {
        ours.check(configs, pod, result);
        let server = SocketAddr::new(address(result), 80);
        let _server = pod.namespace.serve_tcp(server).unwrap();
        let port = u16::try_from(8000 + number).unwrap();
        let own = Family::of(server.ip()).node();
        let seen = outside.ask_tcp(SocketAddr::new(own, port)).unwrap();
        assert_eq!(seen.local, server);
    }
    for (number, (pod, configs, result)) in pods.iter().enumerate() {
        makers[(number + 1) % 2].del(configs, pod, result);
    }
}

#[test]
fn one_store_for_both() {
    if reference_variants().is_empty() {
        return;
    }
    let Some(node) = Node::new("store") else {
        return;
    };
    let makers = [Plugins::ours(&node, "nft"), Plugins::theirs(&node, "nft")];
    let config = json!({
        "cniVersion": "1.0.0", "name": NETWORK, "type": "host-local",
        "ipam": { "type": "host-local", "subnet": "10.244.0.0/24", "dataDir": node.data }
    });
    let stand_in = node.pod("pod");
    // Eight at once, each for itself.
    let each = |worker: usize| -> Vec<(String, String)> {
        (0..8)
            .filter_map(|round| {
                let id = format!("pod-{worker}-{round}");
                let call = |command, by: usize| {
                    let by = &makers[by % 2];
                    by.call(&config, command, &stand_in, &[("CNI_CONTAINERID", &id)])
                };
                let added = call("ADD", worker);
                let address = added.ok()["ips"][0]["address"].as_str().unwrap();
                call("CHECK", worker + 1).ok();
                if round % 2 == 1 {
                    call("DEL", worker + 1).ok();
                    return None;
                }
                Some((address.to_owned(), id))
            })
            .collect()
    };
    let kept: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..8)
            .map(|worker| scope.spawn(move || each(worker)))
            .collect();
        let all = workers.into_iter().map(|worker| worker.join().unwrap());
        all.flatten().collect()
    });
    let mut expected: Vec<_> = kept
        .iter()
        .map(|(address, id)| format!("{} {id} eth0", address.trim_end_matches("/24")))
        .collect();
    expected.sort();
    assert_eq!(expected.len(), 32);
    assert_eq!(node.snapshot(NETWORK).reservations, expected);
}

/// Who comes second uses the gateway of the VLAN that who came first has made.
#[test]
fn pods_in_a_vlan_are_taken_over_in_both_directions() {
    let Some(variant) = reference_variants().first().copied() else {
        return;
    };
    for theirs_first in [true, false] {
        let Some(node) = Node::with_vlans("take-vlan") else {
            return;
        };
        let (ours, theirs) = (
            Plugins::ours(&node, variant),
            Plugins::theirs(&node, variant),
        );
        let [first, second] = match theirs_first {
            true => [&theirs, &ours],
            false => [&ours, &theirs],
        };
        let configs = [node.bridge_config(json!({ "vlan": 100 }))];
        let (one, other) = (node.pod("one"), node.pod("other"));
        let result = first.add(&configs, &one, &[]).ok().clone();
        ours.check(&configs, &one, &result);
        second.check(&configs, &one, &result);
        let added = second.add(&configs, &other, &[]).ok().clone();
        assert_eq!(added["interfaces"][3], result["interfaces"][3]);
        ours.check(&configs, &other, &added);
        other.namespace.ping("10.244.0.1".parse().unwrap()).unwrap();
        other.namespace.ping(address(&result)).unwrap();
        first.del(&configs, &other, &added);
        second.del(&configs, &one, &result);
        let left = node.snapshot(NETWORK);
        let names = left.links.iter().filter_map(|line| line.split(' ').next());
        let (of_gateway, shared): (Vec<_>, Vec<_>) =
            names.partition(|name| name.starts_with("veth"));
        assert_eq!(
            shared,
            ["cni0", "cni0.100", "lo"],
            "theirs first: {theirs_first}"
        );
        assert_eq!(of_gateway.len(), 1, "theirs first: {theirs_first}: {left}");
    }
}
