//! What can be asked of a route beside destination and gateway, and what else 1.1.0 brought to results.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests, which stand outside of them"
)]

use serde_json::{Value, json};
use tests::{Attached, Damage, Node, Pod, kind, sh, with, write_script};

const DUAL: &str = "20-dual-stack.conflist";

/// A route of each family with all that can be asked, and one for the link alone.
fn asked() -> Value {
    let keys = json!({ "mtu": 1400, "advmss": 1300, "priority": 50, "table": 100 });
    let mut routes = json!([
        { "dst": "10.9.0.0/16", "gw": "10.244.0.1", "scope": 200 },
        { "dst": "fd09::/64", "gw": "fd00:10:244::1" }
    ]);
    for route in routes.as_array_mut().unwrap() {
        let keys = keys.as_object().unwrap().clone();
        route.as_object_mut().unwrap().extend(keys);
    }
    let on_link = json!({ "dst": "10.8.0.0/16", "scope": 253, "mtu": 1350 });
    routes.as_array_mut().unwrap().push(on_link);
    routes
}

/// The configurations of a chain in a version, with the routes and the MTU.
fn chain(node: &Node, version: &str, routes: &Value) -> Vec<Value> {
    let list = node.conflist_with(DUAL, &[]);
    let rates = json!({ "bandwidth": { "egressRate": 8_000_000, "egressBurst": 800_000 } });
    let mut configs = node.configs(&list, &rates);
    configs[0]["ipam"]["routes"] = routes.clone();
    configs[0]["mtu"] = json!(1450);
    let of_version = |config| with(config, "cniVersion", &json!(version));
    configs.iter().map(of_version).collect()
}

/// What the kernel has of a destination, in all tables.
fn lines(pod: &Pod, destination: &str) -> Vec<String> {
    let all = "ip -d route show table all; ip -d -6 route show table all";
    let printed = sh(&pod.namespace, all);
    let lines = printed.lines().filter(|line| line.contains(destination));
    let mut lines: Vec<_> = lines.map(|line| line.trim().to_owned()).collect();
    lines.dedup();
    lines
}

#[test]
fn the_kernel_has_what_was_asked_and_the_chain_tells_it() {
    let Some(node) = Node::new("routes") else {
        return;
    };
    for version in ["0.3.1", "0.4.0", "1.0.0", "1.1.0"] {
        let pod = node.pod(&format!("pod{version}"));
        let configs = chain(&node, version, &asked());
        let result = node.add_each(&configs, &pod);
        assert_eq!(result["routes"], asked(), "{version}");
        let metrics = "metric 50 mtu 1400 advmss 1300";
        for (destination, words) in [
            (
                "10.9.0.0/16",
                &["via 10.244.0.1", "table 100", "scope site", metrics][..],
            ),
            ("fd09::/64", &["via fd00:10:244::1", "table 100", metrics]),
            (
                "10.8.0.0/16",
                &[
                    "10.8.0.0/16 dev eth0",
                    "table main",
                    "scope link",
                    "mtu 1350",
                ],
            ),
        ] {
            let found = lines(&pod, destination);
            let [line] = &found[..] else {
                panic!("{version}: {found:?}")
            };
            assert!(words.iter().all(|word| line.contains(word)), "{line}");
        }
        let told = |config: &Value| with(config, "prevResult", &result);
        for config in configs.iter().filter(|_| version >= "0.4.0") {
            node.call(kind(config), "CHECK", &pod, told(config), &[])
                .ok();
        }
        // Of every link that the chain made, whoever made it.
        let mtu = (version == "1.1.0").then_some(&json!(1450)).cloned();
        let interfaces = result["interfaces"].as_array().unwrap();
        assert_eq!(interfaces.len(), 4);
        for interface in interfaces {
            assert_eq!(interface.get("mtu"), mtu.as_ref(), "{version}: {interface}");
        }
        node.del_each(&configs, &pod, &[]);
    }
}

