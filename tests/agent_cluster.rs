//! `podnet agent` beside Kubernetes itself: an API server with its store, and the controller that gives nodes
//! their ranges. `make test-cluster` builds these, once; without them this is skipped.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use std::thread::sleep;
use std::time::Duration;

use tests::{Agent, Plane, Segment, agent_routes, registered, sh, soon, soon_or_later};

#[test]
fn three_nodes_of_kubernetes_itself() {
    let Some(segment) = Segment::new("agent-cluster") else {
        return;
    };
    let folder = segment.nodes[0].folder().to_owned();
    let Some(mut plane) = Plane::new(&segment.other, &folder) else {
        return;
    };
    (0..3).for_each(|number| plane.create(&registered(number)));
    let names = ["k8sworker0", "k8sworker1", "k8sworker2"];
    let kubeconfig = plane.path("agent.conf");
    let mut agents: Vec<Agent> = names
        .iter()
        .zip(&segment.nodes)
        .map(|(name, node)| Agent::start_as(node, name, &kubeconfig, &[]))
        .collect();
    // The controller gives the ranges in an order of its own.
    soon_or_later(|| names.iter().all(|name| plane.range_of(name).is_some()));
    let ranges: Vec<String> = names
        .iter()
        .map(|name| plane.range_of(name).unwrap())
        .collect();
    let to = |others: &[usize]| {
        let mut routes: Vec<_> = others
            .iter()
            .map(|other| format!("{} 192.168.199.21{other}", ranges[*other]))
            .collect();
        routes.sort();
        routes
    };
    for (index, others) in [[1, 2], [0, 2], [0, 1]].into_iter().enumerate() {
        let expected = to(&others);
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        agents[index].routes(&expected);
    }
    // Its network is there, and the API is told so, with no more rights than it needs.
    soon(
        || plane.condition("k8sworker0") == Some("False".into()),
        || agents[0].log(),
    );

    plane.delete("k8sworker2");
    agents[0].routes(&[to(&[1])[0].as_str()]);
    agents[1].routes(&[to(&[0])[0].as_str()]);

    plane.stop("kube-apiserver");
    sh(
        &segment.nodes[0].namespace,
        &format!("ip route del {}", ranges[1]),
    );
    agents[0].routes(&[to(&[1])[0].as_str()]);
    sleep(Duration::from_secs(3));
    assert!(agents.iter_mut().all(Agent::runs));
    assert_eq!(agent_routes(&segment.nodes[1].namespace), to(&[0]));
    plane.start_api();
    plane.create(&registered(3));
    soon_or_later(|| plane.range_of("k8sworker3").is_some());
    let new = format!("{} 192.168.199.213", plane.range_of("k8sworker3").unwrap());
    let mut both = [to(&[1])[0].clone(), new];
    both.sort();
    soon_or_later(|| agent_routes(&segment.nodes[0].namespace) == both);
}
