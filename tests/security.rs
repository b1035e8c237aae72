//! What the plugins need, what they leave readable, and what a pod can do to a node from inside:
//! docs/security.md.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tests::{Pod, World, address, kind, sh, with};

/// The capabilities that each plugin needs, of those that root has; docs/security.md has the same table.
const NEEDS: [(&str, &[&str]); 5] = [
    ("host-local", &[]),
    ("loopback", &["net_admin", "sys_admin"]),
    ("bridge", &["net_admin", "net_raw", "sys_admin"]),
    ("portmap", &["net_admin", "net_raw"]),
    ("bandwidth", &["net_admin", "sys_admin"]),
];

/// A command line that starts a plugin with these capabilities and no other.
fn limited(world: &World, plugin: &str, capabilities: &[&str]) -> Command {
    let added = capabilities.iter().map(|one| format!(",+{one}"));
    let bounds = format!("--bounding-set=-all{}", added.collect::<String>());
    let mut process = Command::new(lab::find_tool("setpriv").unwrap());
    process
        .args([&bounds, "--inh-caps=-all"])
        .arg(world.node.bin.join(plugin));
    process
}

/// The verbs of one plugin that fail when it has these capabilities; all other plugins have all.
fn failing(world: &World, plugin: &str, capabilities: &[&str]) -> Vec<&'static str> {
    let node = &world.node;
    let pod = node.pod("pod");
    let mut configs = world.configs();
    match plugin {
        // By itself; the bridge would start it with what it has.
        "host-local" => configs[0]["type"] = json!(plugin),
        "loopback" => configs[0]["type"] = json!(plugin),
        _ => {}
    }
    let at = configs
        .iter()
        .position(|config| kind(config) == plugin)
        .unwrap();
    configs.truncate(at + 1);
    let mut result = Value::Null;
    for config in &mut configs {
        *config = with(config, "prevResult", &result);
        if kind(config) != plugin {
            result = node
                .call(kind(config), "ADD", &pod, &*config, &[])
                .ok()
                .clone();
        }
    }
    let call = |verb: &'static str, config: &Value| {
        let process = limited(world, plugin, capabilities);
        node.call_as(process, verb, &pod, config, &[])
    };
    let added = call("ADD", &configs[at]);
    let mut failed = Vec::new();
    if added.status == 0 {
        let told = with(&configs[at], "prevResult", &added.json);
        for verb in ["CHECK", "DEL"] {
            if call(verb, &told).status != 0 {
                failed.push(verb);
            }
        }
    } else {
        failed.push("ADD");
    }
    for answer in node.del_each(&configs, &pod, &[]) {
        answer.ok();
    }
    pod.namespace.remove().unwrap();
    failed
}

#[test]
fn each_plugin_needs_these_capabilities_and_no_other() {
    if lab::find_tool("setpriv").is_none() {
        return lab::skip("setpriv is not installed");
    }
    let worlds = [World::dual_stack("caps"), World::legacy("caps-legacy")];
    let (mut wrong, mut unneeded) = (Vec::new(), Vec::new());
    for (plugin, needed) in NEEDS {
        let mut idle: Vec<&str> = needed.to_vec();
        for world in worlds.iter().flatten() {
            let failed = failing(world, plugin, needed);
            if !failed.is_empty() {
                wrong.push(format!("{plugin} with {needed:?}: {failed:?}"));
            }
            idle.retain(|one| {
                let others: Vec<&str> = needed.iter().copied().filter(|it| it != one).collect();
                failing(world, plugin, &others).is_empty()
            });
            world.expect_untouched(plugin);
        }
        unneeded.extend(idle.iter().map(|one| format!("{plugin}: {one}")));
    }
    assert!(
        wrong.is_empty() && unneeded.is_empty(),
        "{wrong:?} {unneeded:?}"
    );
}

/// Whatever umask a runtime has.
#[test]
fn nothing_that_is_left_can_be_written_or_read_by_others() {
    let Some(world) = World::dual_stack("modes") else {
        return;
    };
    let node = &world.node;
    let log = node.folder().join("log");
    let data = node.folder().join("a/b/networks");
    let mut config = with(&world.configs()[0], "logFile", &json!(log));
    config["ipam"]["dataDir"] = json!(data);
    for umask in ["000", "022", "077"] {
        let pod = node.pod("pod");
        let call = |verb: &str, config: &Value| {
            let mut process = Command::new("sh");
            process
                .args(["-c", &format!("umask {umask}; exec \"$0\"")])
                .arg(node.bin.join("bridge"));
            node.call_as(process, verb, &pod, config, &[])
        };
        let result = call("ADD", &config).ok().clone();
        let store = data.join(&world.list.name);
        let mode = |path: &Path| fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&log), 0o600, "{umask}");
        for folder in [node.folder().join("a"), data.clone(), store.clone()] {
            assert_eq!(mode(&folder) & 0o022, 0, "{umask}: {}", folder.display());
        }
        for file in fs::read_dir(&store).unwrap() {
            let path = file.unwrap().path();
            // The lock is as the reference plugin makes it, and empty.
            let most = if path.ends_with("lock") { 0o750 } else { 0o600 };
            assert_eq!(mode(&path) & !most, 0, "{umask}: {}", path.display());
        }
        call("DEL", &with(&config, "prevResult", &result)).ok();
        pod.namespace.remove().unwrap();
        fs::remove_dir_all(node.folder().join("a")).unwrap();
        fs::remove_file(&log).unwrap();
    }
}

