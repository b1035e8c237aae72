//! `podnet agent` beside an API server that tells of nodes: routes, conflist, condition.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

#[path = "agent/api.rs"]
mod api;
#[path = "agent/doctor.rs"]
mod doctor;
#[path = "agent/kills.rs"]
mod kills;
#[path = "agent/plan.rs"]
mod plan;
#[path = "agent/silence.rs"]
mod silence;

use std::fs;

use serde_json::Value;
use tests::{
    Agent, Api, Node, TO_BOTH, TO_WORKER_1, TO_WORKER_2, agent_routes, api_node, segment_with_api,
    sh, soon,
};

fn conflist(node: &Node) -> Option<String> {
    fs::read_to_string(node.configurations().join("10-podnet.conflist")).ok()
}

/// The condition by which pods are kept off, and its reason.
fn condition(api: &Api) -> Option<(String, String)> {
    let node = api.node("k8sworker0");
    let conditions = node["status"]["conditions"].as_array()?;
    let one = conditions
        .iter()
        .find(|one| one["type"] == "NetworkUnavailable")?;
    let text = |key: &str| one[key].as_str().map(str::to_owned);
    Some((text("status")?, text("reason")?))
}

#[test]
fn routes_follow_the_nodes_that_come_change_and_go() {
    let Some((segment, api)) = segment_with_api() else {
        return;
    };
    let mut agent = Agent::start(&segment.nodes[0], &api, &[]);
    agent.routes(&TO_BOTH);
    api.put(&api_node(
        "k8sworker3",
        &["10.200.3.0/24"],
        &["192.168.199.213"],
    ));
    agent.routes(&[
        TO_WORKER_1[0],
        TO_WORKER_2[0],
        "10.200.3.0/24 192.168.199.213",
        TO_WORKER_1[1],
        TO_WORKER_2[1],
    ]);
    api.delete("k8sworker1");
    agent.routes(&[
        TO_WORKER_2[0],
        "10.200.3.0/24 192.168.199.213",
        TO_WORKER_2[1],
    ]);
    // It has another address.
    api.put(&api_node(
        "k8sworker3",
        &["10.200.3.0/24"],
        &["192.168.199.233"],
    ));
    agent.routes(&[
        TO_WORKER_2[0],
        "10.200.3.0/24 192.168.199.233",
        TO_WORKER_2[1],
    ]);
    assert_eq!(agent.end(), Some(0));
    assert_eq!(agent_routes(&segment.nodes[0].namespace).len(), 3);
}

#[test]
fn what_others_do_to_routes_is_put_right_and_theirs_stay() {
    let Some((segment, api)) = segment_with_api() else {
        return;
    };
    let node = &segment.nodes[0].namespace;
    sh(
        node,
        "ip route add 10.200.9.0/24 via 192.168.199.1 proto static",
    );
    let agent = Agent::start(&segment.nodes[0], &api, &["--resync", "3600"]);
    agent.routes(&TO_BOTH);
    sh(
        node,
        "ip route del 10.200.1.0/24
         ip -6 route del fd00:200:0:2::/64
         ip route add 10.200.77.0/24 via 192.168.199.212 proto 145",
    );
    agent.routes(&TO_BOTH);
    // With the link all routes by it go, and the kernel says nothing of them.
    sh(node, "ip link set eth0 down; ip link set eth0 up");
    sh(
        node,
        "ip -6 address add fd99::210/64 dev eth0 nodad || true",
    );
    agent.routes(&TO_BOTH);
    assert!(sh(node, "ip route show 10.200.9.0/24").is_empty());
    sh(
        node,
        "ip route add 10.200.9.0/24 via 192.168.199.1 proto static",
    );
    sh(node, "ip route del 10.200.1.0/24");
    agent.routes(&TO_BOTH);
    assert!(sh(node, "ip route show 10.200.9.0/24").contains("proto static"));
}

#[test]
fn one_that_was_killed_finds_what_became_stale_meanwhile() {
    let Some((segment, api)) = segment_with_api() else {
        return;
    };
    let mut agent = Agent::start(&segment.nodes[0], &api, &[]);
    agent.routes(&TO_BOTH);
    agent.kill();
    api.delete("k8sworker2");
    assert_eq!(agent_routes(&segment.nodes[0].namespace), TO_BOTH);
    let agent = Agent::start(&segment.nodes[0], &api, &[]);
    agent.routes(&TO_WORKER_1);
}