#[test]
fn the_oldest_results_cannot_tell_it() {
    let Some(node) = Node::new("routes-old") else {
        return;
    };
    for version in ["0.1.0", "0.2.0"] {
        let pod = node.pod(&format!("pod{version}"));
        let config = chain(&node, version, &asked()).remove(0);
        let result = node.call("bridge", "ADD", &pod, &config, &[]);
        let routes = json!([
            { "dst": "10.9.0.0/16", "gw": "10.244.0.1" },
            { "dst": "10.8.0.0/16" }
        ]);
        assert_eq!(result.ok()["ip4"]["routes"], routes);
        let routes = json!([{ "dst": "fd09::/64", "gw": "fd00:10:244::1" }]);
        assert_eq!(result.ok()["ip6"]["routes"], routes);
    }
}

#[test]
fn check_notices_each_that_has_changed() {
    let ipam = |node: &Node| chain(node, "1.0.0", &asked())[0]["ipam"].clone();
    let Some(node) = Node::new("routes-ipam") else {
        return;
    };
    let changes = [("bridge", json!({ "ipam": ipam(&node) }))];
    let Some(attached) = Attached::new("routes-check", DUAL, &changes, &Value::Null) else {
        return;
    };
    let v4 = "10.9.0.0/16 via 10.244.0.1 dev eth0 scope site";
    let v6 = "fd09::/64 via fd00:10:244::1 dev eth0";
    let all = "metric 50 mtu 1400 advmss 1300 table 100";
    // What takes the place of what was asked.
    let others = [
        ("MTU", "metric 50 mtu 1399 advmss 1300 table 100"),
        ("no MTU", "metric 50 advmss 1300 table 100"),
        ("segment size", "metric 50 mtu 1400 advmss 1299 table 100"),
        ("metric", "metric 51 mtu 1400 advmss 1300 table 100"),
        ("table", "metric 50 mtu 1400 advmss 1300 table 101"),
    ];
    let scope = "10.9.0.0/16 via 10.244.0.1 dev eth0 scope global";
    let mut damages: Vec<(String, String, String)> = Vec::new();
    let exchange = |from: &str, to: &str| format!("ip route delete {from}; ip route add {to}");
    for (what, other) in others {
        for route in [v4, v6] {
            let (good, bad) = (format!("{route} {all}"), format!("{route} {other}"));
            damages.push((
                format!("{what} of {route}"),
                exchange(&good, &bad),
                exchange(&bad, &good),
            ));
        }
    }
    let (good, bad) = (format!("{v4} {all}"), format!("{scope} {all}"));
    damages.push((
        "scope".to_owned(),
        exchange(&good, &bad),
        exchange(&bad, &good),
    ));
    let damages: Vec<Damage> = damages
        .iter()
        .map(|(what, done, mended)| {
            let says = match what.contains("fd09") {
                true => "fd09::/64 via fd00:10:244::1 metric 50 mtu 1400 advmss 1300 table 100}",
                false => {
                    "10.9.0.0/16 via 10.244.0.1 metric 50 mtu 1400 advmss 1300 table 100 scope 200}"
                }
            };
            (what.as_str(), done.as_str(), mended.as_str(), says)
        })
        .collect();
    attached.expect_noticed("bridge", &attached.pod.namespace, &damages);
}

/// That bridge and IPAM plugin refuse a second route with that key, and change nothing.
#[track_caller]
fn expect_refused(node: &Node, route: &Value, key: &str, value: Value, code: u64, allowed: &str) {
    let routes = json!([{ "dst": "0.0.0.0/0" }, with(route, key, &value)]);
    let config = chain(node, "1.1.0", &routes).remove(0);
    let network = config["name"].as_str().unwrap();
    let before = node.snapshot(network);
    let pod = node.pod("pod");
    let key = format!("ipam.routes[1].{key}");
    for plugin in ["host-local", "bridge"] {
        let answer = node.call(plugin, "ADD", &pod, &config, &[]);
        answer.expect_refused(plugin, code, &[&key, allowed]);
        assert_eq!(node.snapshot(network), before, "{routes}");
    }
    node.call("bridge", "DEL", &pod, &config, &[]).ok();
    pod.namespace.remove().unwrap();
}

