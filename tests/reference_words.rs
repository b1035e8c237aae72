//! What the reference plugins refuse is refused by ours, and the message says at least the same:
//! other programs look for these words.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use serde_json::{Value, json};
use tests::{Answer, Node, Plugins, reference_variants, with};

/// A call that is refused.
struct Refused {
    command: &'static str,
    config: Value,
    env: &'static [(&'static str, &'static str)],
}

fn add(config: Value) -> Refused {
    Refused {
        command: "ADD",
        config,
        env: &[],
    }
}

#[test]
fn by_any_plugin() {
    let config = || host_local(json!({ "subnet": "10.244.0.0/24" }));
    let keys = |more: Value| merged(config(), more);
    let env = |command, env| Refused {
        command,
        config: config(),
        env,
    };
    compare(vec![
        env("ADD", &[("CNI_CONTAINERID", "")]),
        env("ADD", &[("CNI_NETNS", ""), ("CNI_IFNAME", "")]),
        env("CHECK", &[("CNI_NETNS", "")]),
        env("DEL", &[("CNI_CONTAINERID", ""), ("CNI_IFNAME", "")]),
        env("FOO", &[]),
        env("add", &[]),
        env("ADD", &[("CNI_CONTAINERID", "a/b")]),
        env("ADD", &[("CNI_IFNAME", "a-name-of-16-bytes")]),
        env("ADD", &[("CNI_IFNAME", "..")]),
        env("ADD", &[("CNI_IFNAME", "a b")]),
        env("ADD", &[("CNI_ARGS", "FOO=1")]),
        env("ADD", &[("CNI_ARGS", "IP")]),
        env("ADD", &[("CNI_ARGS", "IgnoreUnknown=yes")]),
        add(keys(json!({ "cniVersion": "9.9.9" }))),
        add(keys(json!({ "cniVersion": "1.0" }))),
        add(keys(json!({ "name": "" }))),
        add(keys(json!({ "name": "a/b" }))),
        add(keys(json!({ "name": null }))),
        Refused {
            command: "CHECK",
            config: keys(json!({ "cniVersion": "0.3.1" })),
            env: &[],
        },
        Refused {
            command: "CHECK",
            config: keys(json!({ "cniVersion": "x" })),
            env: &[],
        },
    ]);
}

#[test]
fn by_host_local() {
    let ipam = |ipam| add(host_local(ipam));
    let ranges = |ranges: Value| ipam(json!({ "ranges": ranges }));
    let subnet = "10.244.0.0/24";
    let mut refused = vec![
        add(with(&host_local(json!({})), "ipam", &Value::Null)),
        ipam(json!({})),
        ipam(json!({ "subnet": "10.244.0.0" })),
        ipam(json!({ "subnet": "fast" })),
        ipam(json!({ "subnet": subnet, "rangeStart": "10.245.0.1" })),
        ipam(json!({ "subnet": subnet, "rangeEnd": "10.245.0.1" })),
        ipam(json!({ "subnet": subnet, "rangeStart": "10.244.0.9", "rangeEnd": "10.244.0.8" })),
        ipam(json!({ "subnet": "10.244.0.0/31" })),
        ipam(json!({ "subnet": "10.244.0.1/24" })),
        ipam(json!({ "subnet": subnet, "resolvConf": "/nowhere/resolv.conf" })),
        ranges(json!([[]])),
        ranges(json!([[{ "subnet": subnet }, { "subnet": "fd00::/64" }]])),
        ranges(json!([[{ "subnet": subnet }, { "subnet": "10.244.0.0/16" }]])),
        ranges(json!([[{ "subnet": subnet }], [{ "subnet": "10.244.0.0/16" }]])),
    ];
    for args in ["IP=x", "IP=10.244.0.1", "IP=10.245.0.9", "IP=10.244.0.9/33"] {
        refused.push(Refused {
            command: "ADD",
            config: host_local(json!({ "subnet": subnet })),
            env: match args {
                "IP=x" => &[("CNI_ARGS", "IP=x")],
                "IP=10.244.0.1" => &[("CNI_ARGS", "IP=10.244.0.1")],
                "IP=10.245.0.9" => &[("CNI_ARGS", "IP=10.245.0.9")],
                _ => &[("CNI_ARGS", "IP=10.244.0.9/33")],
            },
        });
    }
    refused.push(Refused {
        command: "CHECK",
        config: host_local(json!({ "subnet": subnet })),
        env: &[],
    });
    compare(refused);
}

