//! A store so large that ours keeps an index of it, used by ours and by the reference plugin in turn:
//! either finds what the other has done.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use std::fs;

use serde_json::{Value, json};
use tests::{Answer, Node, Plugins, Pod, reference_variants};

fn config(node: &Node) -> Value {
    json!({
        "cniVersion": "1.0.0", "name": "net", "type": "host-local",
        "ipam": { "type": "host-local", "subnet": "10.1.0.0/16", "dataDir": node.data }
    })
}

fn call(plugins: &Plugins, pod: &Pod, command: &str, id: &str) -> Answer {
    let id = [("CNI_CONTAINERID", id)];
    plugins.call(&config(plugins.node), command, pod, &id)
}

/// The address that ADD gives.
#[track_caller]
fn add(plugins: &Plugins, pod: &Pod, id: &str) -> String {
    let answer = call(plugins, pod, "ADD", id);
    assert_eq!(answer.status, 0, "{answer:?}");
    let address = answer.json["ips"][0]["address"].as_str().unwrap();
    address.trim_end_matches("/16").to_owned()
}

#[track_caller]
fn del(plugins: &Plugins, pod: &Pod, id: &str) {
    let answer = call(plugins, pod, "DEL", id);
    assert_eq!(answer.status, 0, "{answer:?}");
}

/// Who holds an address; none where it is free.
fn holder(node: &Node, ip: &str) -> Option<String> {
    let content = fs::read_to_string(node.data.join("net").join(ip)).ok()?;
    Some(content.split("\r\n").next().unwrap().to_owned())
}

#[test]
fn either_finds_what_the_other_has_done() {
    let Some(variant) = reference_variants().into_iter().next() else {
        return;
    };
    let Some(node) = Node::new("large-store") else {
        return;
    };
    let store = node.data.join("net");
    fs::create_dir_all(&store).unwrap();
    for number in 2..202 {
        let content = format!("filler{number}\r\neth0");
        fs::write(store.join(format!("10.1.0.{number}")), content).unwrap();
    }
    let pod = node.pod("pod");
    let ours = Plugins::ours(&node, variant);
    let theirs = Plugins::theirs(&node, variant);
    let (mut by_ours, mut by_theirs) = (Vec::new(), Vec::new());
    for round in 0..5 {
        by_ours.push(add(&ours, &pod, &format!("ours{round}")));
        by_theirs.push(add(&theirs, &pod, &format!("theirs{round}")));
    }
    let mut all: Vec<&String> = by_ours.iter().chain(&by_theirs).collect();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 10, "{by_ours:?} {by_theirs:?}");
    // A second ADD is refused, whoever made the first.
    for plugins in [&ours, &theirs] {
        for id in ["ours1", "theirs1"] {
            let again = call(plugins, &pod, "ADD", id);
            assert!(
                again.error().1.contains("duplicate allocation"),
                "{again:?}"
            );
        }
    }
    // DEL by the other, and by itself after the other has written.
    del(&theirs, &pod, "ours0");
    del(&ours, &pod, "theirs0");
    del(&theirs, &pod, "theirs1");
    del(&ours, &pod, "ours1");
    for ip in [&by_ours[0], &by_ours[1], &by_theirs[0], &by_theirs[1]] {
        assert_eq!(holder(&node, ip), None, "{ip}");
    }
    assert_eq!(holder(&node, &by_ours[2]).as_deref(), Some("ours2"));
    // What the other has freed is not lost, and an id whose reservation it freed gets a new one.
    let again = add(&ours, &pod, "ours0");
    assert_eq!(holder(&node, &again).as_deref(), Some("ours0"));
}