/// What a pod with all capabilities in its own namespace does there, and whether CHECK notices it.
const ACTS: [(&str, &str, bool); 9] = [
    (
        "renames its link",
        "ip link set eth0 down; ip link set eth0 name mine",
        true,
    ),
    ("deletes its link", "ip link del eth0", true),
    (
        "puts another in its place",
        "ip link set eth0 down; ip link set eth0 name mine; ip link add eth0 type veth peer name eth1; ip link set eth0 up",
        true,
    ),
    (
        "takes the other pod's address",
        "ip address add $OTHER dev eth0",
        false,
    ),
    (
        "takes the gateway's address",
        "ip address add 10.244.0.1/24 dev eth0",
        false,
    ),
    (
        "has another MAC",
        "ip link set eth0 address 02:00:00:00:00:99",
        true,
    ),
    (
        "has a bridge of its own",
        "ip link add cni0 type bridge; ip link set eth0 master cni0",
        false,
    ),
    (
        "lifts its limits",
        "tc qdisc replace dev eth0 root pfifo; tc qdisc add dev eth0 clsact",
        false,
    ),
    (
        "makes rules of its own",
        "iptables -t nat -N CNI-HOSTPORT-DNAT; iptables -t nat -A PREROUTING -j CNI-HOSTPORT-DNAT; iptables -P OUTPUT DROP",
        false,
    ),
];

#[test]
fn what_a_pod_does_inside_stays_inside() {
    let Some(world) = World::dual_stack("inside") else {
        return;
    };
    let other = format!("{}/24", address(&world.other_result));
    for (number, (case, lines, noticed)) in ACTS.iter().enumerate() {
        let (pod, configs) = world.pod(&format!("pod{number}"));
        let before = world.left();
        sh(&pod.namespace, &lines.replace("$OTHER", &other));
        if !noticed {
            assert_eq!(world.left(), before, "{case}");
        }
        let checks = configs.iter().map(|config| {
            let answer = world.node.call(kind(config), "CHECK", &pod, config, &[]);
            answer.status == 0
        });
        let checks: Vec<bool> = checks.collect();
        assert_eq!(checks.contains(&false), *noticed, "{case}: {checks:?}");
        world.del(case, &configs, &pod, &[]);
        world.expect_untouched(case);
    }
}

/// Into a namespace that no runtime knows: its link goes with the DEL all the same.
#[test]
fn a_pod_that_moves_its_link_elsewhere_does_not_keep_it() {
    let Some(world) = World::dual_stack("moved") else {
        return;
    };
    let (pod, configs) = world.pod("pod");
    let elsewhere = world.node.namespace("elsewhere");
    let netns = elsewhere.path().display().to_string();
    let place = netns.rsplit('/').next().unwrap();
    sh(&pod.namespace, &format!("ip link set eth0 netns {place}"));
    let check = world.node.call("bridge", "CHECK", &pod, &configs[0], &[]);
    check.expect_refused("moved", 101, &["eth0"]);
    world.del("moved", &configs, &pod, &[]);
    world.expect_bare("moved", &pod);
    let links = elsewhere.netlink().unwrap().links().unwrap();
    assert_eq!(links.len(), 1, "{links:?}");
    world.expect_untouched("moved");
}

/// Thousands of flows of one pod: DEL, and the next pod's ADD with the same port, look for theirs alone.
#[test]
fn a_pod_that_fills_the_table_of_connections_holds_up_nobody() {
    let Some(world) = World::dual_stack("flows") else {
        return;
    };
    let (pod, configs) = world.pod("pod");
    flood(&pod, "192.0.2.1".parse().unwrap());
    let flows = fs::read_to_string("/proc/sys/net/netfilter/nf_conntrack_count").ok();
    let start = std::time::Instant::now();
    world.del("flows", &configs, &pod, &[]);
    let (next, configs) = world.pod("next");
    world.expect_other_served("flows");
    world.del("flows", &configs, &next, &[]);
    assert!(start.elapsed().as_secs() < 60, "{flows:?}");
    world.expect_untouched("flows");
}

/// From one pod to every port of a host.
fn flood(pod: &Pod, host: std::net::IpAddr) {
    let send = || {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        for port in 1..=20_000 {
            // That nobody listens is told by ICMP, and no matter.
            drop(socket.send_to(b"x", SocketAddr::new(host, port)));
        }
    };
    pod.namespace.run(send).unwrap();
}
