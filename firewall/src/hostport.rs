//! Ports of the node that lead to a pod.

mod rules;

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::garbage::Garbage;
use crate::iptables::Tool;
use crate::names;
use crate::rule::{Family, Rule};
use crate::verbs::{self, Leftover};
use crate::{Error, Owner, Result};

/// What a host port speaks. The order is that of the rules: alphabetical.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// SCTP.
    Sctp,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl Protocol {
    /// As iptables names it.
    pub fn as_str(self) -> &'static str {
        match self {
            Protocol::Sctp => "sctp",
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        }
    }

    /// The protocol of that name, in any case.
    pub fn parse(name: &str) -> Option<Protocol> {
        [Protocol::Sctp, Protocol::Tcp, Protocol::Udp]
            .into_iter()
            .find(|protocol| protocol.as_str().eq_ignore_ascii_case(name))
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One port of the node that leads to one of the pod. Of two for the same port the first wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping {
    /// Port of the node.
    pub host_port: u16,
    /// Port of the pod.
    pub container_port: u16,
    /// What it speaks.
    pub protocol: Protocol,
    /// The node's address; `None` for any. An unspecified one (`0.0.0.0`, `::`) is any address of
    /// its family.
    pub host_ip: Option<IpAddr>,
}

/// The host ports of an attachment and how they are reached.
#[derive(Debug, Clone, Copy)]
pub struct HostPorts<'a> {
    /// The ports.
    pub mappings: &'a [Mapping],
    /// The pod's addresses with the prefix of its network; the first of each family counts.
    pub addresses: &'a [IpNet],
    /// Whether a connection from the pod's own network or from the node's 127.0.0.1 gets the
    /// node's address, without which no answer finds its way back.
    pub snat: bool,
    /// With `snat`: whether a connection from anywhere does.
    pub masq_all: bool,
    /// With `snat`: how such connections are marked.
    pub mark: Mark<'a>,
    /// More words of iptables for the IPv4 entries.
    pub conditions_v4: &'a [String],
    /// More words of ip6tables for the IPv6 entries.
    pub conditions_v6: &'a [String],
}

/// How a connection is marked for masquerade.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark<'a> {
    /// By this bit of the packet mark (0 to 31), in chains of our own.
    Bit(u8),
    /// By a chain that another program keeps, with its masquerade rule.
    Chain(&'a str),
}

impl HostPorts<'_> {
    fn address(&self, family: Family) -> Option<&IpNet> {
        self.addresses.iter().find(|net| Family::of(net) == family)
    }

    fn families(&self) -> impl Iterator<Item = Family> {
        let there = |family: &Family| self.address(*family).is_some();
        Family::ALL.into_iter().filter(there)
    }
}

/// Whether all that `add` needs of the node is there: the tools for the addresses' families, and
/// the chain that marks where it is another's. Asked before ADD changes anything.
///
/// # Errors
/// [`Error::NoTool`], [`Error::Missing`] for the chain, or the tool's.
pub fn preflight(ports: &HostPorts) -> Result<()> {
    for family in ports.families() {
        let tool = Tool::default_of(family)?;
        if let Mark::Chain(chain) = ports.mark
            && ports.snat
            && !tool.has_chain(chain)?
        {
            return Err(Error::Missing(format!(
                "chain {chain} not found in {family} iptables table nat"
            )));
        }
    }
    Ok(())
}

/// Makes the rules of the attachment's ports. What it had before is replaced. On an error nothing
/// new is left but what all attachments share.
///
/// # Errors
/// The tool's.
pub fn add(owner: Owner, ports: &HostPorts) -> Result<()> {
    let chain = names::chain(rules::PREFIX, owner);
    verbs::add(&chain, |family| rules::rules(&chain, owner, ports, family))
}

/// Removes whatever rules the attachment has, of both families, in both iptables variants' form,
/// found by its chain's name alone. Returns the forwardings that were removed, without their
/// unspecified host address.
///
/// The reference plugins have one chain for all interfaces of a container in a network, under the
/// name that here is `eth0`'s. For another interface it is removed where all that it speaks of is
/// in `addresses`, what the attachment is known to have (empty where nothing is known): `eth0`'s
/// own rules are not hurt.
///
/// # Errors
/// Only where rules are still there, or may be and no tool can tell (`expected`).
pub fn delete(owner: Owner, addresses: &[IpNet], expected: bool) -> Result<Vec<(Family, Mapping)>> {
    let mut leftovers = Vec::new();
    for prefix in [rules::PREFIX, rules::LEGACY_PREFIX] {
        leftovers.extend(Leftover::of(prefix, owner, addresses));
    }
    verbs::delete(&leftovers, expected).map(forwardings)
}

/// Removes whatever rules attachments of the network have, of both families, in both iptables
/// variants' form, except those of the `valid` ones. Returns the forwardings that were removed, as
/// [`delete`] does, also beside an error.
///
/// # Errors
/// What is still there, or may be.
pub fn gc(network: &str, valid: &[Owner]) -> (Vec<(Family, Mapping)>, Result<()>) {
    let garbage = rules::KINDS.map(|kind| Garbage::new(kind, network, valid));
    let (removed, done) = verbs::gc(&garbage);
    (forwardings(removed), done)
}

fn forwardings(rules: Vec<(Family, Rule)>) -> Vec<(Family, Mapping)> {
    let mapping = |(family, rule): (Family, Rule)| Some((family, rules::read(&rule)?));
    rules.into_iter().filter_map(mapping).collect()
}

/// Whether every rule is there, the attachment's own in their order, and those that all
/// attachments share.
///
/// # Errors
/// [`Error::Missing`] names the first that is not.
pub fn check(owner: Owner, ports: &HostPorts) -> Result<()> {
    verbs::check(rules::PREFIX, owner, |chain, family| {
        rules::rules(chain, owner, ports, family)
    })
}
