//! What a chain has made, without what may differ from one run to the next: MAC addresses and the
//! name of the host's end of the veth pair.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use lab::Namespace;
use serde_json::{Value, json};

use crate::{Node, Pod};

/// Settings that matter on the node.
const NODE_SYSCTLS: [&str; 5] = [
    "net/ipv4/ip_forward",
    "net/ipv6/conf/all/forwarding",
    "net/ipv4/conf/cni0/route_localnet",
    "net/ipv6/conf/cni0/accept_ra",
    "net/ipv6/conf/HOSTVETH/accept_ra",
];
/// Settings that matter in the pod.
const POD_SYSCTLS: [&str; 4] = [
    "net/ipv4/conf/eth0/arp_notify",
    "net/ipv6/conf/eth0/accept_dad",
    "net/ipv6/conf/eth0/disable_ipv6",
    "net/ipv6/conf/lo/disable_ipv6",
];

/// What is there after a call of a chain, a line each: rules by chain and in their order, the
/// files of the store, links, addresses, routes, queueing disciplines, settings, and the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made(Vec<String>);

impl Made {
    /// What is there now, on a node with one pod.
    pub fn of(node: &Node, pod: &Pod, network: &str, result: &Value) -> Made {
        let veth = host_veth(&node.namespace);
        let mut lines = [
            rules(node, network),
            store(&node.data.join(network)),
            node_lines(&node.namespace, &veth),
            pod_lines(&pod.namespace),
        ]
        .concat();
        lines.push(format!("result {result:#}"));
        let path = pod.namespace.path().display().to_string();
        let hidden = [(veth.as_str(), "HOSTVETH"), (path.as_str(), "POD")];
        for (own, common) in hidden.into_iter().filter(|(own, _)| !own.is_empty()) {
            for line in &mut lines {
                *line = line.replace(own, common);
            }
        }
        Made(lines.into_iter().map(|line| without_macs(&line)).collect())
    }

    /// The lines that only one of the two has; nothing where they are alike.
    pub fn differences(&self, other: &Made) -> String {
        let only = |here: &Made, there: &Made, mark: &str| -> String {
            let lines = here.0.iter().filter(|line| !there.0.contains(line));
            lines.map(|line| format!("{mark} {line}\n")).collect()
        };
        only(self, other, "<") + &only(other, self, ">")
    }
}

/// The host's end of the only pod's veth pair, empty where there is none.
fn host_veth(node: &Namespace) -> String {
    let links = node.netlink().unwrap().links().unwrap();
    let veth = links.into_iter().find(|link| link.name.starts_with("veth"));
    veth.map_or_else(String::new, |link| link.name)
}

fn without_macs(line: &str) -> String {
    let hex = |part: &str| part.len() == 2 && part.chars().all(|c| c.is_ascii_hexdigit());
    let is_mac = |word: &str| word.split(':').count() == 6 && word.split(':').all(hex);
    let words = line
        .split('"')
        .map(|word| if is_mac(word) { "MAC" } else { word });
    words.collect::<Vec<_>>().join("\"")
}

/// A rule's number in its chain is part of the line.
fn rules(node: &Node, network: &str) -> Vec<String> {
    let mut lengths = BTreeMap::<String, usize>::new();
    let mut lines = Vec::new();
    for line in node.snapshot(network).rules {
        let (table, rule) = line.split_once(": ").unwrap();
        if rule.starts_with(':') && rule.ends_with(" ACCEPT") {
            // A built-in chain: the first program that looks at a table makes it.
            continue;
        }
        let words: Vec<_> = rule.split_whitespace().collect();
        let chain = match words.as_slice() {
            ["-A", chain, ..] => chain,
            [chain, ..] => chain.trim_start_matches(':'),
            [] => continue,
        };
        let number = lengths.entry(format!("{table} {chain}")).or_default();
        lines.push(format!("{table} rule {number}: {rule}"));
        *number += 1;
    }
    lines
}

