//! `podnet agent` killed at any moment, while nodes come and go and routes are changed behind its back.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use std::collections::BTreeSet;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use fastrand::Rng;
use serde_json::Value;
use tests::{Agent, Node, TO_BOTH, agent_routes, api_node, segment_with_api, sh, soon};

/// How many things are done.
const STEPS: usize = 60;

/// A conflist is none, or whole.
#[track_caller]
fn is_whole(node: &Node) {
    let file = node.configurations().join("10-podnet.conflist");
    let Ok(text) = fs::read_to_string(file) else {
        return;
    };
    let list: Value = serde_json::from_str(&text).unwrap();
    let ipam = list["plugins"][0]["ipam"].to_string();
    assert!(ipam.contains("10.200.0.0/24"), "{text}");
}

#[test]
fn killed_at_any_moment_it_is_right_in_the_end() {
    let Some((segment, api)) = segment_with_api() else {
        return;
    };
    let node = &segment.nodes[0];
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let seed = u64::from(now.unwrap().subsec_nanos());
    println!("seed {seed}");
    let mut random = Rng::with_seed(seed);
    let mut there = BTreeSet::new();
    let mut agent = Agent::start(node, &api, &[]);
    for _ in 0..STEPS {
        let number = random.u8(3..10);
        let name = format!("k8sworker{number}");
        match random.u8(0..8) {
            0..3 if there.remove(&number) => api.delete(&name),
            0..3 => {
                let (range, address) = (
                    format!("10.200.{number}.0/24"),
                    format!("192.168.199.22{number}"),
                );
                api.put(&api_node(&name, &[&range], &[&address]));
                there.insert(number);
            }
            3 => {
                let routes = agent_routes(&node.namespace);
                let taken = random.choice(routes.iter());
                let taken = taken.and_then(|route| route.split(' ').next());
                if let Some(dst) = taken.filter(|dst| !dst.contains(':')) {
                    // The agent may be faster.
                    sh(&node.namespace, &format!("ip route del {dst} 2>&1 || true"));
                }
            }
            4 => {
                let stale = format!("10.200.{}.0/24 via 192.168.199.1", number + 10);
                let line = format!("ip route add {stale} proto 145 2>&1 || true");
                sh(&node.namespace, &line);
            }
            _ => {
                sleep(Duration::from_millis(random.u64(0..700)));
                agent.kill();
                is_whole(node);
                agent = Agent::start(node, &api, &[]);
            }
        }
        is_whole(node);
    }
    let new = there
        .iter()
        .map(|number| format!("10.200.{number}.0/24 192.168.199.22{number}"));
    let expected: BTreeSet<String> = TO_BOTH.map(str::to_owned).into_iter().chain(new).collect();
    let found = || {
        agent_routes(&node.namespace)
            .into_iter()
            .collect::<BTreeSet<_>>()
    };
    soon(
        || found() == expected,
        || format!("{:#?}\n{expected:#?}", found()),
    );
    assert!(agent.runs());
    is_whole(node);
}
