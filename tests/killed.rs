//! A plugin that is killed, at whatever point, leaves nothing that DEL does not find.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::prctl;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tests::{Node, Pod, World, kind, replace_iptables, with, write_script};

/// Into how many parts the time of a call is cut; a kill comes at the end of each.
const PARTS: u32 = 16;

/// One call of a plugin.
struct Call<'a> {
    command: &'static str,
    pod: &'a Pod,
    config: &'a Value,
}

impl<'a> Call<'a> {
    fn new(command: &'static str, pod: &'a Pod, config: &'a Value) -> Call<'a> {
        Call {
            command,
            pod,
            config,
        }
    }

    /// Makes the call, and kills the plugin with all that it started after that time. When it
    /// returns, none of them is alive.
    fn killed_after(&self, node: &Node, time: Duration) {
        // So that those that the plugin started become children of this process.
        prctl::set_child_subreaper(true).unwrap();
        let mut process = Command::new(node.bin.join(kind(self.config)));
        node.set_environment(&mut process, self.command, self.pod, &[]);
        process
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut child = node.namespace.spawn(&mut process).unwrap();
        let group = Pid::from_raw(child.id().try_into().unwrap());
        let started = Instant::now();
        let mut stdin = child.stdin.take().unwrap();
        // One that has been killed reads no more.
        drop(stdin.write_all(self.config.to_string().as_bytes()));
        drop(stdin);
        std::thread::sleep(time.saturating_sub(started.elapsed()));
        // There may be none left.
        let _ = killpg(group, Signal::SIGKILL);
        child.wait().unwrap();
        reap(group);
    }

    /// How long it takes when nobody kills it.
    fn time(&self, node: &Node) -> Duration {
        let started = Instant::now();
        let answer = node.call(kind(self.config), self.command, self.pod, self.config, &[]);
        answer.ok();
        started.elapsed()
    }
}

/// Waits for those of the group that have lost their parent.
fn reap(group: Pid) {
    let any = Pid::from_raw(-group.as_raw());
    while let Ok(status) = waitpid(any, Some(WaitPidFlag::__WALL)) {
        if status == WaitStatus::StillAlive {
            break;
        }
    }
}

/// Kills the ADD of the chain's plugin of that index, after those before it.
fn kill_add(world: Option<World>, index: usize) {
    let Some(world) = world else {
        return;
    };
    let node = &world.node;
    let configs = world.configs();
    // The pod of a run, with what the plugins before made, and the configuration of the call.
    let begin = |name: &str| {
        let pod = node.pod(name);
        let result = node.add_each(&configs[..index], &pod);
        (pod, with(&configs[index], "prevResult", &result))
    };
    let (pod, config) = begin("whole");
    let time = Call::new("ADD", &pod, &config).time(node);
    world.del("whole", &configs, &pod, &[]);
    for part in 0..=PARTS {
        let case = format!("part{part}");
        let (pod, config) = begin(&case);
        Call::new("ADD", &pod, &config).killed_after(node, time * part / PARTS);
        world.del(&case, &configs, &pod, &[]);
        world.expect_bare(&case, &pod);
        world.expect_untouched(&case);
    }
}

#[test]
fn add_of_the_bridge() {
    kill_add(World::dual_stack("kill-bridge"), 0);
}

/// The next pod completes the gateway that the killed call was making.
#[test]
fn add_of_the_first_pod_in_a_vlan() {
    let Some(node) = Node::with_vlans("kill-vlan") else {
        return;
    };
    let config = |vlan: u32| node.bridge_config(json!({ "vlan": vlan }));
    let del = |pod: &Pod, config: &Value| {
        node.call("bridge", "DEL", pod, config, &[]).ok();
    };
    let whole = (node.pod("whole"), config(100));
    let time = Call::new("ADD", &whole.0, &whole.1).time(&node);
    del(&whole.0, &whole.1);
    let links = || node.snapshot("testnet").links.len();
    let before = links();
    for part in 0..=PARTS {
        let (config, first) = (config(101 + part), node.pod(&format!("first{part}")));
        Call::new("ADD", &first, &config).killed_after(&node, time * part / PARTS);
        del(&first, &config);
        let next = node.pod(&format!("next{part}"));
        let result = node.call("bridge", "ADD", &next, &config, &[]).ok().clone();
        let told = with(&config, "prevResult", &result);
        node.call("bridge", "CHECK", &next, &told, &[]).ok();
        del(&next, &config);
    }
    // A gateway and the port behind it for each.
    assert_eq!(links(), before + 2 * (PARTS as usize + 1));
}

#[test]
fn add_of_portmap() {
    kill_add(World::dual_stack("kill-portmap"), 1);
}

#[test]
fn add_of_the_bridge_by_nftables() {
    kill_add(World::nftables("kill-bridge-nft"), 0);
}

#[test]
fn add_of_the_bridge_with_a_filter() {
    kill_add(World::filtered("kill-filter"), 0);
}

#[test]
fn add_of_portmap_by_nftables() {
    kill_add(World::nftables("kill-portmap-nft"), 1);
}

#[test]
fn add_of_bandwidth() {
    kill_add(World::dual_stack("kill-bandwidth"), 2);
}

#[test]
fn del_of_each_plugin() {
    let Some(world) = World::dual_stack("kill-del") else {
        return;
    };
    for index in 0..3 {
        let (pod, configs) = world.pod(&format!("whole{index}"));
        let time = Call::new("DEL", &pod, &configs[index]).time(&world.node);
        world.del("whole", &configs, &pod, &[]);
        for part in 0..=PARTS / 2 {
            let case = format!("plugin{index}part{part}");
            let (pod, configs) = world.pod(&case);
            let killed = Call::new("DEL", &pod, &configs[index]);
            killed.killed_after(&world.node, time * part * 2 / PARTS);
            world.del(&case, &configs, &pod, &[]);
            world.expect_bare(&case, &pod);
            world.expect_untouched(&case);
        }
    }
}

/// At points that are known: before and after the address is reserved, and before and after the
/// rules are made.
#[test]
fn add_at_its_turning_points() {
    let Some(world) = World::dual_stack("kill-points") else {
        return;
    };
    let node = &world.node;
    let ipam = node.bin.join("host-local");
    for (case, script) in [
        ("before the reservation", "kill -9 $PPID".to_owned()),
        (
            "after the reservation",
            format!("{} > /dev/null; kill -9 $PPID", ipam.display()),
        ),
    ] {
        write_script(&node.bin.join("killer"), &format!("#!/bin/sh\n{script}\n"));
        let configs = world.configs();
        let section = with(&configs[0]["ipam"], "type", &json!("killer"));
        let killed = with(&configs[0], "ipam", &section);
        let pod = node.pod("pod");
        let answer = node.call("bridge", "ADD", &pod, &killed, &[]);
        assert_eq!(answer.status, -1, "{case}: {answer:?}");
        world.del(case, &configs, &pod, &[]);
        world.expect_bare(case, &pod);
        world.expect_untouched(case);
        pod.namespace.remove().unwrap();
    }

    // The programs may be started before there is anything for them to do.
    let restore = |text: &str| {
        let script = format!("lines=$(cat); {text}; kill -9 $PPID; exit 1");
        format!("case $0 in *-restore) {script};; esac; exec $real \"$@\"")
    };
    for (case, script) in [
        ("before-rules", restore(":")),
        ("after-rules", restore("echo \"$lines\" | $real \"$@\"")),
    ] {
        let tools = replace_iptables(&node.folder().join(case), &script);
        let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
        let env = [("PATH", path.as_str())];
        for index in 0..2 {
            let configs = world.configs();
            let pod = node.pod("pod");
            let result = node.add_each(&configs[..index], &pod);
            let config = with(&configs[index], "prevResult", &result);
            let answer = node.call(kind(&config), "ADD", &pod, &config, &env);
            assert_eq!(answer.status, -1, "{case}: {answer:?}");
            assert!(!world.left().is_empty(), "{case}: nothing was made");
            world.del(case, &configs, &pod, &[]);
            world.expect_bare(case, &pod);
            world.expect_untouched(case);
            pod.namespace.remove().unwrap();
        }
    }
}