fn store(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let describe = |entry: fs::DirEntry| {
        let text = fs::read_to_string(entry.path()).unwrap();
        format!("store {} {text:?}", entry.file_name().display())
    };
    entries.map(Result::unwrap).map(describe).collect()
}

fn node_lines(node: &Namespace, veth: &str) -> Vec<String> {
    [
        links(node),
        said(node, "ip -o address show scope global"),
        said(node, "ip -4 route show"),
        said(node, "ip -6 route show"),
        said(node, "tc -d qdisc show"),
        filters(node, veth),
        sysctls(
            node,
            &NODE_SYSCTLS.map(|name| name.replace("HOSTVETH", veth)),
        ),
    ]
    .concat()
}

fn filters(node: &Namespace, veth: &str) -> Vec<String> {
    if veth.is_empty() {
        return Vec::new();
    }
    let mut lines = said(node, &format!("tc filter show dev {veth} ingress"));
    // The reference plugin has a second action, which is never reached: the first one takes the
    // packet away.
    lines.retain(|line| !line.contains("action order 2") && !line.contains("index "));
    lines
}

fn pod_lines(pod: &Namespace) -> Vec<String> {
    [
        links(pod),
        said(pod, "ip -o address show scope global"),
        said(pod, "ip -4 route show table all"),
        said(pod, "ip -6 route show table all"),
        sysctls(pod, &POD_SYSCTLS.map(str::to_owned)),
    ]
    .concat()
    .into_iter()
    .map(|line| format!("pod {line}"))
    .collect()
}

/// Links with what was chosen for them; not what the kernel chose or counts, nor by what ours are
/// found again (alias and group).
fn links(namespace: &Namespace) -> Vec<String> {
    let printed = namespace.read("ip", &["-d", "-j", "link", "show"]).unwrap();
    let links: Vec<Value> = serde_json::from_str(&printed).unwrap();
    let describe = |link: &Value| {
        let flags = link["flags"].as_array().unwrap().iter();
        let flags = flags.filter(|flag| *flag != "LOWER_UP" && *flag != "NO-CARRIER");
        let info = &link["linkinfo"];
        let (bridge, port) = (&info["info_data"], &info["info_slave_data"]);
        let line = json!({
            "name": link["ifname"], "flags": flags.collect::<Vec<_>>(), "mtu": link["mtu"],
            "master": link["master"], "kind": info["info_kind"],
            "bridge": [bridge["vlan_filtering"], bridge["stp_state"]],
            "port": [port["hairpin"], port["isolated"], port["learning"], port["flood"]],
        });
        format!("link {line}")
    };
    links.iter().map(describe).collect()
}

/// What a program prints, a line each.
fn said(namespace: &Namespace, words: &str) -> Vec<String> {
    let words: Vec<_> = words.split(' ').collect();
    let (program, arguments) = words.split_first().unwrap();
    let printed = namespace.read(program, arguments).unwrap();
    // Link-local addresses are made of the MAC address.
    let lines = printed.lines().filter(|line| !line.contains("fe80::"));
    lines
        .map(|line| format!("{program} {}", unnumbered(line)))
        .collect()
}

/// Without the link's number, and without what the kernel does in its own time. (Ours tell it not
/// to look for duplicates of an address where that is off; theirs leave that to the setting.)
fn unnumbered(line: &str) -> String {
    let numbered = line.split_once(": ");
    let numbered = numbered.filter(|(number, _)| number.parse::<u32>().is_ok());
    let line = numbered.map_or(line, |(_, rest)| rest);
    let passing = [" linkdown", " tentative", " nodad"];
    let line = passing
        .iter()
        .fold(line.to_owned(), |line, word| line.replace(word, ""));
    line.trim_end().to_owned()
}

fn sysctls(namespace: &Namespace, names: &[String]) -> Vec<String> {
    let describe = |name: &String| {
        let path = Path::new("/proc/sys").join(name);
        let value = namespace.run(|| fs::read_to_string(&path)).unwrap();
        format!(
            "sysctl {name} {}",
            value.as_deref().unwrap_or("none").trim()
        )
    };
    names.iter().map(describe).collect()
}