#[test]
fn what_no_route_can_have_is_refused_before_anything_is_made() {
    let Some(node) = Node::new("routes-refused") else {
        return;
    };
    let v4 = json!({ "dst": "10.9.0.0/16" });
    let v6 = json!({ "dst": "fd09::/64" });
    let by_gateway = with(&v4, "gw", &json!("10.244.0.1"));
    for (route, key, value, allowed) in [
        (&v4, "mtu", 65_521, "68 to 65520"),
        (&v4, "mtu", 67, "68 to 65520"),
        (&v6, "mtu", 1279, "1280 to 65520"),
        (&v6, "advmss", 65_496, "1 to 65495"),
        (&v4, "scope", 255, "below 255"),
        (&by_gateway, "scope", 253, "below 253 with \"gw\""),
    ] {
        expect_refused(&node, route, key, json!(value), 7, allowed);
    }
    for (route, key, value, allowed) in [
        (&v4, "scope", json!(256), "0 to 255"),
        (&v4, "mtu", json!(-1), "0 to 4294967295"),
        (&v6, "advmss", json!(1.5), "0 to 4294967295"),
        (&v4, "priority", json!(1_u64 << 32), "4294967296"),
        (&v6, "table", json!("main"), "\"main\""),
    ] {
        expect_refused(&node, route, key, value, 6, allowed);
    }
}

/// Another IPAM plugin may not look.
#[test]
fn what_an_ipam_plugin_gives_is_looked_at_too() {
    let Some(node) = Node::new("routes-ipam") else {
        return;
    };
    let calls = node.folder().join("calls");
    let printed = json!({
        "cniVersion": "1.0.0",
        "ips": [{ "address": "10.244.0.2/24", "gateway": "10.244.0.1" }],
        "routes": [{ "dst": "10.9.0.0/16", "mtu": 70_000 }]
    });
    let script = format!(
        "#!/bin/sh\necho $CNI_COMMAND >> {}\ncat > /dev/null\necho '{printed}'\n",
        calls.display()
    );
    write_script(&node.bin.join("generous"), &script);
    let config = chain(&node, "1.0.0", &json!([])).remove(0);
    let config = with(&config, "ipam", &json!({ "type": "generous" }));
    let before = node.snapshot("dual-stack-pod-network");
    let answer = node.call("bridge", "ADD", &node.pod("pod"), &config, &[]);
    let words = ["ipam.routes[].mtu: 70000", "68 to 65520", "10.9.0.0/16"];
    answer.expect_refused("bridge", 7, &words);
    assert_eq!(std::fs::read_to_string(calls).unwrap(), "ADD\nDEL\n");
    assert_eq!(node.snapshot("dual-stack-pod-network"), before);
}

#[test]
fn later_plugins_hand_on_all_that_they_are_given() {
    let Some(node) = Node::new("routes-chain") else {
        return;
    };
    for version in ["0.4.0", "1.0.0", "1.1.0"] {
        let pod = node.pod(&format!("pod{version}"));
        let configs = chain(&node, version, &asked());
        let mut result = node
            .call("bridge", "ADD", &pod, &configs[0], &[])
            .ok()
            .clone();
        if version >= "1.0.0" {
            let eth0 = result["interfaces"][2].as_object_mut().unwrap();
            eth0.insert("socketPath".to_owned(), json!("/run/vhost.sock"));
            eth0.insert("pciID".to_owned(), json!("0000:00:1f.6"));
            eth0.insert("mtu".to_owned(), json!(1440));
        }
        let ports = json!({ "portMappings": [{ "hostPort": 8080, "containerPort": 80 }] });
        let portmap = with(&configs[1], "runtimeConfig", &ports);
        let portmap = with(&portmap, "prevResult", &result);
        assert_eq!(
            node.call("portmap", "ADD", &pod, &portmap, &[]).ok(),
            &result
        );
        let bandwidth = with(&configs[2], "prevResult", &result);
        let mut told = node
            .call("bandwidth", "ADD", &pod, &bandwidth, &[])
            .ok()
            .clone();
        let ifb = told["interfaces"].as_array_mut().unwrap().pop().unwrap();
        assert!(ifb["name"].as_str().unwrap().starts_with("bwp"), "{ifb}");
        assert_eq!(told, result, "{version}");
        node.del_each(&configs, &pod, &[]);
    }
}
