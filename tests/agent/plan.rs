//! `podnet agent --plan` on nodes of one segment: what it would do, and that it does none of it.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use std::fs;

use serde_json::{Value, json};
use tests::{Answer, Segment, api_node, api_nodes, sh};

/// What the agent of `k8sworker0` would do.
fn plan(segment: &Segment, nodes: &[Value], words: &str) -> Answer {
    plan_as("k8sworker0", segment, nodes, words)
}

fn plan_as(name: &str, segment: &Segment, nodes: &[Value], words: &str) -> Answer {
    let file = segment.nodes[0].folder().join("nodes.json");
    fs::write(&file, json!({ "kind": "List", "items": nodes }).to_string()).unwrap();
    let file = file.to_string_lossy();
    let mut all = vec!["agent", "--plan", "--node-name", name, "--nodes", &file];
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
    let answer = plan(
        &segment,
        &api_nodes(),
        "--pod-cidr 10.200.0.0/16,fd00:200::/56",
    );
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
    let subnet = "\"subnet\": \"10.200.0.0/24\"";
    assert!(
        said.iter().any(|line| line.trim().starts_with(subnet)),
        "{answer:?}"
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
    let mut nodes = api_nodes();
    nodes.push(api_node("no-range", &[], &["192.168.199.220"]));
    nodes.push(api_node(
        "ipv6-alone",
        &["fd00:200:0:9::/64"],
        &["192.168.199.221"],
    ));
    nodes.push(api_node("broken", &["10.200.9.0/99"], &["192.168.199.222"]));
    nodes.push(api_node("virtual", &["10.200.10.0/24"], &["203.0.113.7"]));
    nodes.push(api_node("nowhere", &["10.200.11.0/24"], &[]));
    nodes.push(api_node("twice", &["10.200.1.0/24"], &["192.168.199.223"]));
    nodes.push(api_node(
        "all-nodes",
        &["192.168.0.0/16"],
        &["192.168.199.224"],
    ));
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
            api_nodes(),
            &*format!("-f {file}"),
            "the API says which nodes there are",
        ),
        (
            api_nodes(),
            "--conflist a.txt",
            "expected a file's name that ends in .conflist",
        ),
        (
            api_nodes(),
            "--pod-cidr 10.0.0.0",
            "expected an address and a prefix length",
        ),
    ] {
        let answer = plan(&segment, &nodes, words);
        assert_eq!(
            (answer.status, answer.stdout.as_str()),
            (2, ""),
            "{words}: {answer:?}"
        );
        assert!(answer.stderr.contains(said), "{words}: {answer:?}");
    }
    let answer = plan_as("A", &segment, &api_nodes(), "");
    assert_eq!((answer.status, answer.stdout.as_str()), (2, ""));
    assert!(answer.stderr.contains("is no node's name"), "{answer:?}");
    // That the API knows no node of this name is something to be said, and no reason to fail.
    let answer = plan(&segment, &api_nodes()[1..], "");
    assert_eq!(answer.status, 1);
    assert!(
        answer.stdout.contains("k8sworker0: NodeUnknown: "),
        "{answer:?}"
    );
    assert!(!answer.stdout.contains(".conflist\n"), "{answer:?}");
}

/// A file that is none never begins, or never ends.
#[test]
fn a_conflist_that_is_no_file_is_said() {
    let Some(segment) = Segment::new("agent-no-file") else {
        return;
    };
    let file = segment.nodes[0].configurations().join("10-podnet.conflist");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    for make in ["mkfifo", "ln -sfn /dev/zero", "truncate -s 3G"] {
        let _ = fs::remove_file(&file);
        let namespace = &segment.nodes[0].namespace;
        sh(namespace, &format!("{make} {}", file.display()));
        let answer = plan(&segment, &api_nodes(), "");
        assert_eq!(answer.status, 1, "{make}: {answer:?}");
        let said = "ConflistFailed: ";
        assert!(answer.stdout.contains(said), "{make}: {answer:?}");
        assert!(answer.stdout.contains("no file of at most"), "{answer:?}");
    }
}
