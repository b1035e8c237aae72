//! An ADD that fails when much of it is made already takes all of it back.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use std::fs::OpenOptions;
use std::process::{Command, Stdio};

use lab::Snapshot;
use serde_json::{Value, json};
use tests::{Node, Pod, World, kind, replace_iptables, sh, with};

/// A link that stands in the way stays, and nothing is made beside it.
#[test]
fn derived_names_that_others_have() {
    let Some(world) = World::new("late-names") else {
        return;
    };
    let configs = world.configs();
    let (pod, told) = world.pod("pod");
    let names = told[0]["prevResult"]["interfaces"].as_array().unwrap();
    let name = |index: usize| names[index]["name"].as_str().unwrap();
    world.del("first", &told, &pod, &[]);
    for (taken, plugins) in [(name(1), 0), (name(3), 2)] {
        let result = world.node.add_each(&configs[..plugins], &pod);
        let ip = |words: &[&str]| world.node.namespace.read("ip", words).unwrap();
        ip(&["link", "add", taken, "type", "bridge"]);
        let before = world.snapshot();
        let config = with(&configs[plugins], "prevResult", &result);
        let answer = world.node.call(kind(&config), "ADD", &pod, &config, &[]);
        answer.expect_refused(taken, 103, &[taken, "already exists"]);
        assert_eq!(world.snapshot(), before, "{taken}");
        // Nor does DEL take it.
        world.del(taken, &configs, &pod, &[]);
        assert!(ip(&["link"]).contains(taken));
        ip(&["link", "del", taken]);
        world.expect_bare(taken, &pod);
        world.expect_untouched(taken);
    }
}

/// Another's qdisc at the root of the pod's link is not replaced.
#[test]
fn a_root_qdisc_of_another() {
    let Some(world) = World::new("late-qdisc") else {
        return;
    };
    let configs = world.configs();
    let pod = world.node.pod("pod");
    let result = world.node.add_each(&configs[..2], &pod);
    let veth = result["interfaces"][1]["name"].as_str().unwrap();
    let words = ["qdisc", "add", "dev", veth, "root", "handle", "7:", "pfifo"];
    world.node.namespace.read("tc", &words).unwrap();
    let before = world.snapshot();
    let config = with(&configs[2], "prevResult", &result);
    let answer = world.node.call("bandwidth", "ADD", &pod, &config, &[]);
    answer.expect_refused("pfifo", 103, &["create qdisc: file exists", "pfifo", veth]);
    assert_eq!(world.snapshot(), before);
    world.del("pfifo", &configs, &pod, &[]);
    world.expect_untouched("pfifo");
}

/// The pod's routes are the last things in it that can fail.
#[test]
fn a_route_that_cannot_be() {
    let Some(world) = World::dual_stack("late-route") else {
        return;
    };
    let pod = world.node.pod("pod");
    // A destination, a gateway, and where that comes from.
    for (destination, gateway, of) in [
        ("10.9.0.0/16", "172.16.0.1", "ipam.routes[].gw"),
        ("fd09::/64", "fd99::1", "ipam.routes[].gw"),
        ("0.0.0.0/0", "172.16.0.1", "gateway of 10.244.0."),
        ("::/0", "fd99::1", "gateway of fd00:10:244::"),
    ] {
        let mut config = with(&world.configs()[0], "isGateway", &json!(false));
        let mut route = json!({ "dst": destination });
        if of.starts_with("gateway") {
            let range = usize::from(gateway.contains(':'));
            config["ipam"]["ranges"][range][0]["gateway"] = json!(gateway);
        } else {
            route["gw"] = json!(gateway);
        }
        config["ipam"]["routes"] = json!([route]);
        let answer = world.node.call("bridge", "ADD", &pod, &config, &[]);
        let words = [
            "failed to add route to \"eth0\"",
            destination,
            of,
            &format!(": {gateway} is on no network that eth0 leads to"),
        ];
        answer.expect_refused(destination, 100, &words);
        world.expect_bare(destination, &pod);
        world.expect_untouched(destination);
    }
}

/// With `enabledad`, an address that another pod of the bridge has already.
#[test]
fn an_address_that_is_a_duplicate() {
    let Some(world) = World::dual_stack("late-duplicate") else {
        return;
    };
    let netlink = world.other.namespace.netlink().unwrap();
    let eth0 = netlink.link("eth0").unwrap().unwrap().index;
    let duplicate = "fd00:10:244::77";
    let net = format!("{duplicate}/64").parse().unwrap();
    netlink.add_address(eth0, net, true).unwrap();
    let asked = json!({ "ips": [duplicate] });
    let config = with(&world.configs()[0], "runtimeConfig", &asked);
    let config = with(&config, "enabledad", &json!(true));
    let pod = world.node.pod("pod");
    let answer = world.node.call("bridge", "ADD", &pod, &config, &[]);
    answer.expect_refused("duplicate", 100, &[duplicate, "eth0"]);
    world.expect_bare("duplicate", &pod);
    world.expect_untouched("duplicate");
}

/// The program where no sysctl can be written.
fn sealed(program: &std::path::Path) -> Command {
    let mut command = Command::new(lab::find_tool("unshare").unwrap());
    let script = "mount --bind /proc/sys /proc/sys && \
                  mount -o remount,bind,ro /proc/sys && exec \"$0\"";
    command.args(["--mount", "sh", "-c", script]).arg(program);
    command
}

