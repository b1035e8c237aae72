//! `podnet agent` beside Kubernetes itself, where each node has a range of each family.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use serde_json::json;
use tests::{
    Agent, Plane, Segment, agents_conflist, kubernetes_node, registered, routes_to, soon,
    soon_or_later,
};

const NAMES: [&str; 3] = ["k8sworker0", "k8sworker1", "k8sworker2"];

/// The routes to the pods of these nodes; the family of each address is that of its range.
fn to(plane: &Plane, others: &[(&str, &[&str])]) -> Vec<String> {
    let ranges: Vec<_> = others
        .iter()
        .map(|(name, _)| plane.ranges_of(name))
        .collect();
    let mut routes = Vec::new();
    for (ranges, (_, addresses)) in ranges.iter().zip(others) {
        for range in ranges {
            let via = addresses
                .iter()
                .find(|via| via.contains(':') == range.contains(':'));
            routes.extend(via.map(|via| (range.as_str(), *via)));
        }
    }
    routes_to(&routes)
}

#[test]
fn each_node_has_routes_of_both_families_to_the_others() {
    let Some(segment) = Segment::new("agent-cluster-dual") else {
        return;
    };
    let folder = segment.nodes[0].folder().to_owned();
    let Some(plane) = Plane::dual_stack(&segment.other, &folder) else {
        return;
    };
    let addresses = [
        ["192.168.199.210", "fd99::210"],
        ["192.168.199.211", "fd99::211"],
    ];
    for (name, addresses) in NAMES.iter().zip(&addresses) {
        plane.create(&kubernetes_node(name, &[], addresses));
    }
    // Its kubelet tells of one family alone.
    plane.create(&registered(2));
    soon_or_later(|| NAMES.iter().all(|name| plane.ranges_of(name).len() == 2));
    let kubeconfig = plane.path("agent.conf");
    let nodes = &segment.nodes[..2];
    let agents = nodes.iter().zip(NAMES).map(|(node, name)| {
        let data = node.data.to_string_lossy();
        Agent::start_as(node, name, &kubeconfig, &["--data-dir", &data])
    });
    let agents: Vec<Agent> = agents.collect();
    let expect = |agent: &Agent, routes: &[String]| {
        let routes: Vec<&str> = routes.iter().map(String::as_str).collect();
        agent.routes(&routes);
    };
    let third: (&str, &[&str]) = (NAMES[2], &["192.168.199.212"]);
    let to_first = to(&plane, &[(NAMES[0], &addresses[0]), third]);
    let to_second = to(&plane, &[(NAMES[1], &addresses[1]), third]);
    assert_eq!((to_first.len(), to_second.len()), (3, 3));
    expect(&agents[0], &to_second);
    expect(&agents[1], &to_first);
    agents[0].says("node=\"k8sworker2\" reason=\"NoAddress\"");
    let is_so = || plane.condition(NAMES[0]) == Some("False".into());
    soon(is_so, || agents[0].log());

    let pods = nodes.iter().zip(&agents).map(|(node, agent)| {
        let pod = node.pod("pod");
        let added = node
            .add(&agents_conflist(node, agent), &pod, json!({}))
            .unwrap();
        (pod, added)
    });
    let pods: Vec<_> = pods.collect();
    for (from, to) in [(0, 1), (1, 0)] {
        let addresses = &pods[to].1.ips;
        assert_eq!(addresses.len(), 2);
        for ip in addresses {
            pods[from].0.namespace.ping(ip.address.addr()).unwrap();
        }
    }
    plane.readdress(NAMES[2], &["192.168.199.212", "fd99::212"]);
    let third: (&str, &[&str]) = (NAMES[2], &["192.168.199.212", "fd99::212"]);
    let to_second = to(&plane, &[(NAMES[1], &addresses[1]), third]);
    assert_eq!(to_second.len(), 4);
    expect(&agents[0], &to_second);
}
