//! STATUS says why an ADD could not be served, and leaves no trace.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tests::{Answer, Family, Node, kind, sh, with, with_mounts, without_tools, write_script};

/// No tool is found on it.
const NO_PATH: &[(&str, &str)] = &[("PATH", "/does/not/exist")];

/// The network's name.
const NETWORK: &str = "testnet";

/// The bridge's configuration with everything that STATUS looks at; its IPAM has two addresses.
fn bridge(node: &Node) -> Value {
    bridge_of(node, Family::V4)
}

/// The same with addresses of that family.
fn bridge_of(node: &Node, family: Family) -> Value {
    let last = family.pick("10.244.0.3", "fd00:10:244::3");
    node.bridge_config(json!({
        "cniVersion": "1.1.0",
        "ipMasq": true,
        "ipMasqBackend": "iptables",
        "ipam": {
            "type": "host-local", "dataDir": node.data,
            "ranges": [[{ "subnet": family.expand("$NET"), "rangeEnd": last }]]
        }
    }))
}

fn plugin(kind: &str, keys: Value) -> Value {
    let mut config = json!({ "cniVersion": "1.1.0", "name": NETWORK, "type": kind });
    config
        .as_object_mut()
        .unwrap()
        .extend(keys.as_object().cloned().unwrap());
    config
}

fn status(node: &Node, config: &Value) -> Answer {
    node.call_network("STATUS", config, &[])
}

#[track_caller]
fn expect_ready(case: &str, answer: &Answer) {
    assert_eq!(
        (answer.status, answer.stdout.as_str()),
        (0, ""),
        "{case}: {answer:?}"
    );
}

#[test]
fn a_node_that_is_ready_is_not_touched() {
    let Some(node) = Node::new("status-ready") else {
        return;
    };
    let before = node.snapshot(NETWORK);
    let host_local = with(&bridge(&node), "type", &json!("host-local"));
    let external = json!({ "externalSetMarkChain": "KUBE-MARK-MASQ", "snat": false });
    for config in [
        bridge(&node),
        with(&bridge(&node), "ipam", &Value::Null),
        with(&bridge(&node), "ipMasqBackend", &Value::Null),
        host_local,
        plugin("portmap", json!({})),
        plugin("portmap", json!({ "backend": "nftables" })),
        plugin("portmap", external),
        plugin("bandwidth", json!({})),
        plugin(
            "bandwidth",
            json!({ "ingressRate": 8000, "ingressBurst": 8000 }),
        ),
    ] {
        for _ in 0..2 {
            expect_ready(&config.to_string(), &status(&node, &config));
        }
    }
    assert_eq!(node.snapshot(NETWORK), before);
    assert!(!node.data.exists());
}

#[test]
fn a_pool_that_is_full() {
    for family in Family::ALL {
        let Some(node) = Node::new("status-full") else {
            return;
        };
        let config = bridge_of(&node, family);
        let pods = ["a", "b"].map(|name| node.pod(name));
        for pod in &pods {
            expect_ready("room", &status(&node, &config));
            node.call("bridge", "ADD", pod, &config, &[]).ok();
        }
        let pool = family.pick("10.244.0.1-10.244.0.3", "fd00:10:244::1-fd00:10:244::3");
        let words = [
            "no IP addresses available in range set: ",
            pool,
            "2 of 2 addresses are held in ",
        ];
        status(&node, &config).expect_refused("full", 50, &words);
        node.call("bridge", "DEL", &pods[0], &config, &[]).ok();
        expect_ready("room again", &status(&node, &config));
    }
}

#[test]
fn a_store_that_cannot_be_written() {
    let Some(node) = Node::new("status-store") else {
        return;
    };
    std::fs::create_dir_all(&node.data).unwrap();
    let data = node.data.display();
    for (options, says) in [
        ("ro", "read-only file system"),
        ("nr_inodes=1", "no space left on device"),
    ] {
        let mount = format!("mount -t tmpfs -o {options} tmpfs {data}");
        let process = with_mounts(&[mount], node.bin.join("bridge"));
        let answer = node.call_network_as(process, "STATUS", &bridge(&node), &[]);
        let words = ["write ", &data.to_string(), says];
        answer.expect_refused(options, 50, &words);
    }
}

#[test]
fn no_program_for_the_configured_backend() {
    let Some(node) = Node::new("status-tools") else {
        return;
    };
    let call = |config: &Value| {
        let process = without_tools(node.bin.join(kind(config)));
        node.call_network_as(process, "STATUS", config, NO_PATH)
    };
    let portmap = plugin("portmap", json!({ "backend": "iptables" }));
    call(&portmap).expect_refused("portmap", 50, &["cannot map ports", "iptables not found"]);
    call(&bridge(&node)).expect_refused("bridge", 50, &["ipMasq: true", "iptables not found"]);
    // Nobody asks for them.
    expect_ready(
        "no ipMasq",
        &call(&with(&bridge(&node), "ipMasq", &json!(false))),
    );
    expect_ready(
        "nftables",
        &call(&with(&portmap, "backend", &json!("nftables"))),
    );
    expect_ready(
        "nobody chose",
        &call(&with(&portmap, "backend", &Value::Null)),
    );
}

