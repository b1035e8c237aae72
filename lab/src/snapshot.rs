//! What a node holds at one moment, as text: for comparing before and after.

use std::collections::BTreeMap;
use std::fmt;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use net::Link;

use crate::error::Doing;
use crate::{Error, Namespace, Result, find_tool};

/// Programs that list rules: both variants where both are there, else the default one.
const LISTERS: [(&str, &str); 3] = [
    ("iptables-nft-save", "ip6tables-nft-save"),
    ("iptables-legacy-save", "ip6tables-legacy-save"),
    ("iptables-save", "ip6tables-save"),
];

/// The program that lists rules of nftables.
const NFT: &str = "nft";

/// Where filters of source MACs are, beside whatever another program has there.
const FILTERS: &str = "bridge nat";

/// A node's links, rules, qdiscs and reservations, a line each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// `NAME KIND mac MAC mtu MTU …`, with what it is a port of and its global addresses.
    pub links: Vec<String>,
    /// `LISTER TABLE: LINE`, in their order, without counters. A chain is a line too. Of nftables only
    /// what has a comment, in the tables whose names begin with `cni_` and in `bridge nat`, and there
    /// chains whose names begin with `cni-`.
    pub rules: Vec<String>,
    /// `LINK KIND handle HANDLE`, those that someone made.
    pub qdiscs: Vec<String>,
    /// `ADDRESS CONTAINER INTERFACE`.
    pub reservations: Vec<String>,
}

impl Snapshot {
    /// Of a node whose reservations are the files of `store` that are named by an address. (A
    /// folder that is not there holds none.)
    ///
    /// # Errors
    /// Something cannot be read.
    pub fn of(node: &Namespace, store: &Path) -> Result<Snapshot> {
        Snapshot::of_stores(node, &[store.to_owned()])
    }

    /// The same with the reservations of several stores, one after the other.
    ///
    /// # Errors
    /// Something cannot be read.
    pub fn of_stores(node: &Namespace, stores: &[PathBuf]) -> Result<Snapshot> {
        let (links, qdiscs) = read_links(node)?;
        let mut reservations = Vec::new();
        for store in stores {
            reservations.extend(read_reservations(store)?);
        }
        Ok(Snapshot {
            links,
            rules: read_rules(node)?,
            qdiscs,
            reservations,
        })
    }

    /// What is here and was not in `before`. A line that is there more often than before counts
    /// as often.
    #[must_use]
    pub fn since(&self, before: &Snapshot) -> Snapshot {
        Snapshot {
            links: added(&before.links, &self.links),
            rules: added(&before.rules, &self.rules),
            qdiscs: added(&before.qdiscs, &self.qdiscs),
            reservations: added(&before.reservations, &self.reservations),
        }
    }

    /// Only the lines that `keep` wants.
    #[must_use]
    pub fn filter(mut self, keep: impl Fn(&str) -> bool) -> Snapshot {
        for lines in [
            &mut self.links,
            &mut self.rules,
            &mut self.qdiscs,
            &mut self.reservations,
        ] {
            lines.retain(|line| keep(line));
        }
        self
    }

    /// Whether there is no line at all.
    pub fn is_empty(&self) -> bool {
        self.lines().next().is_none()
    }