#[test]
fn an_address_that_is_not_there_to_give() {
    each(|plugins| {
        let pod = plugins.node.pod("pod");
        let two = host_local(json!({ "subnet": "10.244.0.0/29", "rangeStart": "10.244.0.5" }));
        let call = |id, args| {
            let env = [("CNI_CONTAINERID", id), ("CNI_ARGS", args)];
            plugins.call(&with_data(plugins, &two), "ADD", &pod, &env)
        };
        call("a", "").ok();
        let again = call("a", "");
        let taken = call("b", "IP=10.244.0.5");
        call("b", "").ok();
        let full = call("c", "");
        vec![again, taken, full]
    });
}

#[test]
fn by_bridge() {
    let keys = |more: Value| add(merged(bridge(), more));
    compare(vec![
        keys(json!({ "hairpinMode": true, "promiscMode": true })),
        keys(json!({ "mtu": "1500" })),
        keys(json!({ "mtu": 1500.5 })),
        keys(json!({ "isGateway": "yes" })),
        keys(json!({ "ipam": { "type": "of-nobody" } })),
        keys(json!({ "ipam": { "type": "../host-local" } })),
        keys(json!({ "ipam": { "type": "host-local" } })),
        keys(json!({ "args": { "cni": { "mac": "zz" } } })),
        keys(json!({ "bridge": "eth0" })),
        Refused {
            command: "ADD",
            config: bridge(),
            env: &[("CNI_NETNS", "/run/netns/of-nobody")],
        },
        Refused {
            command: "ADD",
            config: bridge(),
            env: &[("CNI_NETNS", "/etc/passwd")],
        },
        Refused {
            command: "ADD",
            config: bridge(),
            env: &[("CNI_IFNAME", "lo")],
        },
        Refused {
            command: "CHECK",
            config: merged(bridge(), json!({ "prevResult": null })),
            env: &[],
        },
    ]);
}

#[test]
fn by_portmap() {
    let ports = |ports: Value, more: Value| {
        let config = json!({
            "cniVersion": "1.0.0", "name": "testnet", "type": "portmap",
            "runtimeConfig": { "portMappings": ports },
            "prevResult": { "cniVersion": "1.0.0", "ips": [{ "address": "10.244.0.2/24" }] }
        });
        add(merged(config, more))
    };
    let port = json!([{ "hostPort": 8080, "containerPort": 80, "protocol": "tcp" }]);
    compare(vec![
        ports(
            json!([{ "hostPort": 0, "containerPort": 80, "protocol": "tcp" }]),
            json!({}),
        ),
        ports(
            json!([{ "hostPort": -1, "containerPort": 80, "protocol": "tcp" }]),
            json!({}),
        ),
        ports(
            json!([{ "hostPort": 8080, "containerPort": 0, "protocol": "tcp" }]),
            json!({}),
        ),
        ports(port.clone(), json!({ "markMasqBit": 32 })),
        ports(port.clone(), json!({ "markMasqBit": -1 })),
        ports(
            port.clone(),
            json!({ "markMasqBit": 3, "externalSetMarkChain": "X" }),
        ),
        ports(port.clone(), json!({ "prevResult": null })),
        Refused {
            command: "CHECK",
            ..ports(port, json!({ "prevResult": null }))
        },
    ]);
}

