//! `podnet routes` on nodes of one segment, with real packets.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use lab::Namespace;
use serde_json::json;
use tests::{Segment, sh};

/// The routes that another node's are expected to be, of the first node.
const ADDED: [&str; 4] = [
    "+ 10.200.1.0/24 via 192.168.199.211 dev eth0 proto 145",
    "+ fd00:200:0:1::/64 via fd99::211 dev eth0 proto 145",
    "+ 10.200.2.0/24 via 192.168.199.212 dev eth0 proto 145",
    "+ fd00:200:0:2::/64 via fd99::212 dev eth0 proto 145",
];

/// What a node's table has of both families, but for what the kernel makes.
fn table(node: &Namespace) -> Vec<String> {
    let lines = sh(
        node,
        "ip -4 route show table all; ip -6 route show table all",
    );
    let lines = lines.lines().filter(|line| !line.contains("proto kernel"));
    lines.map(|line| line.trim().to_owned()).collect()
}

#[track_caller]
fn says(segment: &Segment, words: &str, status: i32) -> Vec<String> {
    let answer = segment.podnet(0, words);
    assert_eq!(
        (answer.status, answer.stderr.as_str()),
        (status, ""),
        "{words}: {answer:?}"
    );
    answer.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn pods_of_all_nodes_reach_each_other_by_the_routes_that_are_applied() {
    let Some(segment) = Segment::new("routes") else {
        return;
    };
    for node in 0..3 {
        segment.podnet(node, "routes apply").ok();
    }
    let pods: Vec<_> = segment
        .nodes
        .iter()
        .enumerate()
        .map(|(index, node)| {
            let list = segment.conflist(index);
            let pod = node.pod("pod");
            let added = node.add(&list, &pod, json!({})).unwrap();
            let addresses: Vec<_> = added.ips.iter().map(|ip| ip.address.addr()).collect();
            (pod, addresses)
        })
        .collect();
    for (pod, _) in &pods {
        for address in pods.iter().flat_map(|(_, addresses)| addresses) {
            pod.namespace.ping(*address).unwrap();
        }
    }
}

#[test]
fn what_is_missing_is_added_once_and_all_of_it_removed() {
    let Some(segment) = Segment::new("routes") else {
        return;
    };
    let node = &segment.nodes[0].namespace;
    let before = table(node);
    assert_eq!(says(&segment, "routes diff", 1), ADDED);
    assert_eq!(says(&segment, "routes apply --dry-run", 0), ADDED);
    assert_eq!(table(node), before);
    assert_eq!(says(&segment, "routes apply", 0), ADDED);
    let after = table(node);
    assert_eq!(after.len(), before.len() + 4, "{after:?}");
    let shown = says(&segment, "routes show", 0);
    assert_eq!(
        shown[0],
        "planned 10.200.1.0/24 via 192.168.199.211 dev eth0 proto 145 node=k8sworker1"
    );
    assert!(
        shown.iter().all(|line| line.starts_with("planned ")),
        "{shown:?}"
    );
    // Once more there is nothing to do.
    assert_eq!(says(&segment, "routes apply", 0), [""; 0]);
    assert_eq!(says(&segment, "routes diff", 0), [""; 0]);
    assert_eq!(table(node), after);

    let removed = segment.nodes[0].podnet(&["routes", "remove", "--dry-run"]);
    assert_eq!(removed.stdout.lines().count(), 4);
    assert_eq!(table(node), after);
    let removed = segment.nodes[0].podnet(&["routes", "remove"]);
    assert_eq!((removed.status, removed.stdout.lines().count()), (0, 4));
    assert_eq!(table(node), before);
}

#[test]
fn others_routes_and_the_own_range_stay_as_they_are() {
    let Some(segment) = Segment::new("routes") else {
        return;
    };
    let node = &segment.nodes[0].namespace;
    sh(
        node,
        "ip route add 10.200.0.0/24 via 192.168.199.210
         ip -6 route add fd00:200::/64 via fd99::212
         ip route add 10.200.1.0/24 via 192.168.199.1
         ip route add 10.200.2.0/24 via 192.168.199.212 proto static
         ip route add 10.200.9.0/24 via 192.168.199.1
         ip route add 172.16.0.0/12 via 192.168.199.1
         ip route add 10.200.7.0/24 via 192.168.199.212 proto 145
         ip -6 route add fd00:200:0:1::/64 via fd99::212 proto 145",
    );
    let before = table(node);
    let diff = says(&segment, "routes diff", 1);
    let blocked = "! 10.200.1.0/24 via 192.168.199.1 dev eth0 proto boot: another's route to \
                   k8sworker1 is there; see: ip route del 10.200.1.0/24 via 192.168.199.1 dev eth0 \
                   proto boot";
    assert_eq!(
        diff,
        [
            "- 10.200.7.0/24 via 192.168.199.212 dev eth0 proto 145",
            "- fd00:200:0:1::/64 via fd99::212 dev eth0 proto 145 metric 1024",
            "+ fd00:200:0:1::/64 via fd99::211 dev eth0 proto 145",
            "+ fd00:200:0:2::/64 via fd99::212 dev eth0 proto 145",
            blocked,
            "! 10.200.0.0/24 via 192.168.199.210 dev eth0 proto boot: not planned, and another's",
            "! 10.200.9.0/24 via 192.168.199.1 dev eth0 proto boot: not planned, and another's",
            "! fd00:200::/64 via fd99::212 dev eth0 proto boot metric 1024: not planned, and another's",
        ]
    );
    assert_eq!(says(&segment, "routes apply", 1), diff[..5]);
    let after = table(node);
    let gone: Vec<_> = before.iter().filter(|line| !after.contains(line)).collect();
    assert_eq!(gone.len(), 2, "{gone:?}");
    assert!(
        gone.iter().all(|line| line.contains(" proto 145")),
        "{gone:?}"
    );
    // What blocks goes by the command that is told.
    let mend = blocked.split("see: ").nth(1).unwrap();
    sh(node, mend);
    assert_eq!(
        says(&segment, "routes apply", 0),
        ["+ 10.200.1.0/24 via 192.168.199.211 dev eth0 proto 145"]
    );
    segment.nodes[0].podnet(&["routes", "remove"]).ok();
    let left = table(node);
    let others = before.iter().filter(|line| !line.contains(" proto 145"));
    let others = others.filter(|line| !line.starts_with("10.200.1.0/24"));
    assert_eq!(left, others.cloned().collect::<Vec<_>>());
}

#[test]
fn a_stale_route_to_what_is_the_own_range_now_is_left_alone_and_named() {
    let Some(segment) = Segment::new("routes") else {
        return;
    };
    let node = &segment.nodes[0].namespace;
    sh(
        node,
        "ip route add 10.200.0.0/24 via 192.168.199.212 proto 145",
    );
    let said = says(&segment, "routes apply", 1);
    let named = "! 10.200.0.0/24 via 192.168.199.212 dev eth0 proto 145: the range is \
                 k8sworker0's own, and left alone; see: ip route del ";
    assert!(said[4].starts_with(named), "{said:?}");
    assert!(sh(node, "ip route show 10.200.0.0/24").contains("192.168.199.212"));
}

#[test]
fn what_the_kernel_refuses_half_way_is_undone_and_named() {
    let Some(segment) = Segment::new("routes") else {
        return;
    };
    let node = &segment.nodes[0].namespace;
    // By a route of such a scope no next hop is reached directly, which only the kernel knows.
    sh(node, "ip route add 198.51.100.0/24 dev eth0 scope global");
    let wrong = "\
podSubnet: 10.200.0.0/16
nodes:
- {name: k8sworker0, address: 192.168.199.210}
- {name: k8sworker1, address: 192.168.199.211}
- {name: k8sworker2, address: 198.51.100.12}
";
    std::fs::write(&segment.file, wrong).unwrap();
    sh(
        node,
        "ip route add 10.200.7.0/24 via 192.168.199.212 proto 145",
    );
    let before = table(node);
    let answer = segment.podnet(0, "routes apply");
    assert_eq!(
        (answer.status, answer.stdout.as_str()),
        (1, ""),
        "{answer:?}"
    );
    let said = "podnet: add route to 10.200.2.0/24 via 198.51.100.12 on link ";
    assert!(answer.stderr.starts_with(said), "{}", answer.stderr);
    assert!(
        answer.stderr.ends_with("; the routes are as they were\n"),
        "{}",
        answer.stderr
    );
    assert_eq!(table(node), before);
}

#[test]
fn a_host_that_is_no_node_is_refused_and_told_which_there_are() {
    let Some(segment) = Segment::new("routes") else {
        return;
    };
    let file = segment.file.to_string_lossy().into_owned();
    for verb in ["show", "diff", "apply"] {
        let mut podnet = std::process::Command::new(tests::binary_folder().join("podnet"));
        podnet.args(["routes", verb, "-f", &file]);
        let answer: tests::Answer = segment.other.output(&mut podnet, b"").unwrap().into();
        assert_eq!(
            (answer.status, answer.stdout.as_str()),
            (2, ""),
            "{answer:?}"
        );
        assert!(answer.stderr.contains("is a node's"), "{}", answer.stderr);
        assert!(
            answer.stderr.contains("k8sworker0, k8sworker1, k8sworker2"),
            "{}",
            answer.stderr
        );
        let answer = segment.podnet(0, &format!("routes {verb} --for k8sworker1"));
        let said = "podnet: --for k8sworker1, but 192.168.199.210 of k8sworker0 is here\n";
        assert_eq!((answer.status, answer.stderr.as_str()), (2, said));
        let answer = segment.podnet(0, &format!("routes {verb} --for nobody"));
        assert_eq!(answer.status, 2, "{answer:?}");
    }
    assert!(sh(&segment.other, "ip route show proto 145").is_empty());
    assert!(sh(&segment.nodes[0].namespace, "ip route show proto 145").is_empty());
}

#[test]
fn another_table_is_nobodys_business_here() {
    let Some(segment) = Segment::new("routes") else {
        return;
    };
    let node = &segment.nodes[0].namespace;
    sh(
        node,
        "ip route add 10.200.1.0/24 via 192.168.199.211 table 55 proto 145",
    );
    let before = table(node);
    assert_eq!(segment.podnet(0, "routes apply").status, 0);
    let mut podnet = std::process::Command::new(tests::binary_folder().join("podnet"));
    podnet.args(["routes", "remove"]);
    let removed: tests::Answer = node.output(&mut podnet, b"").unwrap().into();
    assert_eq!(removed.stdout.lines().count(), 4, "{removed:?}");
    assert_eq!(table(node), before);
}

#[test]
fn the_same_for_programs() {
    let Some(segment) = Segment::new("routes") else {
        return;
    };
    let answer = segment.podnet(0, "routes show --output json");
    let missing = &answer.ok()["routes"][0];
    assert_eq!(answer.json["node"], "k8sworker0");
    assert_eq!(missing["mark"], "missing");
    assert_eq!(missing["destination"], "10.200.1.0/24");
    assert_eq!(missing["via"], "192.168.199.211");
    assert_eq!(missing["node"], "k8sworker1");
    let answer = segment.podnet(0, "routes apply --output json");
    assert_eq!(answer.ok()["added"].as_array().unwrap().len(), 4);
    let answer = segment.podnet(0, "routes show --output json");
    assert_eq!(answer.ok()["routes"][0]["protocol"], 145);
    assert_eq!(answer.json["routes"][0]["device"], "eth0");
    let nothing = json!({ "removed": [], "added": [], "blocked": [], "foreign": [] });
    assert_eq!(
        segment.podnet(0, "routes diff --output json").ok(),
        &nothing
    );
}
