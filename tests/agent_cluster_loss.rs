//! `podnet agent` beside Kubernetes itself, which is lost for a while, or comes back with less than it knew.
//! `CLUSTER_SILENCE` says for how many seconds it is lost.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use std::thread::sleep;
use std::time::{Duration, Instant};

use tests::{
    Agent, Pings, Plane, Segment, agent_routes, kubernetes_node, pods_that_ping, registered,
    routes_to, sh, soon, soon_or_later,
};

/// How long nobody answers, in seconds.
const SILENCE: u64 = 60;
/// How often the agents look for themselves.
const RESYNC: &str = "10";

fn silence() -> Duration {
    let given = std::env::var("CLUSTER_SILENCE").ok();
    Duration::from_secs(given.map_or(SILENCE, |given| given.parse().unwrap()))
}

/// Two agents with a pod each, which ping each other.
struct Pair<'a> {
    agents: Vec<Agent<'a>>,
    pings: [Pings; 2],
}

impl<'a> Pair<'a> {
    fn new(segment: &'a Segment, plane: &Plane) -> Pair<'a> {
        let kubeconfig = plane.path("agent.conf");
        let nodes = &segment.nodes[..2];
        let agents = nodes.iter().enumerate().map(|(number, node)| {
            let data = node.data.to_string_lossy();
            let words = ["--resync", RESYNC, "--data-dir", &data];
            Agent::start_as(node, &format!("k8sworker{number}"), &kubeconfig, &words)
        });
        let agents: Vec<Agent> = agents.collect();
        let pings = pods_that_ping(nodes, [&agents[0], &agents[1]]);
        Pair { agents, pings }
    }

    /// That each has routes to the other and to these, within a time.
    #[track_caller]
    fn expect(&self, segment: &Segment, plane: &Plane, others: &[(&str, &str)]) {
        let ranges = [0, 1].map(|number| plane.range_of(&format!("k8sworker{number}")).unwrap());
        self.expect_of(segment, &ranges, others);
    }

    #[track_caller]
    fn expect_of(&self, segment: &Segment, ranges: &[String; 2], others: &[(&str, &str)]) {
        let vias = ["192.168.199.210", "192.168.199.211"];
        for (own, other) in [(0, 1), (1, 0)] {
            let all = [&[(ranges[other].as_str(), vias[other])], others].concat();
            let expected = routes_to(&all);
            let routes = || agent_routes(&segment.nodes[own].namespace);
            let found = || format!("{:#?}\nexpected {expected:#?}", routes());
            soon(|| routes() == expected, found);
        }
    }
}

#[test]
fn what_the_api_loses_no_pod_does() {
    let Some(segment) = Segment::new("agent-cluster-loss") else {
        return;
    };
    let folder = segment.nodes[0].folder().to_owned();
    let Some(mut plane) = Plane::new(&segment.other, &folder) else {
        return;
    };
    (0..2).for_each(|number| plane.create(&registered(number)));
    soon_or_later(|| (0..2).all(|n| plane.range_of(&format!("k8sworker{n}")).is_some()));
    plane.create(&kubernetes_node(
        "old",
        &["10.200.50.0/24"],
        &["192.168.199.240"],
    ));
    plane.create(&kubernetes_node(
        "moves",
        &["10.200.51.0/24"],
        &["192.168.199.241"],
    ));
    let mut pair = Pair::new(&segment, &plane);
    let before = [
        ("10.200.50.0/24", "192.168.199.240"),
        ("10.200.51.0/24", "192.168.199.241"),
    ];
    pair.expect(&segment, &plane, &before);
    for name in ["k8sworker0", "k8sworker1"] {
        soon_or_later(|| plane.condition(name) == Some("False".into()));
    }
    plane.keep_store();
    plane.delete("old");
    plane.readdress("moves", &["192.168.199.242"]);
    plane.create(&kubernetes_node(
        "new",
        &["10.200.52.0/24"],
        &["192.168.199.243"],
    ));
    let after = [
        ("10.200.51.0/24", "192.168.199.242"),
        ("10.200.52.0/24", "192.168.199.243"),
    ];
    pair.expect(&segment, &plane, &after);

    silent(&segment, &mut plane, &pair, &after);
    rolled_back(&segment, &mut plane, &pair, &before);
    assert!(pair.agents.iter_mut().all(Agent::runs));
    let sent: Vec<_> = pair
        .pings
        .into_iter()
        .map(Pings::expect_none_lost)
        .collect();
    println!("pings: {sent:?}, none lost");
}

/// Nobody answers, while routes are deleted and added behind the agents' back.
fn silent(segment: &Segment, plane: &mut Plane, pair: &Pair, routes: &[(&str, &str)]) {
    let ranges = [0, 1].map(|number| plane.range_of(&format!("k8sworker{number}")).unwrap());
    plane.stop("kube-apiserver");
    let node = &segment.nodes[0].namespace;
    let begun = Instant::now();
    while begun.elapsed() < silence() {
        sh(
            node,
            "ip route del 10.200.52.0/24
             ip route add 10.200.77.0/24 via 192.168.199.212 proto 145
             ip route replace 10.200.78.0/24 via 192.168.199.1 proto static",
        );
        pair.expect_of(segment, &ranges, routes);
        assert!(sh(node, "ip route show 10.200.78.0/24").contains("proto static"));
        sleep(Duration::from_secs(5));
    }
    sh(node, "ip route del 10.200.78.0/24");
    plane.start_api();
    plane.create(&kubernetes_node(
        "newest",
        &["10.200.53.0/24"],
        &["192.168.199.244"],
    ));
    // A connection may be tried again after half a minute.
    let new = "10.200.53.0/24 192.168.199.244".to_owned();
    soon_or_later(|| {
        let nodes = segment.nodes[..2].iter();
        nodes
            .map(|node| agent_routes(&node.namespace))
            .all(|routes| routes.contains(&new))
    });
}

/// The store is what it was before: what has come since is gone, and what has gone is there again.
fn rolled_back(segment: &Segment, plane: &mut Plane, pair: &Pair, routes: &[(&str, &str)]) {
    let each = |line: &str| {
        for node in &segment.nodes[..2] {
            sh(&node.namespace, line);
        }
    };
    // They do not see how it begins, so nothing but its answers says that it is another.
    each("ip route add unreachable 192.168.199.1/32");
    plane.roll_back();
    let can_watch = ["auth", "can-i", "watch", "nodes", "--as", "agent"];
    soon_or_later(|| plane.kubectl(&can_watch, "").is_some());
    each("ip route del unreachable 192.168.199.1/32");
    let old = routes_to(routes);
    let back = || {
        let nodes = segment.nodes[..2].iter();
        let mut routes = nodes.map(|node| agent_routes(&node.namespace));
        routes.all(|routes| old.iter().all(|old| routes.contains(old)))
    };
    soon_or_later(back);
    pair.expect(segment, plane, routes);
}
