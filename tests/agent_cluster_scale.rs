//! `podnet agent` beside Kubernetes itself with thousands of nodes: what it makes of them, in which time, and what
//! that costs. `CLUSTER_NODES` says how many.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use std::io::{Write as _, stderr};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::{
    Agent, Plane, Segment, agent_routes, at, eventually_within, kubernetes_node, registered,
    routes_to, sh,
};

/// How many nodes there are, one number after the other.
const NODES: &str = "1000,5000";
/// How many clients make them at once, and how many each at a time.
const MAKERS: usize = 6;
const BATCH: usize = 100;
/// How often one of them changes.
const CHANGES: usize = 5;
/// How long anything may take on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(300);

/// The range of a node, and its address on the segment.
fn of(number: usize) -> (String, String) {
    let (high, low) = (number / 250, number % 250 + 1);
    (
        format!("10.{}.{low}.0/24", high + 100),
        format!("172.20.{}.{low}", high + 1),
    )
}

/// A Node with as much about it as a kubelet tells.
fn node(number: usize) -> Value {
    let (range, address) = of(number);
    let mut node = kubernetes_node(&format!("n{number:04}"), &[&range], &[&address]);
    let hash = |image: usize| format!("{:064x}", number * 1000 + image);
    let images = (0..50).map(|image| {
        let name = format!("registry.example.com/some-team/some-service-{image}");
        json!({ "names": [format!("{name}@sha256:{}", hash(image)), format!("{name}:v1.{image}.0")],
            "sizeBytes": 100_000_000 + image })
    });
    node["status"]["images"] = images.collect();
    let conditions = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"];
    let conditions = conditions.map(|kind| {
        json!({ "type": kind, "status": "False", "reason": "KubeletHasEnough", "message": "kubelet has enough",
            "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z" })
    });
    node["status"]["conditions"] = conditions.to_vec().into();
    let quantities = json!({ "cpu": "16", "ephemeral-storage": "102350Mi", "memory": "65843064Ki", "pods": "110" });
    node["status"]["capacity"] = quantities.clone();
    node["status"]["allocatable"] = quantities;
    node["metadata"]["labels"] = json!({ "kubernetes.io/hostname": format!("n{number:04}"),
        "kubernetes.io/os": "linux", "topology.kubernetes.io/zone": "zone-1" });
    node
}

/// Makes the nodes of these numbers, by several clients at once.
fn make(plane: &Plane, numbers: std::ops::Range<usize>) {
    let numbers: Vec<usize> = numbers.collect();
    let share = numbers.len().div_ceil(MAKERS).max(1);
    thread::scope(|scope| {
        for share in numbers.chunks(share) {
            scope.spawn(move || {
                for batch in share.chunks(BATCH) {
                    let items: Vec<Value> = batch.iter().map(|number| node(*number)).collect();
                    let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
                    let words = ["create", "--validate=false", "-f", "-"];
                    assert!(plane.kubectl(&words, &list.to_string()).is_some());
                }
            });
        }
    });
}

/// What was measured with some number of nodes.
#[derive(Debug, Default)]
struct Measured {
    nodes: usize,
    /// From its start until all routes were there; the same where they were there before.
    first: f64,
    again: f64,
    /// What of that was one look at all.
    reconcile: f64,
    /// From a node's change until its route, in the middle and at worst.
    change: (f64, f64),
    peak_mb: f64,
    processor: f64,
    requests: String,
    list_mb: f64,
    /// What a start costs the API server and its store in processor time, and a list from the cache.
    api: f64,
    cached: f64,
}

/// Waits until something is so; how long that took.
#[track_caller]
fn until(begun: Instant, is_so: impl Fn() -> bool) -> f64 {
    let is_so = eventually_within(PATIENCE, || is_so().then_some(()).ok_or(()));
    assert!(is_so.is_ok(), "not so within {PATIENCE:?}");
    begun.elapsed().as_secs_f64()
}

