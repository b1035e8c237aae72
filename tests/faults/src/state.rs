//! What a machine holds at one moment, whatever of it a pod may have made.

use std::fs;
use std::path::Path;

use lab::{Namespace, Snapshot};
use tests::World;

use crate::Error;

/// Settings of a namespace, but what is counted there.
const SYSCTLS: [&str; 3] = ["ipv4", "ipv6", "netfilter"];
const COUNTERS: [&str; 1] = ["nf_conntrack_count"];
/// How links of pods are named: their settings go with them, and they are looked at themselves.
const OF_PODS: [&str; 2] = ["veth", "bwp"];
/// Files of a store that stay: its lock, and where the search for the next address begins.
const KEPT: [&str; 2] = ["lock", "last_reserved_ip."];
/// In a flow, the host port of UDP that only pods of cases have.
const FLOWS: &str = "dport=9053 ";
/// How pods' addresses begin there.
const PODS: [&str; 2] = ["src=10.244.", "src=fd00:0010:0244:"];

/// How many lines a difference has at most.
const MOST: usize = 30;

/// Links, rules, queueing disciplines, reservations, and a line for each other thing.
#[derive(Debug, PartialEq, Eq)]
pub struct State {
    node: Snapshot,
    others: Vec<String>,
}

impl State {
    /// Of the node, and of a pod that should hold nothing.
    pub fn of(world: &World, pod: Option<&Namespace>) -> Result<State, Error> {
        let node = &world.node;
        let store = node.data.join(&world.list.name);
        let mut others = files(&store)?;
        others.extend(node.namespace.run(|| [sysctls(), flows()].concat())?);
        if let Some(pod) = pod {
            let links = pod.netlink()?.links()?.into_iter();
            let links = links.filter(|link| link.name != "lo");
            others.extend(links.map(|link| format!("in the pod: link {}", link.name)));
        }
        Ok(State {
            node: world.snapshot(),
            others,
        })
    }

    /// What is here and was not there, and the reverse; `None` where there is nothing.
    pub fn differs_from(&self, before: &State) -> Option<String> {
        if self == before {
            return None;
        }
        let mut lines = Vec::new();
        for (word, here, there) in [("left", self, before), ("lost", before, self)] {
            let of_node = here.node.since(&there.node).to_string();
            lines.extend(of_node.lines().map(|line| format!("{word}: {line}")));
            let others = here.others.iter();
            let others = others.filter(|line| !there.others.contains(line));
            lines.extend(others.map(|line| format!("{word}: {line}")));
        }
        if lines.is_empty() {
            lines.push("the same in another order".to_owned());
        }
        let more = lines.len().saturating_sub(MOST);
        if more > 0 {
            lines.truncate(MOST);
            lines.push(format!("and {more} lines more"));
        }
        Some(lines.join("\n"))
    }
}

fn files(store: &Path) -> Result<Vec<String>, Error> {
    let mut files = Vec::new();
    for entry in fs::read_dir(store)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !KEPT.iter().any(|kept| name.starts_with(kept)) {
            files.push(format!("in the store: {name}"));
        }
    }
    files.sort();
    Ok(files)
}

/// Of the calling thread's namespace; those that nobody may read have no value.
fn sysctls() -> Vec<String> {
    let mut lines = Vec::new();
    let mut folders: Vec<_> = SYSCTLS
        .map(|name| Path::new("/proc/sys/net").join(name))
        .into();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_of_pod = OF_PODS.iter().any(|begin| name.starts_with(begin));
            if is_of_pod || COUNTERS.contains(&name.as_str()) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(value) = fs::read_to_string(&path) {
                lines.push(format!("{} = {}", path.display(), value.trim()));
            }
        }
    }
    lines.sort();
    lines
}

/// Of the calling thread's namespace: the flows to pods' host port. None where the kernel lists none.
fn flows() -> Vec<String> {
    let all = fs::read_to_string("/proc/thread-self/net/nf_conntrack").unwrap_or_default();
    let lines = all.lines().filter(|line| line.contains(FLOWS));
    let to_pod = |word: &&str| PODS.iter().any(|pods| word.starts_with(pods));
    let of_line = |line: &str| {
        line.split(' ')
            .find(to_pod)
            .map(|pod| format!("flow: {pod}"))
    };
    lines.filter_map(of_line).collect()
}
