//! `podnet doctor --probe`: the ladder from inside a pod, and the first rung without an answer.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use serde_json::json;
use tests::{Answer, Patient, sh, told};

/// The first node with two pods, the second with one, and a router.
struct Ladder {
    patient: Patient,
}

impl Ladder {
    fn new() -> Option<Ladder> {
        let patient = Patient::new("probe")?;
        let segment = &patient.segment;
        for node in [1, 2] {
            segment.podnet(node, "routes apply").ok();
        }
        let list = segment.conflist(1);
        let there = segment.nodes[1].pod("there");
        segment.nodes[1].add(&list, &there, json!({})).unwrap();
        patient.sh("ip route add default via 192.168.199.1; ip -6 route add default via fd99::1");
        Some(Ladder { patient })
    }

    fn climb(&self, words: &str) -> Answer {
        self.patient
            .doctor(&format!("--probe one --peer k8sworker1 {words}"))
    }

    /// That the climb of a family ends at a rung, which means so much.
    #[track_caller]
    fn expect_stuck(&self, rung: &str, family: &str, means: &str) {
        let answer = self.climb("");
        assert_eq!(answer.status, 1, "{answer:?}");
        let stuck = told(&answer, "stuck=");
        let begins = format!("{rung} family={family} means=");
        let found = stuck.iter().find(|line| line.starts_with(&begins));
        assert!(
            found.is_some_and(|line| line.contains(means)),
            "{}",
            answer.stdout
        );
        let rungs = told(&answer, "rung=");
        let mut of_family = rungs.iter().filter(|line| line.contains(family));
        assert!(
            of_family.next_back().unwrap().starts_with(rung),
            "{}",
            answer.stdout
        );
    }
}

#[test]
fn every_rung_answers_where_nothing_is_wrong() {
    let Some(ladder) = Ladder::new() else { return };
    let answer = ladder.climb("");
    assert_eq!(answer.status, 0, "{answer:?}");
    let rungs = told(&answer, "rung=");
    assert_eq!(rungs.len(), 14, "{}", answer.stdout);
    for (place, target) in [
        "itself family=IPv4 target=10.200.0.2",
        "gateway family=IPv4 target=10.200.0.1",
        "pod-here family=IPv4 target=10.200.0.3",
        "another-node family=IPv4 target=192.168.199.211",
        "bridge-there family=IPv4 target=10.200.1.1",
        "pod-there family=IPv4 target=10.200.1.2",
        "outside family=IPv4 target=192.168.199.1",
        "itself family=IPv6 target=fd00:200::2",
    ]
    .into_iter()
    .enumerate()
    {
        assert!(rungs[place].starts_with(target), "{}", answer.stdout);
        assert!(!rungs[place].contains("=no"), "{}", answer.stdout);
    }
    assert_eq!(told(&answer, "stuck="), [""; 0]);
    let json = ladder.climb("--output json");
    let rung = &json.ok()["probe"]["rungs"][5];
    assert_eq!(rung["rung"], "pod-there");
    assert_eq!(rung["pod"]["answered"], true);
    // By its namespace, its address and its name; and what is none.
    let path = ladder.patient.pods[0]
        .namespace
        .path()
        .display()
        .to_string();
    let attachment = "k8nd-pod-network/one/eth0";
    for pod in [path.as_str(), "10.200.0.2", "fd00:200::2", attachment] {
        let answer = ladder.patient.doctor(&format!("--probe {pod}"));
        assert_eq!(answer.status, 0, "{pod}: {answer:?}");
    }
    assert_eq!(ladder.patient.doctor("--probe nobody").status, 2);
    assert_eq!(
        ladder
            .patient
            .doctor("--probe one --peer k8sworker0")
            .status,
        2
    );
}

#[test]
fn a_pod_without_a_loopback_is_no_end_of_the_climb() {
    let Some(patient) = Patient::new("probe") else {
        return;
    };
    sh(&patient.pods[0].namespace, "ip link set lo down");
    let answer = patient.alone(&["--probe", "one"]);
    assert_eq!(answer.status, 0, "{answer:?}");
    let warning = told(&answer, "warning=");
    assert!(warning[0].starts_with("the pod's lo is down"), "{answer:?}");
    let rungs = told(&answer, "rung=");
    assert!(rungs[0].contains("pod=no node="), "{rungs:?}");
    assert!(
        rungs[1].starts_with("gateway ") && !rungs[1].contains("=no"),
        "{rungs:?}"
    );
    assert_eq!(told(&answer, "stuck="), [""; 0]);
}

#[test]
fn a_pod_alone_without_a_plan() {
    let Some(patient) = Patient::new("probe") else {
        return;
    };
    let answer = patient.alone(&["--probe", "one"]);
    assert_eq!(answer.status, 0, "{answer:?}");
    let skipped = answer
        .stdout
        .lines()
        .filter(|line| line.contains(" skipped="));
    assert_eq!(skipped.count(), 8, "{}", answer.stdout);
}

#[test]
fn the_first_rung_without_an_answer_and_what_it_means() {
    let Some(ladder) = Ladder::new() else { return };
    let patient = &ladder.patient;
    let second = &patient.segment.nodes[1].namespace;

    patient.sh("ip route add 10.200.0.2/32 via 192.168.199.1");
    ladder.expect_stuck("itself", "IPv4", "own-range-route");
    patient.sh("ip route del 10.200.0.2/32");

    sh(
        &patient.pods[0].namespace,
        "ip route replace default via 10.200.0.99 onlink dev eth0",
    );
    ladder.expect_stuck(
        "gateway",
        "IPv4",
        "nothing passes between the pod and its bridge",
    );
    sh(
        &patient.pods[0].namespace,
        "ip route replace default via 10.200.0.1 dev eth0",
    );

    sh(
        &patient.pods[1].namespace,
        "ip address del 10.200.0.3/24 dev eth0; ip address add 10.200.0.33/24 dev eth0; ip link set eth0 arp off",
    );
    ladder.expect_stuck("pod-here", "IPv4", "the other pod is dark itself");
    sh(&patient.pods[1].namespace, "ip link set eth0 arp on");

    patient.sh("iptables -A FORWARD -i cni0 -o eth0 -j DROP");
    ladder.expect_stuck(
        "another-node",
        "IPv4",
        "this node does not forward the pod's packets",
    );
    patient.sh("iptables -F FORWARD");

    patient.sh("ip -6 route del fd00:200:0:1::/64");
    ladder.expect_stuck(
        "bridge-there",
        "IPv6",
        "no route leads to the other node's pods",
    );
    patient.segment.podnet(0, "routes apply").ok();

    // The fault of the other node: its bridge answers, and its pods do not.
    sh(second, "ip route add 10.200.1.2/32 via 192.168.199.1");
    let answer = ladder.climb("--peer-pod 10.200.1.2");
    let stuck = told(&answer, "stuck=");
    assert!(
        stuck[0].starts_with("pod-there family=IPv4 means=the other node does not lead packets on"),
        "{}",
        answer.stdout
    );
    sh(second, "ip route del 10.200.1.2/32");

    patient.sh("ip route replace default via 192.168.199.99");
    ladder.expect_stuck(
        "outside",
        "IPv4",
        "the node itself has no way to the outside",
    );
}