#[test]
fn the_conflist_waits_for_the_range_and_so_does_the_condition() {
    let Some((segment, api)) = segment_with_api() else {
        return;
    };
    let node = &segment.nodes[0];
    let addresses = ["192.168.199.210", "fd99::210"];
    api.put(&api_node("k8sworker0", &[], &addresses));
    let agent = Agent::start(node, &api, &[]);
    agent.routes(&TO_BOTH);
    agent.says("reason=\"NoPodRange\"");
    let is = |status: &str, reason: &str| Some((status.to_owned(), reason.to_owned()));
    soon(
        || condition(&api) == is("True", "NoPodRange"),
        || format!("{:?}", condition(&api)),
    );
    assert_eq!(conflist(node), None);
    let (status, why) = agent.get("/readyz");
    assert!(
        status == 503 && why.contains("has no spec.podCIDRs yet"),
        "{why}"
    );
    assert_eq!(agent.get("/livez").0, 200);

    api.put(&api_node("k8sworker0", &["10.200.0.0/24"], &addresses));
    soon(|| conflist(node).is_some(), || agent.log());
    let text = conflist(node).unwrap();
    let list: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(list["plugins"][0]["ipam"]["subnet"], "10.200.0.0/24");
    assert_eq!(list["plugins"][0]["mtu"], 1500);
    let is_ready = || condition(&api) == is("False", "PodNetworkReady");
    soon(is_ready, || format!("{:?}", condition(&api)));
    assert_eq!(agent.get("/readyz"), (200, "ok\n".to_owned()));
    let event = |event: &Value| {
        event["reason"] == "NoPodRange" && event["regarding"]["name"] == "k8sworker0"
    };
    assert!(api.events().iter().any(event), "{:?}", api.events());
    for line in [
        "podnet_agent_ready 1",
        "podnet_agent_nodes 3",
        "podnet_agent_routes_wanted 4",
        "podnet_agent_routes_present 4",
        "podnet_agent_pool_size{network=\"k8nd-pod-network\",range=\"10.200.0.0/24\"} 253",
    ] {
        let is_there = || agent.get("/metrics").1.lines().any(|one| one == line);
        soon(is_there, || format!("{line}: {}", agent.get("/metrics").1));
    }
    // It is not written again for nothing.
    let file = node.configurations().join("10-podnet.conflist");
    let written = fs::metadata(&file).unwrap().modified().unwrap();
    api.delete("k8sworker1");
    agent.routes(&TO_WORKER_2);
    assert_eq!(fs::metadata(&file).unwrap().modified().unwrap(), written);
}

#[test]
fn that_the_node_cannot_be_read_is_told_and_changes_nothing() {
    let Some((segment, api)) = segment_with_api() else {
        return;
    };
    let node = &segment.nodes[0];
    let agent = Agent::start(node, &api, &["--resync", "3600"]);
    agent.routes(&TO_BOTH);
    let has = |status: &str, reason: &str| {
        let expected = Some((status.to_owned(), reason.to_owned()));
        let is_so = || condition(&api) == expected;
        soon(is_so, || format!("{:?}\n{}", condition(&api), agent.log()));
    };
    has("False", "PodNetworkReady");
    let is_event = |event: &Value| event["reason"] == "KernelUnread";
    let mut told = false;
    for _ in 0..5 {
        // No socket to ask the kernel by, nor the API.
        let unread = "this node cannot be looked at, and nothing is changed";
        let times = || agent.log().matches(unread).count();
        let before = times();
        agent.may_open(3);
        sh(&node.namespace, "ip route del 10.200.1.0/24");
        soon(|| times() > before, || agent.log());
        assert!(!agent_routes(&node.namespace).contains(&TO_WORKER_1[0].to_owned()));
        agent.may_open(1024);
        // Nothing is heard, and the next look is an hour away.
        agent.routes(&TO_BOTH);
        has("False", "PodNetworkReady");
        // Where all is right before the API can be told, there is nothing to tell.
        told = api.events().iter().any(is_event);
        if told {
            break;
        }
    }
    assert!(told, "{}", agent.log());
}

