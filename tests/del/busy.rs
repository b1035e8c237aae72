//! DEL and GC while another process keeps the lock of the rules.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use std::fs::{self, File};
use std::thread;

use nix::fcntl::{Flock, FlockArg};
use serde_json::{Value, json};
use tests::{VALID, World, entry, with, with_mounts};

/// The lock, in the place of which these tests have one of their own: others must not wait.
const LOCK: &str = "/run/cni-lite-nat.lock";

/// An address is not given away as long as rules masquerade it that may be removed later: they would
/// masquerade its next pod.
#[test]
fn an_address_stays_reserved_while_its_rules_wait_for_the_lock() {
    let Some(world) = World::nftables("busy") else {
        return;
    };
    let node = &world.node;
    let path = node.folder().join("own-lock");
    let file = File::create(&path).unwrap();
    let mounts = [
        format!("touch {LOCK}"),
        format!("mount --bind {} {LOCK}", path.display()),
    ];
    let call = |command: &str, pod, config: &Value, env: &[(&str, &str)]| {
        let process = with_mounts(&mounts, node.bin.join("bridge"));
        node.call_as(process, command, pod, config, env)
    };
    let (pod, configs) = world.pod("pod");
    let (dead, dead_configs) = world.pod("dead");
    for (pod, configs) in [(&pod, &configs), (&dead, &dead_configs)] {
        for answer in node.del_each(&configs[1..], pod, &[]) {
            answer.ok();
        }
    }
    let del = || call("DEL", &pod, &configs[0], &[]);
    let gc = || {
        let config = with(&dead_configs[0], "cniVersion", &json!("1.1.0"));
        let valid = json!([entry("other", "eth0"), entry("pod", "eth0")]);
        let config = with(&with(&config, VALID, &valid), "prevResult", &Value::Null);
        call("GC", &dead, &config, &[])
    };

    let lock = Flock::lock(file, FlockArg::LockExclusive).unwrap();
    let (collected, deleted) = thread::scope(|scope| {
        let del = scope.spawn(del);
        (gc(), del.join().unwrap())
    });
    for (answer, words) in [
        (&collected, "addresses stay reserved"),
        (&deleted, "its address stays reserved"),
    ] {
        answer.expect_refused(words, 11, &["masquerade rules of", words, LOCK]);
    }
    let left = world.left();
    for id in ["pod", "dead"] {
        let of_it = |lines: &[String]| lines.iter().filter(|line| line.contains(id)).count();
        // Of both families.
        assert_eq!(of_it(&left.reservations), 2, "{left}");
        assert!(of_it(&left.rules) > 0 && of_it(&left.links) == 0, "{left}");
    }

    drop(lock);
    for answer in [del(), gc()] {
        answer.ok();
    }
    world.expect_untouched("the lock is free");
    fs::remove_file(path).unwrap();
}
