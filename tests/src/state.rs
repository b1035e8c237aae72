//! What a node holds at one moment, whatever of it a pod may have made.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use lab::{Namespace, Snapshot};

use crate::Node;

/// Settings of a namespace, but what is counted there.
const SYSCTLS: [&str; 3] = ["ipv4", "ipv6", "netfilter"];
const COUNTERS: [&str; 1] = ["nf_conntrack_count"];
/// How links of pods are named: their settings go with them, and they are looked at themselves.
const OF_PODS: [&str; 2] = ["veth", "bwp"];
/// Files of a store that stay: its lock, and where the search for the next address begins.
const KEPT: [&str; 2] = ["lock", "last_reserved_ip."];
/// How addresses of pods begin in a flow.
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
    /// Of a node with the stores of some networks, and of pods that should hold nothing.
    ///
    /// # Errors
    /// Something cannot be read.
    pub fn of(
        node: &Node,
        networks: &[&str],
        pods: &[&Namespace],
    ) -> Result<State, Box<dyn Error + Send + Sync>> {
        let stores: Vec<PathBuf> = networks.iter().map(|name| node.data.join(name)).collect();
        let mut others = Vec::new();
        for store in &stores {
            others.extend(files(store)?);
        }
        others.extend(node.namespace.run(|| [sysctls(), flows()].concat())?);
        for pod in pods {
            let links = pod.netlink()?.links()?.into_iter();
            let links = links.filter(|link| link.name != "lo");
            others.extend(links.map(|link| format!("in the pod: link {}", link.name)));
        }
        Ok(State {
            node: Snapshot::of_stores(&node.namespace, &stores)?,
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

fn files(store: &Path) -> std::io::Result<Vec<String>> {
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

/// Of the calling thread's namespace: the flows of UDP to pods' host ports, `flow: dport=PORT src=POD`. None
/// where the kernel lists none.
pub fn flows() -> Vec<String> {
    let all = fs::read_to_string("/proc/thread-self/net/nf_conntrack").unwrap_or_default();
    all.lines().filter_map(flow).collect()
}

/// What a line of the kernel's says of a flow whose answers come from a pod.
fn flow(line: &str) -> Option<String> {
    let words = || line.split(' ').filter(|word| !word.is_empty());
    if !words().any(|word| word == "udp") {
        return None;
    }
    let port = words().find(|word| word.starts_with("dport="))?;
    let from_pod = |word: &&str| PODS.iter().any(|pods| word.starts_with(pods));
    // The first is of what is asked, the second of what is answered.
    let pod = words().filter(|word| word.starts_with("src=")).nth(1)?;
    from_pod(&pod).then(|| format!("flow: {port} {pod}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_to_pods_are_told_by_port_and_pod() {
        let line = |protocol: &str, from: &str| {
            format!(
                "ipv4     2 {protocol}      17 29 src=192.0.2.1 dst=192.0.2.10 sport=5 dport=9053 \
                 [UNREPLIED] src={from} dst=192.0.2.1 sport=53 dport=5 mark=0 zone=0 use=2"
            )
        };
        let told = "flow: dport=9053 src=10.244.0.2".to_owned();
        assert_eq!(flow(&line("udp", "10.244.0.2")), Some(told));
        assert_eq!(flow(&line("udp", "192.0.2.10")), None);
        assert_eq!(flow(&line("tcp", "10.244.0.2")), None);
    }
}
