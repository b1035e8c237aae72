//! A pod is reached by its first packet and reaches others by its own, whatever its neighbours
//! remember of its address.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use lab::Namespace;
use serde_json::{Value, json};
use tests::{Node, Pod, at, expect_none, sh, with};

/// The ranges of both families.
const RANGES: [&str; 2] = ["10.244.0.0/24", "fd00:10:244::/64"];
/// The gateways in them.
const GATEWAYS: [&str; 2] = ["10.244.0.1", "fd00:10:244::1"];
/// The addresses of the pod that goes and of the one that comes after it.
const REUSED: [&str; 2] = ["10.244.0.50", "fd00:10:244::50"];

/// A bridge with these keys, whose IPAM has these ranges.
fn config(node: &Node, ranges: &[&str], keys: &Value) -> Value {
    let ranges: Vec<_> = ranges
        .iter()
        .map(|subnet| json!([{ "subnet": subnet }]))
        .collect();
    let ipam = json!({ "type": "host-local", "dataDir": node.data, "ranges": ranges });
    let config = node.bridge_config(json!({ "ipam": ipam }));
    let keys = keys.as_object().unwrap().iter();
    keys.fold(config, |config, (key, value)| with(&config, key, value))
}

/// With wanted addresses.
fn asking_for(config: &Value, ips: &[&str]) -> Value {
    with(config, "runtimeConfig", &json!({ "ips": ips }))
}

/// ADD; the MAC of the pod's interface.
#[track_caller]
fn add(node: &Node, pod: &Pod, config: &Value) -> String {
    let result = node.call("bridge", "ADD", pod, config, &[]);
    let mac = result.ok()["interfaces"][2]["mac"].as_str();
    mac.unwrap().to_owned()
}

/// What is wrong with how the node and another pod reach a pod that was given the addresses of one
/// that is gone, which both remember as if it had answered just now.
fn reuse(node: &Node, config: &Value, reused: &[&str]) -> Vec<String> {
    let other = node.pod("other");
    add(node, &other, config);
    let asking = asking_for(config, reused);
    let gone = node.pod("gone");
    let old = add(node, &gone, &asking);
    node.call("bridge", "DEL", &gone, &asking, &[]).ok();
    let clients = [(&node.namespace, "cni0"), (&other.namespace, "eth0")];
    for (client, link) in clients {
        for address in reused {
            let entry = format!("{address} lladdr {old} nud reachable dev {link}");
            sh(client, &format!("ip neigh replace {entry}"));
        }
    }
    let new = add(node, &node.pod("pod"), &asking);
    assert_ne!(old, new);

    let known = |(client, _): &(&Namespace, _)| {
        let each = reused.iter().map(|address| {
            let entry = sh(client, &format!("ip neigh show {address}"));
            (!entry.contains(&new))
                .then(|| format!("{}: {address} is not at {new}: {entry}", client.name()))
        });
        each.flatten().collect::<Vec<_>>()
    };
    let mut failed: Vec<_> = clients.iter().flat_map(known).collect();
    for (client, _) in clients {
        let asked = reused.iter().map(|address| client.ping_once(at(address)));
        failed.extend(asked.filter_map(Result::err).map(|error| error.to_string()));
    }
    failed
}

#[test]
fn a_reused_address_is_reached_at_once() {
    let variants: [(&[&str], &[&str], Value); 6] = [
        (&RANGES, &REUSED, json!({})),
        (&RANGES[..1], &REUSED[..1], json!({})),
        (&RANGES[1..], &REUSED[1..], json!({})),
        (&RANGES[1..], &REUSED[1..], json!({ "enabledad": true })),
        (&RANGES, &REUSED, json!({ "isGateway": false })),
        (
            &RANGES,
            &REUSED,
            json!({ "hairpinMode": true, "ipMasq": true }),
        ),
    ];
    for (ranges, reused, keys) in variants {
        let Some(node) = Node::new("reused") else {
            return;
        };
        // Where the bridge is no gateway, the node has a way to the pods all the same.
        let by_hand = "ip link add cni0 type bridge; ip link set cni0 up
                       ip address add 10.244.0.9/24 dev cni0
                       ip address add fd00:10:244::9/64 dev cni0 nodad";
        if keys["isGateway"] == false {
            sh(&node.namespace, by_hand);
        }
        let config = config(&node, ranges, &keys);
        let failed = reuse(&node, &config, reused);
        assert!(failed.is_empty(), "{config}: {failed:#?}");
    }
}

