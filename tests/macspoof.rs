//! `macspoofchk`: what passes, what is noticed, and what is left.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use std::net::IpAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tests::{Attached, Damage, Node, Pod, VALID, World, address, entry, expect_none, sh, with};

/// How long to wait for what must not come.
const SHORT: Duration = Duration::from_millis(700);

/// A node whose bridge is that of `config`; `None` where this machine has no such filters.
fn node(label: &str) -> Option<Node> {
    Node::new(label).filter(Node::can_filter_frames)
}

fn config(node: &Node, more: Value) -> Value {
    with(&node.bridge_config(more), "macspoofchk", &json!(true))
}

/// A pod on the bridge, and its address.
fn attach(node: &Node, name: &str, config: &Value) -> (Pod, IpAddr) {
    let pod = node.pod(name);
    let added = node.call("bridge", "ADD", &pod, config, &[]);
    let address = address(added.ok());
    (pod, address)
}

fn reaches(from: &Pod, to: IpAddr) -> bool {
    from.namespace.ping_within(to, SHORT).is_ok()
}

fn mac_of(pod: &Pod) -> String {
    let eth0 = pod.namespace.netlink().unwrap().link("eth0").unwrap();
    eth0.unwrap().mac.unwrap().to_string()
}

fn ruleset(node: &Node) -> String {
    node.namespace.read("nft", &["list", "ruleset"]).unwrap()
}

#[test]
fn only_frames_with_the_pod_s_mac_pass() {
    let Some(node) = node("spoof-traffic") else {
        return;
    };
    let (unfiltered, free) = attach(&node, "free", &node.bridge_config(json!({})));
    let (other, other_address) = attach(&node, "other", &config(&node, json!({})));
    let (pod, address) = attach(&node, "pod", &config(&node, json!({})));
    let gateway = "10.244.0.1".parse().unwrap();
    let all_reach = |case: &str| {
        for (from, to) in [
            (&pod, gateway),
            (&pod, other_address),
            (&pod, free),
            (&other, address),
            (&other, gateway),
            (&unfiltered, address),
        ] {
            assert!(from.namespace.ping(to).is_ok(), "{case}: {to}");
        }
    };
    all_reach("each with its own MAC");
    let own = mac_of(&pod);
    let pretend = |pod: &Pod, mac: &str| {
        sh(&pod.namespace, &format!("ip link set eth0 address {mac}"));
    };
    for mac in ["02:00:5e:10:00:99", &mac_of(&other)] {
        pretend(&pod, mac);
        for to in [gateway, other_address, free] {
            assert!(!reaches(&pod, to), "{mac} reaches {to}");
        }
        assert!(other.namespace.ping(gateway).is_ok() && other.namespace.ping(free).is_ok());
        pretend(&pod, &own);
    }
    all_reach("its own MAC again");
    // What is not filtered may change its MAC: it is not that which stops a pod.
    pretend(&unfiltered, "02:00:5e:10:00:98");
    for to in [gateway, address, other_address] {
        assert!(unfiltered.namespace.ping(to).is_ok(), "{to}");
    }

    let del = |pod: &Pod| {
        node.call("bridge", "DEL", pod, config(&node, json!({})), &[])
            .ok()
            .clone()
    };
    del(&pod);
    assert!(other.namespace.ping(gateway).is_ok());
    pretend(&other, "02:00:5e:10:00:99");
    assert!(!reaches(&other, gateway));
    del(&other);
    let left = ruleset(&node);
    let chain = "\tchain PREROUTING {\n\t\ttype filter hook prerouting priority dstnat; policy accept;\n\t}\n";
    assert_eq!(left, format!("table bridge nat {{\n{chain}}}\n"));
}

