//! `podnet agent` beside a container runtime: what crashed sandboxes have left goes, and the plugins come.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

#[path = "gc_cri/crash.rs"]
#[allow(dead_code, reason = "another test's as well")]
mod crash;
#[path = "gc_cri/fake.rs"]
#[allow(dead_code, reason = "another test's as well")]
mod fake;

use tests::{Agent, Api, soon};

use crash::{Crash, NETWORK};

#[test]
fn what_crashed_sandboxes_left_goes_and_only_where_the_list_is_whole() {
    let Some(mut crash) = Crash::new("agent-gc", "1.1.0") else {
        return;
    };
    let api = Api::with_nodes(&crash.node.namespace);
    crash.add(NETWORK, "ready", "eth0");
    crash.runtime.has(&["ready"]);
    let living = crash.snapshot().reservations;
    crash.add(NETWORK, "leaked", "eth0");
    let both = crash.snapshot().reservations;
    let cache = crash.node.cache.to_string_lossy().into_owned();
    // No runtime is there: nothing is known of who lives.
    let words = ["--resync", "1", "--cache-dir", &cache, "--grace", "0"];
    let missing = [&words[..], &["--from-cri", "unix:///nowhere.sock"]].concat();
    let mut agent = Agent::start(&crash.node, &api, &missing);
    agent.says("GC failed, and is tried again");
    assert!(agent.runs());
    assert_eq!(crash.snapshot().reservations, both);
    agent.kill();
    let endpoint = crash.runtime.endpoint().to_owned();
    let found = [&words[..], &["--from-cri", &endpoint]].concat();
    let agent = Agent::start(&crash.node, &api, &found);
    soon(|| crash.snapshot().reservations == living, || agent.log());
    let line = "podnet_agent_gc_removed_total 1";
    let is_counted = || agent.get("/metrics").1.lines().any(|one| one == line);
    soon(is_counted, || agent.get("/metrics").1);
}

#[test]
fn the_plugins_are_installed_and_put_back_when_they_are_lost() {
    let Some(crash) = Crash::new("agent-install", "1.1.0") else {
        return;
    };
    let api = Api::with_nodes(&crash.node.namespace);
    let to = crash.node.folder().join("installed");
    let from = crash.node.bin.to_string_lossy().into_owned();
    let path = to.to_string_lossy().into_owned();
    let words = [
        "--cni-path",
        &path,
        "--install-from",
        &from,
        "--resync",
        "1",
    ];
    let agent = Agent::start(&crash.node, &api, &words);
    let plugin = to.join("bridge-lite");
    soon(|| plugin.is_file(), || agent.log());
    std::fs::remove_file(&plugin).unwrap();
    soon(|| plugin.is_file(), || agent.log());
}