/// A question for an address that is lost is not asked again while a probe waits for the answer.
fn ask_once(namespace: &Namespace) {
    let files = "/proc/sys/net/ipv[46]/neigh/*/retrans_time_ms";
    let lines = format!("for file in {files}; do echo 60000 > $file; done");
    sh(namespace, &lines);
}

/// Right after the first ADD on a bridge: from the pod to its gateway, from the node and from a host
/// beyond it to the pod; right after the second: from pod to pod.
fn first_packets(bridge: &str, keys: &Value) -> Option<Vec<String>> {
    let mut failed = Vec::new();
    for (asking, asked) in [
        ("pod", "gateway"),
        ("node", "pod"),
        ("outside", "pod"),
        ("other", "pod"),
    ] {
        let node = Node::new("first")?;
        let outside = node.outside();
        sh(
            &outside,
            "ip route add 10.244.0.0/24 via 192.0.2.10
             ip route add fd00:10:244::/64 via 2001:db8::10",
        );
        // Its own way to the node is none of the matter.
        for address in ["192.0.2.10", "2001:db8::10"] {
            outside.ping(at(address)).unwrap();
        }
        sh(&node.namespace, bridge);
        let config = with(
            &config(&node, &RANGES, keys),
            "isDefaultGateway",
            &json!(true),
        );
        let [pod, other] = ["pod", "other"].map(|name| node.pod(name));
        if asking == "other" {
            add(&node, &other, &config);
        }
        add(&node, &pod, &asking_for(&config, &REUSED));
        let client = match asking {
            "pod" => &pod.namespace,
            "node" => &node.namespace,
            "outside" => &outside,
            _ => &other.namespace,
        };
        for namespace in [client, &node.namespace] {
            ask_once(namespace);
        }
        let targets = if asked == "gateway" { GATEWAYS } else { REUSED };
        for target in targets {
            let error = client.ping_once(at(target)).err();
            failed.extend(error.map(|error| format!("{bridge:?} {keys}: {error}")));
        }
    }
    Some(failed)
}

#[test]
fn the_first_packets_are_answered() {
    for (bridge, keys) in [
        ("", json!({})),
        ("", json!({ "enabledad": true })),
        // A bridge that waits for its first use.
        ("ip link add cni0 type bridge", json!({})),
    ] {
        let Some(failed) = first_packets(bridge, &keys) else {
            return;
        };
        expect_none(failed);
    }
}

#[test]
fn a_pod_whose_interface_stays_down_tells_nobody() {
    let Some(node) = Node::new("silent") else {
        return;
    };
    let keys = json!({ "disableContainerInterface": true, "ipam": {} });
    let pod = node.pod("pod");
    let result = node.call("bridge", "ADD", &pod, node.bridge_config(keys), &[]);
    let veth = result.ok()["interfaces"][1]["name"].as_str().unwrap();
    let link = sh(&node.namespace, &format!("ip -s -j link show {veth}"));
    let link: Value = serde_json::from_str(&link).unwrap();
    assert_eq!(link[0]["stats64"]["rx"]["packets"], 0, "{link}");
}

#[test]
fn a_pod_that_may_not_send_is_connected_all_the_same() {
    if lab::find_tool("nft").is_none() {
        return lab::skip("nft is not installed");
    }
    let Some(node) = Node::new("mute") else {
        return;
    };
    let pod = node.pod("pod");
    for family in ["arp", "ip", "ip6"] {
        let chain = "{ type filter hook output priority 0; policy drop; }";
        let lines =
            format!("nft add table {family} mute; nft 'add chain {family} mute out {chain}'");
        sh(&pod.namespace, &lines);
    }
    let config = config(&node, &RANGES, &json!({}));
    add(&node, &pod, &config);
    pod.namespace
        .ping_within(at(GATEWAYS[0]), std::time::Duration::ZERO)
        .unwrap_err();
}