/// A pod in which IPv6 is off.
#[test]
fn ipv6_that_cannot_be_switched_on() {
    let Some(node) = Node::new("late-ipv6") else {
        return;
    };
    let ipam = json!({ "type": "host-local", "dataDir": node.data, "subnet": "fd00:10:244::/64" });
    let config = node.bridge_config(json!({ "ipam": ipam }));
    let forward = "echo 1 > /proc/sys/net/ipv6/conf/all/forwarding";
    sh(&node.namespace, forward);
    let pod = node.pod("pod");
    let off =
        "for link in default lo; do echo 1 > /proc/sys/net/ipv6/conf/$link/disable_ipv6; done";
    sh(&pod.namespace, off);
    let before = node.snapshot("testnet");
    let process = sealed(&node.bin.join("bridge"));
    let answer = node.call_as(process, "ADD", &pod, &config, &[]);
    let words = [
        "failed to enable IPv6 for interface \"lo\"",
        "net/ipv6/conf/lo/disable_ipv6",
    ];
    answer.expect_refused("disable_ipv6", 100, &words);
    expect_only_the_bridge(&node, &before, &pod);
}

/// Sysctls that cannot be written: a node on which forwarding was never allowed.
#[test]
fn sysctls_that_cannot_be_written() {
    let Some(node) = Node::new("late-sysctl") else {
        return;
    };
    node.namespace
        .read("sh", &["-c", "echo 0 > /proc/sys/net/ipv4/ip_forward"])
        .unwrap();
    let pod = node.pod("pod");
    let config = node.bridge_config(json!({ "ipMasq": true }));
    let before = node.snapshot("testnet");
    let process = sealed(&node.bin.join("bridge"));
    let answer = node.call_as(process, "ADD", &pod, &config, &[]);
    answer.expect_refused(
        "ip_forward",
        100,
        &["failed to enable forwarding", "ip_forward"],
    );
    expect_only_the_bridge(&node, &before, &pod);
    // Now that nothing has to be written, nothing is.
    node.namespace
        .read("sh", &["-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"])
        .unwrap();
    let process = sealed(&node.bin.join("bridge"));
    node.call_as(process, "ADD", &pod, &config, &[]).ok();
    node.call("bridge", "DEL", &pod, &config, &[]).ok();
    expect_only_the_bridge(&node, &before, &pod);
}

/// Somebody takes the pod's interface down while its ADD is at work: the port of the bridge comes up
/// late, or never.
#[test]
fn a_port_that_does_not_come_up() {
    let Some(world) = World::new("late-port") else {
        return;
    };
    let link = "nsenter --net=$CNI_NETNS ip link";
    // The rules are made while the interface is.
    let down = format!("until {link} show eth0 up | grep -q .; do :; done; {link} set eth0 down");
    let up = format!("(sleep 1; {link} set eth0 up) > /dev/null 2>&1 < /dev/null &");
    let config = &world.configs()[0];
    for (case, comes_up) in [("late", true), ("never", false)] {
        let then = if comes_up { up.as_str() } else { "" };
        let making = format!("case $lines in *-N*) {down}\n{then} ;; esac");
        let restore = format!("lines=$(cat)\n{making}\necho \"$lines\" | $real \"$@\"\nexit");
        let script = format!("case $0 in *-restore) {restore} ;; esac\nexec $real \"$@\"");
        let folder = replace_iptables(&world.node.folder().join(case), &script);
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
        let pod = world.node.pod(case);
        let answer = world
            .node
            .call("bridge", "ADD", &pod, config, &[("PATH", &path)]);
        if comes_up {
            answer.ok();
            world.del(case, std::slice::from_ref(config), &pod, &[]);
        } else {
            let words = ["bridge port in error state: lower-layer-down"];
            answer.expect_refused(case, 100, &words);
        }
        world.expect_bare(case, &pod);
        world.expect_untouched(case);
    }
}

fn expect_only_the_bridge(node: &Node, before: &Snapshot, pod: &Pod) {
    let left = node.snapshot("testnet").since(before);
    let built_in = |line: &str| line.contains("nat: :") && line.ends_with(" ACCEPT");
    let left = left.filter(|line| !line.starts_with("cni0 bridge ") && !built_in(line));
    assert!(left.is_empty(), "left:\n{left}");
    let links = pod.namespace.netlink().unwrap().links().unwrap();
    assert_eq!(links.len(), 1, "{links:?}");
}

/// A result that the runtime never gets: what it tells of would never be deleted.
#[test]
fn a_result_that_cannot_be_delivered() {
    let Some(world) = World::dual_stack("late-result") else {
        return;
    };
    let configs = world.configs();
    for (index, config) in configs.iter().enumerate() {
        let pod = world.node.pod(&format!("pod{index}"));
        let result = world.node.add_each(&configs[..index], &pod);
        let before = world.snapshot();
        let config = with(config, "prevResult", &result);
        assert!(!add_into_full(&world.node, &pod, &config), "{config}");
        let now = world.snapshot();
        let left = now.since(&before);
        assert!(left.is_empty(), "{}: left:\n{left}", kind(&config));
        world.del("at the end", &configs, &pod, &[]);
        world.expect_bare("at the end", &pod);
        world.expect_untouched("at the end");
    }
}

/// ADD with a standard output that takes nothing; whether it succeeded.
fn add_into_full(node: &Node, pod: &Pod, config: &Value) -> bool {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let file = node.folder().join("config");
    std::fs::write(&file, config.to_string()).unwrap();
    let mut process = Command::new(node.bin.join(kind(config)));
    node.set_environment(&mut process, "ADD", pod, &[]);
    process
        .stdin(std::fs::File::open(file).unwrap())
        .stdout(full)
        .stderr(Stdio::null());
    let mut child = node.namespace.spawn(&mut process).unwrap();
    child.wait().unwrap().success()
}