/// A number that the agent serves.
fn metric(agent: &Agent, name: &str) -> f64 {
    let (_, text) = agent.get("/metrics");
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(&format!("podnet_agent_{name} ")));
    value
        .and_then(|value| value.parse().ok())
        .unwrap_or_default()
}

/// What the API server and its store have taken in processor time.
fn cost(plane: &Plane) -> f64 {
    plane.processor("kube-apiserver") + plane.processor("etcd")
}

/// How many bytes the API server has answered to lists of nodes.
fn listed(plane: &Plane) -> f64 {
    let text = plane.kubectl(&["get", "--raw", "/metrics"], "").unwrap();
    let of_lists = |line: &&str| {
        line.starts_with("apiserver_response_sizes_sum")
            && line.contains("resource=\"nodes\"")
            && line.contains("verb=\"LIST\"")
    };
    let sizes = text.lines().filter(of_lists);
    let sizes = sizes.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    sizes.sum()
}

fn routes(segment: &Segment) -> Vec<String> {
    agent_routes(&segment.nodes[0].namespace)
}

fn expected(nodes: usize) -> Vec<String> {
    let all: Vec<_> = (0..nodes).map(of).collect();
    let all: Vec<_> = all
        .iter()
        .map(|(range, via)| (range.as_str(), via.as_str()))
        .collect();
    routes_to(&all)
}

/// One agent, with that many other nodes.
fn measure(segment: &Segment, plane: &Plane, nodes: usize) -> Measured {
    let kubeconfig = plane.path("agent.conf");
    let start = || {
        Agent::start_as(
            &segment.nodes[0],
            "k8sworker0",
            &kubeconfig,
            &["--resync", "3600"],
        )
    };
    let expected = expected(nodes);
    let (bytes, asked, cost) = (listed(plane), plane.asked().len(), cost(plane));
    let begun = Instant::now();
    let mut agent = start();
    let first = until(begun, || routes(segment).len() == nodes);
    // Nobody else has asked meanwhile.
    let api = self::cost(plane) - cost;
    assert_eq!(routes(segment), expected);
    until(begun, || {
        plane.condition("k8sworker0") == Some("False".into())
    });
    let listed = listed(plane) - bytes;
    let changes = changes(segment, plane, nodes);
    let reconcile = metric(&agent, "reconcile_last_seconds");
    expect_no_request(plane, &agent);
    assert_eq!(routes(segment), expected);
    // Behind its back.
    sh(
        &segment.nodes[0].namespace,
        &format!("ip route del {}", of(7).0),
    );
    until(Instant::now(), || routes(segment) == expected);
    let (peak_mb, processor) = agent.usage();
    agent.kill();
    // A watch is written down at its end.
    let requests = || asked_since(plane, asked);
    until(Instant::now(), || requests().contains("watch"));
    let requests = requests();
    let begun = Instant::now();
    agent = start();
    let again = until(begun, || metric(&agent, "routes_present") >= nodes as f64);
    let before = self::cost(plane);
    let words = ["get", "--raw", "/api/v1/nodes?resourceVersion=0"];
    assert!(plane.kubectl(&words, "").is_some());
    Measured {
        nodes,
        api,
        cached: self::cost(plane) - before,
        first,
        again,
        reconcile,
        change: changes,
        peak_mb,
        processor,
        requests,
        list_mb: listed / 1e6,
    }
}

/// Has nodes change their address and back.
fn changes(segment: &Segment, plane: &Plane, nodes: usize) -> (f64, f64) {
    let mut took = Vec::new();
    for change in 0..CHANGES {
        let number = change * nodes / CHANGES;
        let (name, (range, address)) = (format!("n{number:04}"), of(number));
        for via in ["172.20.200.200", &address] {
            plane.readdress(&name, &[via]);
            let begun = Instant::now();
            let route = || {
                sh(
                    &segment.nodes[0].namespace,
                    &format!("ip route show {range}"),
                )
            };
            took.push(until(begun, || route().contains(&format!("via {via} "))));
        }
    }
    took.sort_by(f64::total_cmp);
    (took[took.len() / 2], took[took.len() - 1])
}

