//! `podnet agent` beside an API server that fails in every way: it goes on, removes nothing while it does not
//! know who is there, and is right again when it does.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use std::thread::sleep;
use std::time::Duration;

use tests::{
    Agent, Failing, TO_BOTH, TO_WORKER_1, TO_WORKER_2, agent_routes, api_node, api_nodes,
    segment_with_api, sh,
};

#[test]
fn whatever_the_api_answers_routes_stay_and_are_right_once_it_is_back() {
    let Some((segment, api)) = segment_with_api() else {
        return;
    };
    let node = &segment.nodes[0];
    let mut agent = Agent::start(node, &api, &[]);
    agent.routes(&TO_BOTH);
    for failing in [
        Failing::Status(500),
        Failing::Status(429),
        Failing::Status(410),
        Failing::Status(403),
        Failing::Reset,
        Failing::Silent,
        Failing::Gone,
    ] {
        api.fail(failing);
        api.delete("k8sworker1");
        sleep(Duration::from_millis(1500));
        assert!(agent.runs(), "{failing:?}");
        assert_eq!(agent_routes(&node.namespace), TO_BOTH, "{failing:?}");
        // What the kernel holds is put right all the while.
        sh(&node.namespace, "ip route del 10.200.2.0/24");
        agent.routes(&TO_BOTH);
        api.fail(Failing::Not);
        agent.routes(&TO_WORKER_2);
        api.put(&api_nodes()[1]);
        agent.routes(&TO_BOTH);
    }
    let log = agent.log();
    assert!(
        log.contains("the API does not answer as it should"),
        "{log}"
    );
    // Of the library's own lines, which say the same, there are none.
    let of_library = ["failed with status", "failed with error", "watcher error"];
    let is_said = of_library.iter().any(|words| log.contains(words));
    assert!(!is_said && !log.contains("ERROR"), "{log}");
    let (_, metrics) = agent.get("/metrics");
    assert!(
        !metrics.contains("podnet_agent_api_failures_total 0"),
        "{metrics}"
    );
}

#[test]
fn one_that_begins_while_the_api_fails_removes_nothing_and_says_so() {
    let Some((segment, api)) = segment_with_api() else {
        return;
    };
    let node = &segment.nodes[0];
    sh(
        &node.namespace,
        "ip route add 10.200.7.0/24 via 192.168.199.212 proto 145",
    );
    api.fail(Failing::Status(500));
    let agent = Agent::start(node, &api, &["--resync", "1"]);
    agent.says("the API does not answer as it should");
    sleep(Duration::from_millis(1500));
    assert_eq!(
        agent_routes(&node.namespace),
        ["10.200.7.0/24 192.168.199.212"]
    );
    assert!(
        agent
            .get("/readyz")
            .1
            .contains("the API has not told of them")
    );
    api.fail(Failing::Not);
    agent.routes(&TO_BOTH);
}

#[test]
fn changes_that_were_forgotten_are_found_by_a_new_list() {
    let Some((segment, api)) = segment_with_api() else {
        return;
    };
    let agent = Agent::start(&segment.nodes[0], &api, &[]);
    agent.routes(&TO_BOTH);
    api.fail(Failing::Status(500));
    api.delete("k8sworker1");
    api.compact();
    api.fail(Failing::Not);
    agent.routes(&TO_WORKER_2);
}

#[test]
fn a_store_that_was_rolled_back_is_noticed() {
    let Some((segment, api)) = segment_with_api() else {
        return;
    };
    let agent = Agent::start(&segment.nodes[0], &api, &["--resync", "2"]);
    agent.routes(&TO_BOTH);
    // Of what it was told once it knows whether that is older.
    agent.says("condition NetworkUnavailable of node k8sworker0 is False");
    let mut before = api_nodes();
    before.remove(2);
    before.push(api_node(
        "k8sworker3",
        &["10.200.3.0/24"],
        &["192.168.199.213"],
    ));
    api.roll_back(&before);
    agent.routes(&[
        TO_WORKER_1[0],
        "10.200.3.0/24 192.168.199.213",
        TO_WORKER_1[1],
    ]);
}

#[test]
fn it_asks_no_more_often_than_it_must() {
    let Some((segment, api)) = segment_with_api() else {
        return;
    };
    let agent = Agent::start(&segment.nodes[0], &api, &[]);
    agent.routes(&TO_BOTH);
    sleep(Duration::from_secs(3));
    let requests = api.requests();
    let of = |words: &str| requests.iter().filter(|one| one.contains(words)).count();
    assert_eq!(of("watch=true"), 1, "{requests:#?}");
    assert_eq!(
        of("GET /api/v1/nodes?"),
        3,
        "a list, a watch, and its own Node: {requests:#?}"
    );
    assert!(requests.len() < 20, "{requests:#?}");
    // While it fails, ever less often.
    api.fail(Failing::Status(500));
    let before = api.requests().len();
    sleep(Duration::from_secs(5));
    let asked = api.requests().len() - before;
    assert!((1..30).contains(&asked), "{asked} requests in 5 s");
}