#[test]
fn what_the_disk_refuses_is_tried_again() {
    let Some((segment, api)) = segment_with_api() else {
        return;
    };
    let node = &segment.nodes[0];
    // A folder in the place of the file.
    let file = node.configurations().join("10-podnet.conflist");
    fs::create_dir_all(&file).unwrap();
    fs::write(file.join("x"), "").unwrap();
    let agent = Agent::start(node, &api, &["--resync", "3600"]);
    agent.says("reason=\"ConflistFailed\"");
    agent.routes(&TO_BOTH);
    fs::remove_dir_all(&file).unwrap();
    soon(|| conflist(node).is_some(), || agent.log());
}

#[test]
fn another_range_waits_for_the_pods_of_the_former() {
    let Some((segment, api)) = segment_with_api() else {
        return;
    };
    let node = &segment.nodes[0];
    let store = node.data.join("k8nd-pod-network");
    let agent = Agent::start(node, &api, &["--data-dir", &node.data.to_string_lossy()]);
    soon(|| conflist(node).is_some(), || agent.log());
    let before = conflist(node);
    fs::create_dir_all(&store).unwrap();
    fs::write(store.join("10.200.0.2"), "some-pod\r\neth0").unwrap();
    sh(
        &node.namespace,
        "ip link add cni0 type bridge; ip address add 10.200.0.1/24 dev cni0; ip link set cni0 up",
    );
    let addresses = ["192.168.199.210", "fd99::210"];
    api.put(&api_node("k8sworker0", &["10.200.8.0/24"], &addresses));
    agent.says("reason=\"PodRangeChanged\"");
    assert!(
        agent.log().contains("kubectl drain k8sworker0"),
        "{}",
        agent.log()
    );
    assert_eq!(conflist(node), before);
    fs::remove_file(store.join("10.200.0.2")).unwrap();
    // The next look finds it, whatever that is for.
    api.delete("k8sworker1");
    let is_new = || conflist(node).is_some_and(|text| text.contains("10.200.8.0/24"));
    soon(is_new, || agent.log());
    let bridge = || sh(&node.namespace, "ip -4 address show dev cni0");
    assert!(!bridge().contains("10.200.0.1"), "{}", bridge());
}

#[test]
fn bad_nodes_end_nothing_and_are_told_by_events() {
    let Some((segment, api)) = segment_with_api() else {
        return;
    };
    api.put(&api_node("v-none", &[], &["192.168.199.220"]));
    api.put(&api_node(
        "v-ipv6",
        &["fd00:200:0:9::/64"],
        &["192.168.199.221"],
    ));
    api.put(&api_node(
        "v-broken",
        &["10.200.9.0/99"],
        &["192.168.199.222"],
    ));
    api.put(&api_node("v-far", &["10.200.10.0/24"], &["203.0.113.7"]));
    api.put(&api_node(
        "v-twice",
        &["10.200.1.0/24"],
        &["192.168.199.223"],
    ));
    let mut agent = Agent::start(&segment.nodes[0], &api, &["--resync", "2"]);
    agent.routes(&TO_BOTH);
    let told = || {
        let events = api.events();
        let one = |event: &Value| {
            format!("{} {}", event["regarding"]["name"], event["reason"]).replace('"', "")
        };
        let mut told: Vec<_> = events
            .iter()
            .map(one)
            .filter(|one| one.starts_with("v-"))
            .collect();
        told.sort();
        told
    };
    let expected = [
        "v-broken BadPodRange",
        "v-far NextHopOffLink",
        "v-ipv6 NoAddress",
        "v-none NoPodRange",
        "v-twice PodRangeOverlaps",
    ];
    soon(|| told() == expected, || format!("{:?}", told()));
    assert!(agent.runs());
    let (_, metrics) = agent.get("/metrics");
    assert!(
        metrics.contains("podnet_agent_findings{reason=\"PodRangeOverlaps\"} 2"),
        "{metrics}"
    );
}