#[test]
fn check_notices_what_is_gone_or_changed() {
    let filter = [("bridge", json!({ "macspoofchk": true }))];
    let Some(probe) = node("spoof-check") else {
        return;
    };
    drop(probe);
    let Some(attached) = Attached::new("spoof-check", "10-k8nd.conflist", &filter, &Value::Null)
    else {
        return;
    };
    let save = "nft list table bridge nat > $STORE.nft";
    let mend = "nft add table bridge nat; nft delete table bridge nat; nft -f $STORE.nft";
    sh(&attached.node.namespace, &attached.expand(save));
    let table = "nft flush table bridge nat";
    let delete = "nft delete table bridge nat";
    let other_mac = "nft list table bridge nat | sed s/$POD_MAC/02:00:00:00:00:07/ > $STORE.x; \
                     nft delete table bridge nat; nft -f $STORE.x";
    let other_port = "nft list table bridge nat | sed s/$VETH/veth7/ > $STORE.x; \
                      nft delete table bridge nat; nft -f $STORE.x";
    let mac_chain = "nft flush chain bridge nat cni-br-iface-pod-eth0-mac";
    let jump = "nft flush chain bridge nat cni-br-iface-pod-eth0";
    let entry = "nft flush chain bridge nat PREROUTING";
    let asleep = "nft add table bridge nat '{ flags dormant; }'";
    let table: [Damage; 8] = [
        (
            "rules",
            table,
            mend,
            "rule [jump cni-br-iface-pod-eth0-mac]",
        ),
        ("table", delete, mend, "table bridge nat not found"),
        (
            "another MAC",
            other_mac,
            mend,
            "rule [ether saddr $POD_MAC return]",
        ),
        (
            "another port",
            other_port,
            mend,
            "rule [iifname \"$VETH\" jump",
        ),
        (
            "no drop",
            mac_chain,
            mend,
            "rule [ether saddr $POD_MAC return]",
        ),
        (
            "no jump",
            jump,
            mend,
            "rule [jump cni-br-iface-pod-eth0-mac]",
        ),
        ("no entry", entry, mend, "rule [iifname \"$VETH\" jump"),
        ("asleep", asleep, mend, "table bridge nat is dormant"),
    ];
    attached.expect_noticed("bridge", &attached.node.namespace, &table);
}

/// A later plugin may give the pod another MAC. The filter knows only that of ADD, and nothing the
/// pod sends would pass.
#[test]
fn check_notices_a_mac_that_the_filter_does_not_know() {
    let Some(node) = node("spoof-tuned") else {
        return;
    };
    let config = config(&node, json!({}));
    let pod = node.pod("pod");
    let mut result = node.call("bridge", "ADD", &pod, &config, &[]).ok().clone();
    let mac = "02:00:5e:10:00:42";
    sh(&pod.namespace, &format!("ip link set eth0 address {mac}"));
    result["interfaces"][2]["mac"] = json!(mac);
    let config = with(&config, "prevResult", &result);
    let answer = node.call("bridge", "CHECK", &pod, &config, &[]);
    answer.expect_refused("tuned", 101, &[mac, "cni-br-iface-pod-eth0-mac"]);
    let without = with(&config, "macspoofchk", &json!(false));
    node.call("bridge", "CHECK", &pod, &without, &[]).ok();
}

#[test]
fn del_needs_nothing_but_the_attachment() {
    let Some(world) = World::filtered("spoof-del") else {
        return;
    };
    let chain = "cni-br-iface-POD-eth0";
    let nft = |line: &str| format!("nft {line}");
    for (number, (case, broken)) in [
        ("whole", String::new()),
        (
            "no rule leads there",
            nft("flush chain bridge nat PREROUTING"),
        ),
        ("no rules", nft("flush table bridge nat")),
        (
            "the rule alone",
            format!(
                "nft flush table bridge nat; nft delete chain bridge nat {chain}; \
             nft delete chain bridge nat {chain}-mac; nft add rule bridge nat PREROUTING \
             iifname gone drop comment '\"macspoofchk-POD-eth0\"'"
            ),
        ),
        ("no table", nft("delete table bridge nat")),
        ("no host veth", "ip link del VETH".to_owned()),
    ]
    .into_iter()
    .enumerate()
    {
        for without_netns in [false, true] {
            let node = &world.node;
            let saved = node.folder().join("saved").display().to_string();
            let nft = |line: &str| sh(&node.namespace, &format!("nft {line}"));
            nft(&format!("list table bridge nat > {saved}"));
            let name = format!("pod{number}{without_netns}");
            let (pod, configs) = world.pod(&name);
            let veth = configs[0]["prevResult"]["interfaces"][1]["name"]
                .as_str()
                .unwrap();
            let broken = broken.replace("POD", &name).replace("VETH", veth);
            sh(&node.namespace, &broken);
            let bare = |config: &Value| {
                let config = with(config, "macspoofchk", &Value::Null);
                with(&config, "prevResult", &Value::Null)
            };
            let configs: Vec<_> = configs.iter().map(bare).collect();
            let env: &[(&str, &str)] = if without_netns {
                &[("CNI_NETNS", "")]
            } else {
                &[]
            };
            for _ in 0..2 {
                world.del(case, &configs, &pod, env);
            }
            assert!(!ruleset(node).contains(&name), "{case}: {}", ruleset(node));
            // What the case has taken from the others.
            nft("add table bridge nat; nft delete table bridge nat");
            nft(&format!("-f {saved}"));
            world.expect_untouched(case);
        }
    }
}

