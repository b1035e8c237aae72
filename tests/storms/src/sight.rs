//! What of an attachment is on the node, as anyone can see it.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use lab::{Namespace, read_reservations, rules_by};
use net::Link;

use crate::Error;
use crate::ground::Ground;
use crate::network::Network;
use crate::tenant::Tenant;

/// How many characters an attachment's chain has.
const CHAIN_LEN: usize = 28;

/// What is on the node, as far as one network makes it.
#[derive(Debug)]
pub struct Sight {
    links: Vec<Link>,
    rules: Vec<String>,
    reservations: Vec<String>,
    flows: Vec<String>,
}

/// What of it is one attachment's, a line each.
#[derive(Debug, Default)]
pub struct Traces {
    /// `ADDRESS CONTAINER INTERFACE`.
    pub reservations: Vec<String>,
    /// Flows of UDP to its host port.
    pub flows: Vec<String>,
    links: Vec<String>,
    rules: Vec<String>,
    inside: Vec<String>,
}

/// How much of each kind there is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shape {
    /// Links on the node, and their queueing disciplines.
    pub links: usize,
    /// Rules, chains and elements.
    pub rules: usize,
    /// Addresses.
    pub reservations: usize,
    /// Links in the pod.
    pub inside: usize,
}

impl Sight {
    /// What is there now.
    ///
    /// # Errors
    /// Something cannot be read.
    pub fn of(ground: &Ground, network: &Network) -> Result<Sight, Error> {
        let node = &ground.node.namespace;
        let mut rules = Vec::new();
        for program in network.listers() {
            rules.extend(rules_by(node, &program)?);
        }
        Ok(Sight {
            links: node.netlink()?.links()?,
            rules,
            reservations: read_reservations(&ground.node.data.join(&network.list.name))?,
            flows: node.run(::tests::flows)?,
        })
    }

    /// What of it is the attachment's, and what is in its pod. Names of its links and chains are kept.
    ///
    /// # Errors
    /// Something cannot be read.
    pub fn traces(
        &self,
        ground: &Ground,
        tenant: &mut Tenant,
        id: &str,
        pod: Option<&Namespace>,
    ) -> Result<Traces, Error> {
        let network = &ground.network(tenant.network).list.name;
        let alias = format!("{network}/{id}/{}", tenant.ifname);
        let is_own = |link: &&Link| link.alias == alias || tenant.names.contains(&link.name);
        let own: Vec<&Link> = self.links.iter().filter(is_own).collect();
        let netlink = ground.node.namespace.netlink()?;
        let mut links = Vec::new();
        for link in &own {
            links.push(format!("{} {}", link.name, link.kind));
            let qdiscs = netlink.qdiscs(link.index)?;
            let made = qdiscs.iter().filter(|qdisc| qdisc.handle != 0);
            links.extend(made.map(|qdisc| format!("{} {}", link.name, qdisc.kind)));
        }
        tenant
            .names
            .extend(own.iter().map(|link| link.name.clone()));
        let rules = own_rules(&self.rules, network, id, &mut tenant.names);
        let inside = match pod {
            Some(pod) => pod.netlink()?.link(tenant.ifname)?,
            None => None,
        };
        let holder = format!(" {id} {}", tenant.ifname);
        let port = format!("dport={} ", tenant.ports.1);
        Ok(Traces {
            reservations: some(&self.reservations, |line| line.ends_with(&holder)),
            flows: some(&self.flows, |line| line.contains(&port)),
            links,
            rules,
            inside: inside.map(|link| link.name).into_iter().collect(),
        })
    }
}

fn some(lines: &[String], keep: impl Fn(&str) -> bool) -> Vec<String> {
    lines.iter().filter(|line| keep(line)).cloned().collect()
}

/// The rules whose comments name the attachment, and the chains that these lead to or are in, with all
/// that is in there; and what else is in chains of these names.
fn own_rules(
    rules: &[String],
    network: &str,
    id: &str,
    names: &mut BTreeSet<String>,
) -> Vec<String> {
    let is_named = |line: &str| line.contains(network) && line.contains(id);
    let chains = |line: &str| -> Vec<String> {
        let words = line.split([' ', ':']);
        let own = words.filter(|word| word.len() == CHAIN_LEN && word.starts_with("CNI-"));
        own.map(str::to_owned).collect()
    };
    let named = rules.iter().filter(|line| is_named(line));
    names.extend(named.flat_map(|line| chains(line)));
    some(rules, |line| {
        is_named(line) || chains(line).iter().any(|chain| names.contains(chain))
    })
}

impl Traces {
    /// How much there is.
    pub fn shape(&self) -> Shape {
        Shape {
            links: self.links.len(),
            rules: self.rules.len(),
            reservations: self.reservations.len(),
            inside: self.inside.len(),
        }
    }

    /// Whether there is nothing, but flows.
    pub fn is_nothing(&self) -> bool {
        self.shape() == Shape::default()
    }

    /// The addresses that are reserved.
    pub fn addresses(&self) -> BTreeSet<IpAddr> {
        let first = |line: &String| line.split(' ').next()?.parse().ok();
        self.reservations.iter().filter_map(first).collect()
    }
}

impl fmt::Display for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, lines) in [
            ("reserved", &self.reservations),
            ("link", &self.links),
            ("rule", &self.rules),
            ("in the pod", &self.inside),
            ("", &self.flows),
        ] {
            for line in lines {
                writeln!(f, "  {kind} {line}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_known_by_comment_and_chain() {
        let own = "CNI-0123456789abcdef01234567";
        let other = "CNI-fedcba987654321001234567";
        let rules: Vec<String> = [
            format!("save nat: :{own} -"),
            format!("save nat: :{other} -"),
            format!(
                "save nat: -A POSTROUTING -s 10.244.0.2/32 -m comment --comment \"name: \\\"net\\\" id: \\\"storm001\\\"\" -j {own}"
            ),
            format!("save nat: -A {own} -d 224.0.0.0/4 -j MASQUERADE"),
            format!("save nat: -A {other} -j MASQUERADE"),
            "save nat: -A OUTPUT -j CNI-HOSTPORT-DNAT".to_owned(),
        ]
        .into();
        let mut names = BTreeSet::new();
        let found = own_rules(&rules, "net", "storm001", &mut names);
        assert_eq!(found, [&rules[0], &rules[2], &rules[3]].map(String::clone));
        // Without the rule that names it, the chain is still known.
        let found = own_rules(&rules[..1], "net", "storm001", &mut names);
        assert_eq!(found, [rules[0].clone()]);
        assert!(own_rules(&rules, "net", "storm002", &mut BTreeSet::new()).is_empty());
    }
}