#[test]
fn the_chain_of_another_program_that_marks() {
    let Some(node) = Node::new("status-mark") else {
        return;
    };
    let keys = json!({ "backend": "iptables", "externalSetMarkChain": "KUBE-MARK-MASQ" });
    let config = plugin("portmap", keys);
    let words = ["cannot map ports", "chain KUBE-MARK-MASQ not found"];
    status(&node, &config).expect_refused("no chain", 50, &words);
    sh(&node.namespace, "iptables -t nat -N KUBE-MARK-MASQ");
    expect_ready("chain", &status(&node, &config));
}

#[test]
fn a_node_that_cannot_forward() {
    let Some(node) = Node::new("status-forward") else {
        return;
    };
    let config = bridge(&node);
    let call = |config: &Value| {
        let lines = [
            "mount --bind /proc/sys /proc/sys",
            "mount -o remount,bind,ro /proc/sys",
        ];
        let process = with_mounts(&lines.map(str::to_owned), node.bin.join("bridge"));
        node.call_network_as(process, "STATUS", config, &[])
    };
    let forward = |v4: u8, v6: u8| {
        let v4 = format!("sysctl -q -w net.ipv4.ip_forward={v4}");
        let v6 = format!("sysctl -q -w net.ipv6.conf.all.forwarding={v6}");
        sh(&node.namespace, &format!("{v4}; {v6}"));
    };
    forward(1, 0);
    let ready = call(&config);
    if ready.stderr.contains("mount") {
        return lab::skip("/proc/sys cannot be mounted read-only");
    }
    expect_ready("forwarding is on", &ready);
    forward(0, 0);
    let words = [
        "failed to enable forwarding",
        "net/ipv4/ip_forward from \"0\" to \"1\"",
    ];
    call(&config).expect_refused("off", 50, &words);
    expect_ready("it can be set", &status(&node, &config));
    expect_ready(
        "no gateway",
        &call(&with(&config, "isGateway", &json!(false))),
    );
    // One family is enough as long as nobody knows which.
    forward(0, 1);
    expect_ready("IPv6", &call(&config));
    // Pods that are there suffer as well.
    node.call("bridge", "ADD", &node.pod("pod"), &config, &[])
        .ok();
    forward(0, 1);
    call(&config).expect_refused("with pods", 51, &words);
    let config = with(&bridge_of(&node, Family::V6), "bridge", &json!("cni6"));
    node.call("bridge", "ADD", &node.pod("pod6"), &config, &[])
        .ok();
    forward(1, 0);
    let words = ["net/ipv6/conf/all/forwarding from \"0\" to \"1\""];
    call(&config).expect_refused("with IPv6 pods", 51, &words);
    forward(0, 1);
    expect_ready("IPv6 pods need no IPv4", &call(&config));
}

#[test]
fn a_bridge_that_is_none() {
    let Some(node) = Node::new("status-bridge") else {
        return;
    };
    sh(&node.namespace, "ip link add cni0 type ifb");
    let words = ["\"cni0\" already exists but is not a bridge", "\"ifb\""];
    status(&node, &bridge(&node)).expect_refused("ifb", 50, &words);
}

#[test]
fn the_ipam_plugin_s_answer() {
    let Some(node) = Node::new("status-ipam") else {
        return;
    };
    let of_kind = |kind: &str| with(&bridge(&node), "ipam", &json!({ "type": kind }));
    let missing = status(&node, &of_kind("none"));
    missing.expect_refused("missing", 50, &["failed to find plugin \"none\""]);
    let object =
        json!({ "cniVersion": "1.1.0", "code": 51, "msg": "nobody answers", "details": "d" });
    let script = format!("#!/bin/sh\ncat > /dev/null\necho '{object}'\nexit 1\n");
    write_script(&node.bin.join("fake"), &script);
    status(&node, &of_kind("fake")).expect_refused("its own", 51, &["nobody answers d"]);
}

#[test]
fn traffic_that_cannot_be_shaped() {
    let Some(node) = Node::new("status-shape") else {
        return;
    };
    let Some(setpriv) = lab::find_tool("setpriv") else {
        return lab::skip("setpriv is not installed");
    };
    let config = plugin("bandwidth", json!({}));
    let mut process = Command::new(setpriv);
    process.args(["--inh-caps=-sys_admin", "--bounding-set=-sys_admin"]);
    process.arg(node.bin.join("bandwidth"));
    let answer = node.call_network_as(process, "STATUS", &config, &[]);
    answer.expect_refused(
        "no capability",
        50,
        &["traffic cannot be shaped here", "namespace"],
    );
}

#[test]
fn a_configuration_that_add_would_refuse() {
    let Some(node) = Node::new("status-config") else {
        return;
    };
    let bridge = |key: &str, value: Value| with(&bridge(&node), key, &value);
    for (config, code, word) in [
        (bridge("mtu", json!(-1)), 7, "mtu"),
        (bridge("dns", json!(5)), 6, "dns"),
        (plugin("bandwidth", json!({ "dns": 5 })), 6, "dns"),
        (
            bridge(
                "ipam",
                json!({ "type": "host-local", "dataDir": node.data }),
            ),
            7,
            "no IP ranges",
        ),
        (bridge("cniVersion", json!("1.0.0")), 1, "1.0.0"),
        (
            plugin("portmap", json!({ "markMasqBit": 40 })),
            7,
            "markMasqBit",
        ),
        (
            plugin("bandwidth", json!({ "egressRate": 8000 })),
            7,
            "egressRate",
        ),
    ] {
        let case = config.to_string();
        status(&node, &config).expect_refused(&case, code, &[word]);
    }
    assert!(!Path::new(&node.data).exists());
}
