//! Filters of the reference plugins (Debian's `containernetworking-plugins`), and ours: made by the
//! one, and removed by the other.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use tests::{Node, Plugins, Pod, reference_variants, with};

/// The node, and the variant of iptables that both use, which matters little here.
fn node(label: &str) -> Option<(Node, &'static str)> {
    let variant = *reference_variants().first()?;
    let node = Node::new(label).filter(Node::can_filter_frames)?;
    Some((node, variant))
}

fn config(node: &Node, more: Value) -> Value {
    with(&node.bridge_config(more), "macspoofchk", &json!(true))
}

fn filters(node: &Node) -> Vec<String> {
    let mut rules = node.snapshot("testnet").rules;
    rules.retain(|line| line.contains("bridge nat"));
    rules
}

/// A pod of the one, and what its filter is without what differs from one run to the next.
fn made(plugins: &Plugins, pod: &Pod, config: &Value) -> (Value, Vec<String>) {
    let result = plugins.call(config, "ADD", pod, &[]).ok().clone();
    let part = |at: usize, key: &str| result["interfaces"][at][key].as_str().unwrap();
    let (veth, mac) = (part(1, "name"), part(2, "mac"));
    let filters = filters(plugins.node).into_iter();
    let filters = filters.map(|line| line.replace(veth, "VETH").replace(mac, "MAC"));
    let lines = filters.collect();
    (result, lines)
}

#[test]
fn the_one_removes_what_the_other_has_made() {
    let Some((node, variant)) = node("spoof-both") else {
        return;
    };
    let (ours, theirs) = (
        Plugins::ours(&node, variant),
        Plugins::theirs(&node, variant),
    );
    let config = config(&node, json!({}));
    let mut lines = Vec::new();
    for (maker, remover) in [
        (&ours, &theirs),
        (&theirs, &ours),
        (&ours, &ours),
        (&theirs, &theirs),
    ] {
        let pod = node.pod("pod");
        let (result, made) = made(maker, &pod, &config);
        assert_eq!(made.len(), 6, "{made:?}");
        lines.push(made);
        let config = with(&config, "prevResult", &result);
        for checker in [&ours, &theirs] {
            checker.call(&config, "CHECK", &pod, &[]).ok();
        }
        let removed = remover.call(&config, "DEL", &pod, &[]);
        removed.ok();
        assert_eq!((removed.stderr.as_str(), filters(&node)), ("", vec![]));
        pod.namespace.remove().unwrap();
    }
    lines.dedup();
    assert_eq!(lines.len(), 1, "{lines:#?}");
}

#[test]
fn their_filter_is_removed_by_ours_whatever_is_missing() {
    let Some((node, variant)) = node("spoof-theirs") else {
        return;
    };
    let (ours, theirs) = (
        Plugins::ours(&node, variant),
        Plugins::theirs(&node, variant),
    );
    let config = config(&node, json!({}));
    for case in [
        "nothing",
        "no-key",
        "no-netns",
        "twice-added",
        "half-removed",
    ] {
        let pod = node.pod(case);
        theirs.call(&config, "ADD", &pod, &[]).ok();
        let mut told = config.clone();
        let mut netns = pod.namespace.path().display().to_string();
        match case {
            "no-key" => told = with(&config, "macspoofchk", &Value::Null),
            "no-netns" => netns.clear(),
            "twice-added" => {
                // The interface alone has gone.
                pod.namespace.read("ip", &["link", "del", "eth0"]).unwrap();
                node.call("host-local", "DEL", &pod, &config, &[]).ok();
                theirs.call(&config, "ADD", &pod, &[]).ok();
            }
            "half-removed" => {
                let flush = ["flush", "chain", "bridge", "nat", "PREROUTING"];
                node.namespace.read("nft", &flush).unwrap();
            }
            _ => {}
        }
        let env = [("CNI_NETNS", netns.as_str())];
        ours.call(&told, "DEL", &pod, &env).ok();
        assert_eq!(filters(&node), [""; 0], "{case}");
        pod.namespace.remove().unwrap();
    }
}

/// Pods of both, of one id and two interfaces and the other way round.
#[test]
fn both_on_one_node() {
    let Some((node, variant)) = node("spoof-mixed") else {
        return;
    };
    let makers = [
        Plugins::ours(&node, variant),
        Plugins::theirs(&node, variant),
    ];
    let config = config(&node, json!({ "isGateway": false }));
    let config = with(
        &config,
        "ipam",
        &json!({ "type": "host-local", "subnet": "10.244.0.0/24", "dataDir": node.data }),
    );
    let mut pods = Vec::new();
    for number in 0..4 {
        let namespace = node.namespace(&format!("pod{number}"));
        let pod = Pod {
            namespace,
            id: format!("pod{}", number / 2),
            ifname: format!("eth{}", number % 2),
        };
        let result = makers[number % 2]
            .call(&config, "ADD", &pod, &[])
            .ok()
            .clone();
        pods.push((pod, with(&config, "prevResult", &result)));
    }
    while let Some((pod, told)) = pods.pop() {
        for (pod, told) in &pods {
            makers[0].call(told, "CHECK", pod, &[]).ok();
        }
        makers[0].call(&told, "CHECK", &pod, &[]).ok();
        // By the one that has not made it.
        makers[(pods.len() + 1) % 2]
            .call(&told, "DEL", &pod, &[])
            .ok();
        assert_eq!(filters(&node).len(), pods.len() * 6);
    }
}
