//! The chain on nftables: without iptables, by no process, and noticed by CHECK.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use tests::{Pod, World, at, expect_none, kind, sh, with, without_tools};

/// No tool is found on it.
const NO_PATH: &[(&str, &str)] = &[("PATH", "/does/not/exist")];

#[test]
fn a_pod_s_life() {
    let Some(world) = World::nftables("nft-life") else {
        return;
    };
    let node = &world.node;
    let (pod, configs) = world.pod("pod");
    let made = world.left().rules;
    assert!(
        !made.is_empty() && made.iter().all(|line| line.starts_with("nft ")),
        "{made:?}"
    );
    for config in &configs {
        node.call(kind(config), "CHECK", &pod, config, &[]).ok();
    }
    let seen = world.outside.ask_tcp(at("192.0.2.10:8080")).unwrap();
    assert_eq!(seen.peer.ip(), at::<std::net::IpAddr>("192.0.2.1"));
    world.del("pod", &configs, &pod, &[]);
    world.expect_untouched("pod");
    // Told nothing, by no tool, and twice.
    let (pod, configs) = world.pod("again");
    let bare = |config: &Value| {
        let config = with(config, "prevResult", &Value::Null);
        with(
            &with(&config, "runtimeConfig", &Value::Null),
            "backend",
            &Value::Null,
        )
    };
    let configs: Vec<_> = configs.iter().map(bare).collect();
    for _ in 0..2 {
        world.del("again", &configs, &pod, NO_PATH);
        world.expect_untouched("again");
    }
}

#[test]
fn without_iptables_nftables_is_chosen() {
    let Some(world) = World::nftables("nft-chosen") else {
        return;
    };
    let node = &world.node;
    let call = |command: &str, pod: &Pod, config: &Value| {
        let process = without_tools(node.bin.join(kind(config)));
        node.call_as(process, command, pod, config, NO_PATH)
    };
    let pod = node.pod("pod");
    let unset = |config: &Value| {
        with(
            &with(config, "backend", &Value::Null),
            "ipMasqBackend",
            &Value::Null,
        )
    };
    let mut configs: Vec<_> = world.configs()[..2].iter().map(unset).collect();
    let mut result = Value::Null;
    for config in &configs {
        result = call("ADD", &pod, &with(config, "prevResult", &result))
            .ok()
            .clone();
    }
    for config in &mut configs {
        *config = with(config, "prevResult", &result);
        call("CHECK", &pod, config).ok();
    }
    let rules = world.left().rules.join("\n");
    for part in [
        "cni_lite_masquerade: map pods",
        "cni_lite_hostport: map ports tcp . 9080",
    ] {
        assert!(rules.contains(part), "{part}: {rules}");
    }
    for config in configs.iter().rev() {
        call("DEL", &pod, config).ok();
    }
    world.expect_untouched("pod");
}

#[test]
fn check_notices_what_is_gone() {
    if lab::find_tool("nft").is_none() {
        return lab::skip("nft is not installed");
    }
    let Some(world) = World::nftables("nft-check") else {
        return;
    };
    let node = &world.node;
    let (pod, configs) = world.pod("pod");
    let ruleset = node.folder().join("ruleset");
    let ruleset = ruleset.display();
    sh(
        &node.namespace,
        &format!("(echo flush ruleset; nft list ruleset) > {ruleset}"),
    );
    let cases = [
        (0, "flush map ip cni_lite_masquerade pods", "set pods"),
        (
            0,
            "delete table ip6 cni_lite_masquerade",
            "table ip6 cni_lite_masquerade",
        ),
        (
            1,
            "flush map ip6 cni_lite_hostport ports",
            "tcp . 9080 : fd00",
        ),
        (
            1,
            "flush chain ip cni_lite_hostport output",
            "fib daddr type local jump hostports",
        ),
        (1, "flush ruleset", "cni_lite_hostport not found"),
    ];
    let mut failed = Vec::new();
    for (index, change, words) in cases {
        sh(&node.namespace, &format!("nft '{change}'"));
        let config = &configs[index];
        let answer = node.call(kind(config), "CHECK", &pod, config, &[]);
        let (code, message) = answer.error();
        if code != 101 || !message.contains(words) {
            failed.push(format!("{change}: {code} {message}"));
        }
        sh(&node.namespace, &format!("nft -f {ruleset}"));
        node.call(kind(config), "CHECK", &pod, config, &[]).ok();
    }
    expect_none(failed);
    let asked = with(&configs[1], "conditionsV4", &json!(["tcp sport 1"]));
    let refused = node.call("portmap", "ADD", &pod, &asked, &[]);
    refused.expect_refused(
        "condition",
        7,
        &["conditionsV4", "tcp \"sport\"", "iifname"],
    );
}