#[test]
fn by_bandwidth() {
    let rates = |more: Value| {
        let config = json!({
            "cniVersion": "1.0.0", "name": "testnet", "type": "bandwidth",
            "prevResult": { "cniVersion": "1.0.0", "ips": [{ "address": "10.244.0.2/24" }] }
        });
        merged(config, more)
    };
    let some = json!({ "ingressRate": 1_000_000, "ingressBurst": 800_000 });
    compare(vec![
        add(rates(json!({ "ingressRate": 1_000_000 }))),
        add(rates(json!({ "egressRate": 1_000_000, "egressBurst": 0 }))),
        add(rates(json!({ "egressBurst": 1_000_000 }))),
        add(rates(
            json!({ "ingressRate": 8, "ingressBurst": 34_359_738_360_u64 }),
        )),
        add(merged(rates(some.clone()), json!({ "prevResult": null }))),
        add(rates(some.clone())),
        Refused {
            command: "CHECK",
            config: merged(rates(some), json!({ "prevResult": null })),
            env: &[],
        },
    ]);
}

fn bridge() -> Value {
    json!({
        "cniVersion": "1.0.0", "name": "testnet", "type": "bridge", "bridge": "cni0",
        "ipam": { "type": "host-local", "subnet": "10.244.0.0/24" }
    })
}

fn host_local(ipam: Value) -> Value {
    json!({ "cniVersion": "1.0.0", "name": "testnet", "type": "host-local", "ipam": ipam })
}

/// The configuration with keys more; null takes one away.
fn merged(config: Value, more: Value) -> Value {
    let keys = more.as_object().unwrap().iter();
    keys.fold(config, |config, (key, value)| with(&config, key, value))
}

/// With the node's own store.
fn with_data(plugins: &Plugins, config: &Value) -> Value {
    let mut config = config.clone();
    if let Some(ipam) = config.get_mut("ipam").and_then(Value::as_object_mut) {
        ipam.insert("dataDir".to_owned(), json!(plugins.node.data));
    }
    config
}

#[track_caller]
fn compare(refused: Vec<Refused>) {
    each(|plugins| {
        let call = |(number, refused): (usize, &Refused)| {
            // Theirs leave an interface behind where an ADD fails.
            let pod = plugins.node.pod(&format!("pod{number}"));
            let config = with_data(plugins, &refused.config);
            plugins.call(&config, refused.command, &pod, refused.env)
        };
        refused.iter().enumerate().map(call).collect()
    });
}

/// Does the same with the reference plugins and with ours, on nodes that are alike, and compares
/// the refusals.
#[track_caller]
fn each(calls: impl Fn(&Plugins) -> Vec<Answer>) {
    if reference_variants().is_empty() {
        return;
    }
    let (Some(our_node), Some(their_node)) = (Node::new("ours"), Node::new("theirs")) else {
        return;
    };
    let on = |plugins: &Plugins| {
        plugins.node.outside();
        calls(plugins)
    };
    let ours = on(&Plugins::ours(&our_node, "nft"));
    let theirs = on(&Plugins::theirs(&their_node, "nft"));
    assert_eq!(ours.len(), theirs.len());
    let mut differences = String::new();
    for (ours, theirs) in ours.iter().zip(&theirs) {
        theirs.error();
        let same = |key| said(ours, key).contains(words(said(theirs, key)));
        if ours.status != 1 || !same("msg") || !same("details") {
            differences += &format!("< {}\n> {}\n", ours.json, theirs.json);
        }
    }
    assert!(differences.is_empty(), "< ours, > theirs\n{differences}");
}

fn said<'a>(answer: &'a Answer, key: &str) -> &'a str {
    answer.json[key].as_str().unwrap_or_default()
}

/// What others may look for: the message without what its language's libraries add, and without
/// what newer releases say otherwise.
fn words(message: &str) -> &str {
    const TAILS: [&str; 7] = [
        "json: cannot unmarshal",
        "strconv.",
        "failed to Statfs",
        "unknown FS magic",
        // Ours speak one version more.
        "\"1.0.0\"]",
        // The name is quoted in newer ones.
        "provided (",
        "in path [",
    ];
    let ends = TAILS.iter().filter_map(|tail| message.find(tail));
    let end = ends.min().unwrap_or(message.len());
    message[..end].trim_end_matches('.')
}