#[test]
fn a_failed_add_takes_the_filter_back() {
    let Some(world) = World::filtered("spoof-undo") else {
        return;
    };
    let pod = world.node.pod("pod");
    let mut config = world.configs().swap_remove(0);
    config["ipam"]["routes"] = json!([{ "dst": "10.9.0.0/16", "gw": "172.16.0.1" }]);
    let answer = world.node.call("bridge", "ADD", &pod, &config, &[]);
    answer.expect_refused("route", 100, &["172.16.0.1"]);
    world.expect_bare("route", &pod);
    world.expect_untouched("route");
}

#[test]
fn a_filter_that_could_not_work_is_refused_before_anything_is_changed() {
    let Some(node) = node("spoof-refused") else {
        return;
    };
    sh(
        &node.namespace,
        "nft add table bridge nat
        nft add chain bridge nat PREROUTING '{ type filter hook prerouting priority 7; }'",
    );
    let before = (node.snapshot("testnet"), ruleset(&node));
    let config = config(&node, json!({ "cniVersion": "1.1.0" }));
    let pod = node.pod("pod");
    let words = [
        "macspoofchk: true",
        "chain PREROUTING of table bridge nat has another hook",
    ];
    let added = node.call("bridge", "ADD", &pod, &config, &[]);
    added.expect_refused("ADD", 100, &words);
    let status = node.call_network("STATUS", &config, &[]);
    status.expect_refused("STATUS", 50, &words);
    assert_eq!((node.snapshot("testnet"), ruleset(&node)), before);
    assert!(!node.data.exists());
    node.call("bridge", "DEL", &pod, &config, &[]).ok();
    sh(&node.namespace, "nft delete table bridge nat");
    node.call_network("STATUS", &config, &[]).ok();
    assert_eq!(ruleset(&node), "");
    node.call("bridge", "ADD", &pod, &config, &[]).ok();
}

#[test]
fn layer_two_and_long_names_are_filtered_too() {
    let Some(node) = node("spoof-names") else {
        return;
    };
    let layer_2 = with(&config(&node, json!({})), "ipam", &Value::Null);
    let long = "c".repeat(250);
    let mut made = Vec::new();
    for (id, ifname) in [
        ("a", "b"),
        ("a-b", "mac"),
        ("a", "b-mac"),
        (&long, "eth0"),
        ("x", "fifteen-bytes-x"),
    ] {
        let pod = Pod {
            id: id.to_owned(),
            ifname: ifname.to_owned(),
            ..node.pod(&format!("pod{}", made.len()))
        };
        let result = node.call("bridge", "ADD", &pod, &layer_2, &[]).ok().clone();
        made.push((pod, with(&layer_2, "prevResult", &result)));
    }
    while !made.is_empty() {
        for (pod, config) in &made {
            node.call("bridge", "CHECK", pod, config, &[]).ok();
        }
        let (pod, config) = made.remove(made.len() / 2);
        node.call("bridge", "DEL", &pod, &config, &[]).ok();
    }
    assert!(!ruleset(&node).contains("cni-br"), "{}", ruleset(&node));
}

#[test]
fn gc_takes_filters_of_the_dead_alone() {
    let Some(world) = World::filtered("spoof-gc") else {
        return;
    };
    let node = &world.node;
    let other_network = with(
        &config(node, json!({ "bridge": "cni7" })),
        "name",
        &json!("another"),
    );
    let (_elsewhere, _) = attach(node, "elsewhere", &other_network);
    let leak = |id: &str, port: &str| {
        let chain = format!("bridge nat cni-br-iface-{id}-eth0");
        sh(
            &node.namespace,
            &format!(
                "nft add chain {chain}
            nft add rule bridge nat PREROUTING iifname {port} jump {} \
                comment '\"macspoofchk-{id}-eth0\"'",
                chain.split(' ').next_back().unwrap()
            ),
        );
    };
    leak("used", "cni7");
    let before = ruleset(node);
    let (dead, _) = world.pod("dead");
    dead.namespace.remove().unwrap();
    leak("leaked", "veth12345678");
    let bare = |config: &Value| with(config, "cniVersion", &json!("1.1.0"));
    let configs: Vec<_> = world.configs().iter().map(bare).collect();
    for _ in 0..2 {
        for answer in node.gc_each(&configs, &[entry("other", "eth0")]) {
            answer.ok();
        }
        assert_eq!(ruleset(node), before);
    }
    world.expect_other_served("after GC");
    let config = with(&other_network, "cniVersion", &json!("1.1.0"));
    let none = with(&config, VALID, &json!([]));
    node.call_network("GC", &none, &[]).ok();
    let left: Vec<_> = ["elsewhere", "leaked", "dead"]
        .into_iter()
        .filter(|name| ruleset(node).contains(name))
        .collect();
    expect_none(left);
    world.expect_other_served("after GC of another network");
}