    fn lines(&self) -> impl Iterator<Item = &String> {
        [&self.links, &self.rules, &self.qdiscs, &self.reservations]
            .into_iter()
            .flatten()
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines().try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// The lines of `after` that `before` does not have as often.
fn added(before: &[String], after: &[String]) -> Vec<String> {
    let mut known = BTreeMap::<&str, usize>::new();
    for line in before {
        *known.entry(line).or_default() += 1;
    }
    after
        .iter()
        .filter(|line| match known.get_mut(line.as_str()) {
            Some(left) if *left > 0 => {
                *left -= 1;
                false
            }
            _ => true,
        })
        .cloned()
        .collect()
}

fn read_links(node: &Namespace) -> Result<(Vec<String>, Vec<String>)> {
    let netlink = node.netlink()?;
    let all = netlink.links()?;
    let (mut links, mut qdiscs) = (Vec::new(), Vec::new());
    for link in &all {
        let mut line = describe(link, &all);
        for address in netlink.addresses(link.index)? {
            if address.global {
                line = format!("{line} address {}", address.net);
            }
        }
        links.push(line);
        // Handle 0 is the default that every link comes with.
        for qdisc in netlink
            .qdiscs(link.index)?
            .iter()
            .filter(|qdisc| qdisc.handle != 0)
        {
            qdiscs.push(format!(
                "{} {} handle {:x}:",
                link.name,
                qdisc.kind,
                qdisc.handle >> 16
            ));
        }
    }
    links.sort();
    qdiscs.sort();
    Ok((links, qdiscs))
}

fn describe(link: &Link, all: &[Link]) -> String {
    let mut line = format!("{} {}", link.name, link.kind);
    if let Some(mac) = link.mac {
        line = format!("{line} mac {mac}");
    }
    line = format!("{line} mtu {}", link.mtu);
    if let Some(master) = all.iter().find(|other| Some(other.index) == link.master) {
        line = format!("{line} master {}", master.name);
    }
    line
}

fn read_rules(node: &Namespace) -> Result<Vec<String>> {
    let mut rules = Vec::new();
    let there = |pair: &&(&str, &str)| find_tool(pair.0).is_some();
    let variants = LISTERS.get(..2).unwrap_or_default().iter().filter(there);
    let default = LISTERS.iter().skip(2).filter(there);
    let mut listers: Vec<_> = variants.collect();
    if listers.is_empty() {
        listers.extend(default);
    }
    for (ipv4, ipv6) in listers {
        for program in [ipv4, ipv6] {
            rules.extend(rules_by(node, program)?);
        }
    }
    rules.extend(rules_by(node, NFT)?);
    Ok(rules)
}

/// The rules that one program lists, `nft` or an `iptables-save` of whatever family and variant, as
/// [`Snapshot::rules`] has them; none where it is not there.
///
/// # Errors
/// The program's.
pub fn rules_by(node: &Namespace, program: &str) -> Result<Vec<String>> {
    if program == NFT {
        let ruleset = said_by(node, program, &["list", "ruleset"])?;
        return Ok(commented_lines(&ruleset));
    }
    let saved = said_by(node, program, &[])?;
    Ok(rule_lines(program, &saved))
}

/// What a program prints; nothing where it is not there.
fn said_by(node: &Namespace, program: &str, arguments: &[&str]) -> Result<String> {
    let Some(file) = find_tool(program) else {
        return Ok(String::new());
    };
    let output = node.output(Command::new(file).args(arguments), b"")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(Error::Failed(format!("{program}: {}", said.trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The elements and rules with a comment in what `nft list ruleset` printed, with their table and
/// what they are in, and the chains of filters. Elements have no order of their own.
fn commented_lines(ruleset: &str) -> Vec<String> {
    let (mut table, mut object) = ("", "");
    let mut lines = Vec::new();
    for line in ruleset.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("table ") {
            table = name.trim_end_matches(" {");
        } else if let Some(name) = line.strip_suffix(" {") {
            object = name;
            if table == FILTERS && name.starts_with("chain cni-") {
                lines.push(format!("nft {table}: {name}"));
            }
        } else if line.contains(" comment \"") && (table.contains(" cni_") || table == FILTERS) {
            let line = line.trim_start_matches("elements = { ");
            let line = line.trim_end_matches([',', ' ', '}']);
            let is_rule = object.starts_with("chain ");
            let parts = if is_rule { vec![line] } else { elements(line) };
            let named = |part| format!("nft {table}: {object} {part}");
            lines.extend(parts.into_iter().map(named));
        }
    }
    lines.sort();
    lines
}

/// The elements on one line: `nft` puts as many there as fit. A comma in a comment separates none.
fn elements(line: &str) -> Vec<&str> {
    let mut quoted = false;
    let separates = |c: char| {
        quoted ^= c == '"';
        c == ',' && !quoted
    };
    line.split(separates).map(str::trim).collect()
}

/// The rules and chains in what `iptables-save` printed, with their table and without counters.
fn rule_lines(program: &str, saved: &str) -> Vec<String> {
    let mut table = "";
    let mut lines = Vec::new();
    for line in saved.lines() {
        match line.split_at_checked(1) {
            Some(("*", name)) => table = name,
            Some((":", _)) => {
                let chain = line.split(" [").next().unwrap_or(line);
                lines.push(format!("{program} {table}: {chain}"));
            }
            Some(("-", _)) => lines.push(format!("{program} {table}: {line}")),
            _ => {}
        }
    }
    lines
}

/// The reservations in a store, as [`Snapshot::reservations`] has them.
///
/// # Errors
/// The store cannot be read. That it is not there is none.
pub fn read_reservations(store: &Path) -> Result<Vec<String>> {
    let entries = match std::fs::read_dir(store) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.doing(format!("read {}", store.display()))?,
    };
    let mut reservations = Vec::new();
    for entry in entries {
        let entry = entry.doing(format!("read {}", store.display()))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.parse::<IpAddr>().is_ok() {
            let owner = match std::fs::read_to_string(entry.path()) {
                // Gone since the folder was listed.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                owner => owner.doing(format!("read {name}"))?,
            };
            let owner: Vec<_> = owner.split_whitespace().collect();
            reservations.push(format!("{name} {}", owner.join(" ")));
        }
    }
    reservations.sort();
    Ok(reservations)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_and_remarks_are_no_rules() {
        let saved = "# Generated by iptables-save\n*nat\n:PREROUTING ACCEPT [7:420]\n\
                     :CNI-X - [0:0]\n-A CNI-X -j MASQUERADE\nCOMMIT\n*filter\n-A INPUT -j DROP\n";
        assert_eq!(
            rule_lines("save", saved),
            [
                "save nat: :PREROUTING ACCEPT",
                "save nat: :CNI-X -",
                "save nat: -A CNI-X -j MASQUERADE",
                "save filter: -A INPUT -j DROP"
            ]
        );
    }

    #[test]
    fn of_nftables_what_attachments_have_counts() {
        let ruleset = "table ip nat {\n\tchain c {\n\t\taccept comment \"x\"\n\t}\n}\n\
                       table ip cni_a {\n\tmap m {\n\t\ttype inet_service : verdict\n\
                       \t\telements = { 2 comment \"b, c\" : accept, 3 comment \"b\" : drop,\n\
                       \t\t\t     1 comment \"a\" : drop }\n\t}\n\
                       \n\tchain c {\n\t\taccept\n\t\ttcp dport { 1, 2 } drop comment \"a\"\n\t}\n}\n";
        assert_eq!(
            commented_lines(ruleset),
            [
                "nft ip cni_a: chain c tcp dport { 1, 2 } drop comment \"a\"",
                "nft ip cni_a: map m 1 comment \"a\" : drop",
                "nft ip cni_a: map m 2 comment \"b, c\" : accept",
                "nft ip cni_a: map m 3 comment \"b\" : drop",
            ]
        );
        let filters = "table bridge nat {\n\tchain PREROUTING {\n\t\taccept\n\t\tdrop comment \"a\"\n\t}\n\
                       \tchain cni-x {\n\t\tcomment \"b\"\n\t}\n}\ntable bridge x {\n\tchain cni-y {\n\t}\n}\n";
        assert_eq!(
            commented_lines(filters),
            [
                "nft bridge nat: chain PREROUTING drop comment \"a\"",
                "nft bridge nat: chain cni-x",
            ]
        );
    }

    #[test]
    fn a_line_that_came_again_is_one_more() {
        let lines = |text: &str| -> Vec<String> { text.split(' ').map(Into::into).collect() };
        assert_eq!(added(&lines("a b"), &lines("a b a c")), ["a", "c"]);
        assert!(added(&lines("a b"), &lines("b")).is_empty());
    }

    #[test]
    fn only_files_named_by_an_address_are_reservations() {
        let lab = crate::Lab::new("reservations").unwrap();
        let write = |name: &str, text: &str| {
            std::fs::write(lab.folder().join(name), text).unwrap();
        };
        write("10.244.0.2", "pod\r\neth0");
        write("lock", "");
        write("last_reserved_ip.0", "10.244.0.2");
        assert_eq!(
            read_reservations(lab.folder()).unwrap(),
            ["10.244.0.2 pod eth0"]
        );
        assert!(
            read_reservations(&lab.folder().join("none"))
                .unwrap()
                .is_empty()
        );
    }
}
