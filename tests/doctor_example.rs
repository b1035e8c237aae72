//! A cluster by hand: three workers on one segment, planned conflists, applied routes; and the route to a
//! node's own pods that shadows its bridge, made as people make it.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use lab::Namespace;
use serde_json::json;
use tests::{Answer, Pod, Segment, at, can_read_rules, sh, told};

/// The route that shadows the bridge: by the node's own address.
const SHADOW: &str = "10.200.0.0/24 via 192.168.199.210";
/// The command that mends it.
const MEND: &str = "ip route del 10.200.0.0/24 via 192.168.199.210 dev eth0 proto boot";

/// For what must not answer.
const SHORT: Duration = Duration::from_millis(700);

/// The workers of conf/lab/workers.yaml, with their planned conflists and applied routes.
fn workers() -> Option<Segment> {
    let segment = Segment::new("example").filter(|_| can_read_rules())?;
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conf/lab/workers.yaml");
    fs::copy(file, &segment.file).unwrap();
    for node in 0..3 {
        segment.conflist(node);
        segment.podnet(node, "routes apply").ok();
    }
    Some(segment)
}

/// A pod of a worker, and its address.
fn pod(segment: &Segment, node: usize) -> (Pod, IpAddr) {
    let list = segment.conflist(node);
    let pod = segment.nodes[node].pod("pod");
    let added = segment.nodes[node].add(&list, &pod, json!({})).unwrap();
    (pod, added.ips[0].address.addr())
}

fn doctor(segment: &Segment, node: usize) -> Answer {
    let cache = segment.nodes[node].cache.display().to_string();
    segment.podnet(node, &format!("doctor --cache-dir {cache}"))
}

/// That the shadow is all that the doctor finds on the first worker, and how to mend it.
#[track_caller]
fn expect_shadow(segment: &Segment, severity: &str) {
    let answer = doctor(segment, 0);
    assert_eq!(answer.status, 1, "{answer:?}");
    assert_eq!(
        told(&answer, "finding="),
        ["own-range-route"],
        "{}",
        answer.stdout
    );
    assert_eq!(told(&answer, "severity="), [severity]);
    assert_eq!(told(&answer, "mend="), [MEND]);
}

#[track_caller]
fn expect_healthy(segment: &Segment, node: usize) {
    let answer = doctor(segment, node);
    assert_eq!(told(&answer, "findings="), ["0"], "{answer:?}");
    assert_eq!(answer.status, 0, "{answer:?}");
}

#[track_caller]
fn expect_dark(from: &Namespace, target: IpAddr) {
    let answered = from.ping_within(target, SHORT);
    assert!(answered.is_err(), "{} reaches {target}", from.name());
}

#[test]
fn a_pod_of_each_worker_reaches_a_pod_of_each_other() {
    let Some(segment) = workers() else { return };
    let pods: Vec<_> = (0..3).map(|node| pod(&segment, node)).collect();
    for (from, _) in &pods {
        for (_, to) in &pods {
            from.namespace.ping(*to).unwrap();
        }
    }
    for node in 0..3 {
        expect_healthy(&segment, node);
    }
}

#[test]
fn a_route_to_the_own_range_before_the_first_pod_and_its_mend() {
    let Some(segment) = workers() else { return };
    let node = &segment.nodes[0].namespace;
    let (one, to_one) = pod(&segment, 1);
    let (two, to_two) = pod(&segment, 2);
    // A fresh node, without a bridge yet.
    expect_healthy(&segment, 0);
    sh(node, &format!("ip route add {SHADOW}"));
    expect_shadow(&segment, "error");

    let (zero, to_zero) = pod(&segment, 0);
    for from in [&one.namespace, &two.namespace, node] {
        expect_dark(from, to_zero);
    }
    expect_dark(&zero.namespace, to_one);
    // Every other node answers, and this one too.
    one.namespace.ping(to_two).unwrap();
    two.namespace.ping(to_one).unwrap();
    one.namespace.ping(at("192.168.199.210")).unwrap();
    expect_shadow(&segment, "error");
    expect_healthy(&segment, 1);

    sh(node, MEND);
    for from in [&one.namespace, &two.namespace, node] {
        from.ping(to_zero).unwrap();
    }
    zero.namespace.ping(to_one).unwrap();
    expect_healthy(&segment, 0);
}

#[test]
fn behind_the_bridge_s_route_it_is_harmless_and_named_all_the_same() {
    let Some(segment) = workers() else { return };
    let node = &segment.nodes[0].namespace;
    let (zero, to_zero) = pod(&segment, 0);
    let (one, to_one) = pod(&segment, 1);
    let refused = node.read("sh", &["-ec", &format!("ip route add {SHADOW}")]);
    assert!(refused.unwrap_err().to_string().contains("File exists"));
    sh(node, &format!("ip route append {SHADOW}"));
    one.namespace.ping(to_zero).unwrap();
    zero.namespace.ping(to_one).unwrap();
    expect_shadow(&segment, "warning");
    sh(node, MEND);
    expect_healthy(&segment, 0);
}
