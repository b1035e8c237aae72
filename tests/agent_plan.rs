//! `podnet agent --plan` on nodes of one segment: what it would do, and that it does none of it.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use std::fs;

use serde_json::{Value, json};
use tests::{Answer, Segment, sh};

/// A node as the API has it.
fn node(name: &str, ranges: &[&str], addresses: &[&str]) -> Value {
    let addresses = addresses
        .iter()
        .map(|address| json!({ "type": "InternalIP", "address": address }));
    json!({
        "kind": "Node",
        "metadata": { "name": name },
        "spec": { "podCIDR": ranges.first(), "podCIDRs": ranges },
        "status": { "addresses": addresses.collect::<Vec<_>>() },
    })
}

/// The nodes of a [`Segment`], with their ranges.
fn three() -> Vec<Value> {
    let nodes = (0..3).map(|number| {
        node(
            &format!("k8sworker{number}"),
            &[
                &format!("10.200.{number}.0/24"),
                &format!("fd00:200:0:{number}::/64"),
            ],
            &[
                &format!("192.168.199.21{number}"),
                &format!("fd99::21{number}"),
            ],
        )
    });
    nodes.collect()
}

/// What the agent of `k8sworker0` would do.
fn plan(segment: &Segment, nodes: &[Value], words: &str) -> Answer {
    let file = segment.nodes[0].folder().join("nodes.json");
    fs::write(&file, json!({ "kind": "List", "items": nodes }).to_string()).unwrap();
    let file = file.to_string_lossy();
    let mut all = vec![
        "agent",
        "--plan",
        "--node-name",
        "k8sworker0",
        "--nodes",
        &file,
    ];
    all.extend(words.split_whitespace());
    segment.nodes[0].podnet(&all)
}

fn lines(answer: &Answer) -> Vec<&str> {
    answer.stdout.lines().collect()
}

#[test]
fn it_says_the_same_of_routes_as_routes_diff_and_changes_nothing() {
    let Some(segment) = Segment::new("agent") else {
        return;
    };
    let namespace = &segment.nodes[0].namespace;
    sh(
        namespace,
        "ip route add 10.200.7.0/24 via 192.168.199.212 proto 145
         ip route add 10.200.2.0/24 via 192.168.199.1",
    );
    let table = || sh(namespace, "ip -4 route; ip -6 route");
    let before = table();
    let diff = segment.podnet(0, "routes diff");
    let answer = plan(&segment, &three(), "--pod-cidr 10.200.0.0/16,fd00:200::/56");
    assert_eq!(answer.status, 1, "{answer:?}");
    let said = lines(&answer);
    let diff = lines(&diff);
    assert_eq!(said[..diff.len()], diff, "{answer:?}");
    assert!(
        answer
            .stdout
            .contains("! k8sworker2: ForeignRoute: 10.200.2.0/24 via 192.168.199.1 "),
        "{answer:?}"
    );
    let conflist = said
        .iter()
        .find(|line| line.ends_with("/10-podnet.conflist"));
    assert!(conflist.unwrap().starts_with("+ /"), "{answer:?}");
    assert!(
        said.contains(&"            \"subnet\": \"10.200.0.0/24\",")
            || answer.stdout.contains("10.200.0.0/24")
    );
    assert_eq!(table(), before);
    let conf = conflist.unwrap().trim_start_matches("+ ");
    assert!(!std::path::Path::new(conf).exists());
}

#[test]
fn bad_nodes_are_named_and_the_others_get_their_routes() {
    let Some(segment) = Segment::new("agent") else {
        return;
    };
    let mut nodes = three();
    nodes.push(node("no-range", &[], &["192.168.199.220"]));
    nodes.push(node(
        "ipv6-alone",
        &["fd00:200:0:9::/64"],
        &["192.168.199.221"],
    ));
    nodes.push(node("broken", &["10.200.9.0/99"], &["192.168.199.222"]));
    nodes.push(node("virtual", &["10.200.10.0/24"], &["203.0.113.7"]));
    nodes.push(node("nowhere", &["10.200.11.0/24"], &[]));
    nodes.push(node("twice", &["10.200.1.0/24"], &["192.168.199.223"]));
    nodes.push(node("all-nodes", &["192.168.0.0/16"], &["192.168.199.224"]));
    let answer = plan(&segment, &nodes, "--output json");
    assert_eq!(answer.status, 1, "{answer:?}");
    assert_eq!(
        answer.json["added"].as_array().unwrap().len(),
        4,
        "{answer:?}"
    );
    let findings = answer.json["findings"].as_array().unwrap();
    let found: Vec<_> = findings
        .iter()
        .map(|one| {
            format!(
                "{} {}",
                one["node"].as_str().unwrap(),
                one["reason"].as_str().unwrap()
            )
        })
        .filter(|one| !one.ends_with("PluginMissing"))
        .collect();
    assert_eq!(
        found,
        [
            "all-nodes PodRangeHoldsNodes",
            "broken BadPodRange",
            "ipv6-alone NoAddress",
            "k8sworker1 PodRangeOverlaps",
            "no-range NoPodRange",
            "nowhere NoAddress",
            "twice PodRangeOverlaps",
            "virtual NextHopOffLink",
        ]
    );
    assert_eq!(answer.json["conflist"]["step"], "written");
}

#[test]
fn what_it_cannot_use_is_refused_with_its_name() {
    let Some(segment) = Segment::new("agent") else {
        return;
    };
    let file = segment.file.to_string_lossy().into_owned();
    for (nodes, words, said) in [
        (
            vec![json!({ "kind": "Pod" })],
            "",
            "\"Pod\" is no kind of this file",
        ),
        (
            three(),
            &*format!("-f {file}"),
            "the API says which nodes there are",
        ),
        (
            three(),
            "--conflist a.txt",
            "expected a file's name that ends in .conflist",
        ),
        (
            three(),
            "--pod-cidr 10.0.0.0",
            "expected an address and a prefix length",
        ),
        (three(), "--node-name A", "is no node's name"),
    ] {
        let answer = if words.starts_with("--node-name") {
            let file = segment.nodes[0].folder().join("nodes.json");
            fs::write(&file, json!({ "items": nodes }).to_string()).unwrap();
            let file = file.to_string_lossy();
            segment.nodes[0].podnet(&["agent", "--plan", "--nodes", &file, "--node-name", "A"])
        } else {
            plan(&segment, &nodes, words)
        };
        assert_eq!(
            (answer.status, answer.stdout.as_str()),
            (2, ""),
            "{words}: {answer:?}"
        );
        assert!(answer.stderr.contains(said), "{words}: {answer:?}");
    }
    // That the API knows no node of this name is something to be said, and no reason to fail.
    let answer = plan(&segment, &three()[1..], "");
    assert_eq!(answer.status, 1);
    assert!(
        answer.stdout.contains("k8sworker0: NodeUnknown: "),
        "{answer:?}"
    );
    assert!(!answer.stdout.contains(".conflist\n"), "{answer:?}");
}
