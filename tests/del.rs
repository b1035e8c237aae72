//! DEL cleans, whatever has become of the pod's namespace, of what ADD made, or of the calls.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

#[path = "del/busy.rs"]
mod busy;
#[path = "del/config.rs"]
mod config;
#[path = "del/lost.rs"]
mod lost;
#[path = "del/tools.rs"]
mod tools;
#[path = "del/whose.rs"]
mod whose;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use lab::Namespace;
use serde_json::{Value, json};
use tests::{Pod, World, with};

#[test]
fn whatever_cni_netns_names() {
    for world in World::of_each_family("del-netns") {
        let folder = world.node.folder();
        let made = |name: &str, make: &dyn Fn(&Path)| {
            let path = folder.join(name);
            make(&path);
            path.display().to_string()
        };
        let table = [
            ("empty", String::new()),
            ("nothing", "/run/netns/of-nobody".to_owned()),
            ("below a file", "/etc/passwd/x".to_owned()),
            ("relative", "of-nobody".to_owned()),
            (
                "a plain file",
                made("file", &|path| fs::write(path, "").unwrap()),
            ),
            ("a folder", folder.display().to_string()),
            (
                "a dangling link",
                made("link", &|path| symlink("of-nobody", path).unwrap()),
            ),
            (
                "a link to itself",
                made("loop", &|path| symlink(path, path).unwrap()),
            ),
            ("a pipe", made("pipe", &|path| run("mkfifo", path))),
            ("a device", "/dev/null".to_owned()),
            (
                "a namespace of another kind",
                "/proc/self/ns/uts".to_owned(),
            ),
            // Whose eth0 is the uplink.
            ("the node's own namespace", "/proc/self/ns/net".to_owned()),
            (
                "the node's own namespace by its name",
                world.node.namespace.path().display().to_string(),
            ),
            (
                "another pod's namespace",
                world.other.namespace.path().display().to_string(),
            ),
            (
                "an outside host's namespace",
                world.outside.path().display().to_string(),
            ),
        ];
        for (number, (case, netns)) in table.iter().enumerate() {
            let (pod, configs) = world.pod(&format!("pod{number}"));
            world.del(case, &configs, &pod, &[("CNI_NETNS", netns)]);
            world.expect_bare(case, &pod);
            world.expect_untouched(case);
            // Now the pod has nothing more that another's could be mistaken for.
            world.del(case, &configs, &pod, &[("CNI_NETNS", netns)]);
            world.expect_untouched(case);
        }
    }
}

#[test]
fn the_netns_is_deleted() {
    let Some(world) = World::dual_stack("del-gone") else {
        return;
    };
    for (case, keep) in [("by its name, while it is in use", true), ("wholly", false)] {
        let (pod, configs) = world.pod(if keep { "named" } else { "whole" });
        let in_use = keep.then(|| pod.namespace.netns().try_clone().unwrap());
        let path = pod.namespace.path().display().to_string();
        pod.namespace.remove().unwrap();
        // The same names, and no namespace at that path.
        let pod = Pod {
            namespace: world.node.namespace("stand-in"),
            ..pod
        };
        world.del(case, &configs, &pod, &[("CNI_NETNS", &path)]);
        world.expect_untouched(case);
        drop(in_use);
        pod.namespace.remove().unwrap();
    }
}

/// What others did to a pod between its ADD and its DEL.
type Harm = fn(&World, &Pod, &[Value]);

#[test]
fn whatever_happened_to_what_add_made() {
    for world in World::of_each_family("del-harm") {
        let table: [(&str, Harm); 12] = [
            ("link deleted on the node", |world, _, configs| {
                ip(&world.node.namespace, &["link", "del", &host_veth(configs)]);
            }),
            ("link deleted in the pod", |_, pod, _| {
                ip(&pod.namespace, &["link", "del", "eth0"]);
            }),
            ("link renamed on the node", |world, _, configs| {
                let name = host_veth(configs);
                ip(&world.node.namespace, &["link", "set", &name, "name", "x0"]);
            }),
            ("link renamed in the pod", |_, pod, _| {
                ip(&pod.namespace, &["link", "set", "eth0", "down"]);
                ip(&pod.namespace, &["link", "set", "eth0", "name", "x0"]);
            }),
            ("link with another MAC and alias", |world, _, configs| {
                let name = host_veth(configs);
                for change in [["address", "02:00:00:00:00:99"], ["alias", "mine"]] {
                    ip(
                        &world.node.namespace,
                        &["link", "set", &name, change[0], change[1]],
                    );
                }
            }),
            ("link no port any more", |world, _, configs| {
                ip(
                    &world.node.namespace,
                    &["link", "set", &host_veth(configs), "nomaster"],
                );
            }),
            ("ifb deleted", |world, _, configs| {
                ip(&world.node.namespace, &["link", "del", &ifb(configs)]);
            }),
            ("qdiscs deleted", |world, _, configs| {
                for place in ["root", "ingress"] {
                    let words = ["qdisc", "del", "dev", &host_veth(configs), place];
                    world.node.namespace.read("tc", &words).unwrap();
                }
            }),
            ("address deleted in the pod", |_, pod, _| {
                ip(&pod.namespace, &["address", "flush", "dev", "eth0"]);
            }),
            ("rules and chains deleted", |world, pod, _| {
                delete_rules(world, pod, true);
            }),
            ("entries into the chains deleted", |world, pod, _| {
                delete_rules(world, pod, false);
            }),
            ("reservation deleted", |world, _, configs| {
                let store = world.node.data.join(configs[0]["name"].as_str().unwrap());
                fs::remove_file(store.join(address(configs))).unwrap();
            }),
        ];
        for (number, (case, harm)) in table.iter().enumerate() {
            let (pod, configs) = world.pod(&format!("pod{number}"));
            harm(&world, &pod, &configs);
            world.del(case, &configs, &pod, &[]);
            world.expect_bare(case, &pod);
            world.expect_untouched(case);
        }
    }
}