/// A node that joins, and has no range for a moment, is no reason to ask: all agents see it at once.
#[track_caller]
fn expect_no_request(plane: &Plane, agent: &Agent) {
    let before = plane.asked();
    let log = || agent.log().matches("node=\"joins\"").count();
    let known = log();
    plane.create(&kubernetes_node("joins", &[], &["172.20.200.201"]));
    until(Instant::now(), || log() > known);
    plane.delete("joins");
    until(Instant::now(), || log() >= known + 2);
    assert_eq!(plane.asked(), before);
}

/// What the agent has asked since, and how often.
fn asked_since(plane: &Plane, before: usize) -> String {
    let mut counts = std::collections::BTreeMap::new();
    for (verb, uri, _) in plane.asked().into_iter().skip(before) {
        let what = uri.split('?').next().unwrap_or_default().rsplit('/').next();
        let key = format!("{verb} {}", what.unwrap_or_default());
        *counts.entry(key).or_insert(0) += 1;
    }
    let counts = counts
        .into_iter()
        .map(|(key, count)| format!("{count} {key}"));
    counts.collect::<Vec<_>>().join(", ")
}

#[test]
fn thousands_of_nodes_have_their_routes() {
    let Some(segment) = Segment::new("agent-cluster-scale") else {
        return;
    };
    let folder = segment.nodes[0].folder().to_owned();
    let Some(mut plane) = Plane::new(&segment.other, &folder) else {
        return;
    };
    plane.stop("kube-controller-manager");
    let address = at("172.20.0.1/16");
    segment.nodes[0]
        .namespace
        .add_address("eth0", address)
        .unwrap();
    let mut own = registered(0);
    own["spec"] = json!({ "podCIDR": "10.99.0.0/24", "podCIDRs": ["10.99.0.0/24"] });
    plane.create(&own);
    let numbers = std::env::var("CLUSTER_NODES").unwrap_or_else(|_| NODES.to_owned());
    let mut made = 0;
    for nodes in numbers.split(',').map(|number| number.parse().unwrap()) {
        let begun = Instant::now();
        make(&plane, made..nodes);
        let took = begun.elapsed().as_secs();
        // Not println!, which a passing test keeps to itself.
        writeln!(stderr(), "{} nodes made in {took} s", nodes - made).unwrap();
        made = nodes;
        // The API is at peace again.
        thread::sleep(Duration::from_secs(5));
        let measured = measure(&segment, &plane, nodes);
        writeln!(stderr(), "{}", table(&measured)).unwrap();
    }
}

fn table(measured: &Measured) -> String {
    let Measured {
        nodes,
        first,
        again,
        change,
        requests,
        ..
    } = measured;
    let (median, worst) = change;
    [
        format!("| nodes | {nodes} |"),
        format!("| from its start until the table is right | {first:.1} s |"),
        format!("| the same where it was right before | {again:.1} s |"),
        format!(
            "| a node's change until the route, median (worst) | {median:.2} s ({worst:.2} s) |"
        ),
        format!(
            "| a full look that changes one route | {:.0} ms |",
            measured.reconcile * 1e3
        ),
        format!("| peak memory | {:.0} MB |", measured.peak_mb),
        format!(
            "| processor time, for all of these | {:.1} s |",
            measured.processor
        ),
        format!("| requests of a start | {requests} |"),
        format!("| bytes of its lists | {:.1} MB |", measured.list_mb),
        format!(
            "| processor time of the API for a start | {:.1} s |",
            measured.api
        ),
        format!(
            "| the same for a list of its cache | {:.1} s |",
            measured.cached
        ),
    ]
    .join("\n")
}