#[test]
fn a_chain_that_ended_early() {
    let Some(world) = World::dual_stack("del-early") else {
        return;
    };
    let configs = world.configs();
    for made in 0..=configs.len() {
        let case = format!("{made} plugins of {}", configs.len());
        let pod = world.node.pod(&format!("pod{made}"));
        world.node.add_each(&configs[..made], &pod);
        world.del(&case, &configs, &pod, &[]);
        world.expect_bare(&case, &pod);
        world.expect_untouched(&case);
    }
    // Killed so early that only the IPAM had answered.
    let pod = world.node.pod("reserved");
    let ipam = with(&configs[0], "type", &json!("host-local"));
    world.node.add_each(&[ipam], &pod);
    world.del("reserved only", &configs, &pod, &[]);
    world.expect_untouched("reserved only");
}

#[test]
fn with_iptables_of_the_legacy_variant() {
    let Some(world) = World::legacy("del-legacy") else {
        return;
    };
    for (number, netns) in ["", "/run/netns/of-nobody"].iter().enumerate() {
        let (pod, configs) = world.pod(&format!("pod{number}"));
        let legacy = |line: &&String| line.starts_with("iptables-legacy-save nat: -A");
        assert!(world.left().rules.iter().any(|line| legacy(&line)));
        world.del(netns, &configs, &pod, &[("CNI_NETNS", netns)]);
        world.expect_bare(netns, &pod);
        world.expect_untouched(netns);
    }
}

#[test]
fn again_and_at_once() {
    let Some(world) = World::dual_stack("del-again") else {
        return;
    };
    let (pod, configs) = world.pod("twice");
    for case in ["once", "twice"] {
        world.del(case, &configs, &pod, &[]);
        world.expect_untouched(case);
    }
    for round in 0..12 {
        let (pod, configs) = world.pod(&format!("at-once{round}"));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| world.del("four at once", &configs, &pod, &[]));
            }
        });
        world.expect_untouched("four at once");
    }
}

fn run(program: &str, argument: &Path) {
    let status = Command::new(program).arg(argument).status().unwrap();
    assert!(status.success(), "{program}");
}

#[track_caller]
fn ip(namespace: &Namespace, words: &[&str]) {
    namespace.read("ip", words).unwrap();
}

/// The node's end of the pod's link, as the final result tells it.
fn host_veth(configs: &[Value]) -> String {
    told(configs, "veth")
}

fn ifb(configs: &[Value]) -> String {
    told(configs, "bwp")
}

fn told(configs: &[Value], prefix: &str) -> String {
    let interfaces = configs[0]["prevResult"]["interfaces"].as_array().unwrap();
    let mut names = interfaces.iter().filter_map(|it| it["name"].as_str());
    let name = names.find(|name| name.starts_with(prefix)).unwrap();
    name.to_owned()
}

fn address(configs: &[Value]) -> String {
    tests::address(&configs[0]["prevResult"]).to_string()
}

/// Deletes the rules that lead to the pod's chains, and the chains where asked.
fn delete_rules(world: &World, pod: &Pod, chains_too: bool) {
    let node = &world.node.namespace;
    let tool = |verb: &str| format!("{}-{verb}", world.family().pick("iptables", "ip6tables"));
    let saved = node.read(&tool("save"), &["-t", "nat"]).unwrap();
    let of_pod = format!(r#"id: \"{}\""#, pod.id);
    let (mut entries, mut chains) = (String::new(), String::new());
    for line in saved.lines().filter(|line| line.contains(&of_pod)) {
        let (_, chain) = line.rsplit_once(" -j ").unwrap();
        if let Some(rule) = line
            .strip_prefix("-A ")
            .filter(|_| chain.starts_with("CNI-"))
        {
            entries += &format!("-D {rule}\n");
            chains += &format!("-F {chain}\n-X {chain}\n");
        }
    }
    // Masquerade, tcp, udp: the two ports share a chain.
    assert_eq!(entries.lines().count(), 3, "{saved}");
    let chains: BTreeSet<_> = chains.lines().collect();
    let chains: String = chains.iter().map(|line| format!("{line}\n")).collect();
    let chains = if chains_too { chains } else { String::new() };
    let batch = format!("*nat\n{entries}{chains}COMMIT\n");
    let restore = lab::find_tool(&tool("restore")).unwrap();
    let mut restore = Command::new(restore);
    let output = node
        .output(restore.arg("--noflush"), batch.as_bytes())
        .unwrap();
    assert!(output.status.success(), "{batch}{output:?}");
}
