//! Ports of the node that lead to a pod.

mod condition;
mod rules;

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::deadline::Deadline;
use crate::garbage::Garbage;
use crate::iptables::Tool;
use crate::names;
use crate::nft;
use crate::rule::{Family, Rule};
use crate::verbs::{self, Adding, Leftover, Tools};
use crate::{Backend, Error, Owner, Result};

pub(crate) use rules::{DNAT as ENTRIES, KINDS, read, target};

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

    const ALL: [Protocol; 3] = [Protocol::Sctp, Protocol::Tcp, Protocol::Udp];

    /// The protocol of that name, in any case.
    pub fn parse(name: &str) -> Option<Protocol> {
        let is = |protocol: &Protocol| protocol.as_str().eq_ignore_ascii_case(name);
        Protocol::ALL.into_iter().find(is)
    }

    /// Its number in a packet (IANA's assigned protocol numbers).
    pub fn number(self) -> u8 {
        match self {
            Protocol::Sctp => 132,
            Protocol::Tcp => 6,
            Protocol::Udp => 17,
        }
    }

    /// The protocol of that number.
    pub fn of_number(number: u8) -> Option<Protocol> {
        let is = |protocol: &Protocol| protocol.number() == number;
        Protocol::ALL.into_iter().find(is)
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

impl Mapping {
    /// Whether the port can be reached by that family. `::1` cannot: the kernel routes nothing that
    /// comes from it, so that a rule would only take away the node's own refusal.
    pub(crate) fn serves(&self, family: Family) -> bool {
        match self.host_ip {
            None => true,
            Some(IpAddr::V4(_)) => family == Family::V4,
            Some(IpAddr::V6(ip)) => family == Family::V6 && !ip.is_loopback(),
        }
    }
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
    /// What else must be true of a connection, for IPv4, in the words of the backend.
    pub conditions_v4: &'a [String],
    /// The same for IPv6.
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
    /// The first address of a family.
    pub(crate) fn address(&self, family: Family) -> Option<&IpNet> {
        self.addresses.iter().find(|net| Family::of(net) == family)
    }

    pub(crate) fn conditions(&self, family: Family) -> &[String] {
        match family {
            Family::V4 => self.conditions_v4,
            Family::V6 => self.conditions_v6,
        }
    }

    fn families(&self) -> impl Iterator<Item = Family> {
        let there = |family: &Family| self.address(*family).is_some();
        Family::ALL.into_iter().filter(there)
    }
}

/// Whether conditions can be obeyed, as far as can be said without trying: nftables' are only known
/// in part, iptables' words are its programs', but for names of links.
///
/// # Errors
/// [`Error::Unsupported`] names what cannot, and what can.
pub fn check_conditions(backend: Backend, family: Family, words: &[String]) -> Result<()> {
    match backend {
        Backend::Iptables => match condition::unreadable(words) {
            Some(name) => Err(Error::Unsupported(format!(
                "{name:?} cannot be the name of a link; allowed: letters, digits and signs, no quotes, \
                 backslashes, white space and no - at its begin"
            ))),
            None => Ok(()),
        },
        Backend::Nftables => nft::check_conditions(family, words),
    }
}

/// Whether all that `add` needs of the node is there: the tools for the addresses' families, and
/// the chain that marks where it is another's; or a kernel with nf_tables. Asked before ADD changes
/// anything.
///
/// # Errors
/// [`Error::NoTool`], [`Error::Missing`] for the chain, [`Error::Unsupported`], or the tool's.
pub fn preflight(backend: Backend, ports: &HostPorts) -> Result<()> {
    if backend == Backend::Nftables {
        return nft::preflight_ports(ports);
    }
    let deadline = Deadline::start();
    for family in ports.families() {
        let tool = Tool::default_of(family, deadline)?;
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

/// Begins to make the rules of the attachment's ports, as [`crate::masquerade::Ready::begin`] does. On an
/// error nothing new is left but what all attachments share.
///
/// # Errors
/// The tool's, or the kernel's.
pub fn begin(backend: Backend, owner: Owner, ports: &HostPorts) -> Result<Adding> {
    let chain = names::chain(rules::PREFIX, owner);
    if backend == Backend::Nftables {
        verbs::forget(&chain)?;
        return nft::add_ports(owner, ports).map(|()| Adding::done());
    }
    nft::forget_ports(owner)?;
    verbs::begin(Tools::find(), &chain, |family| {
        rules::rules(&chain, owner, ports, family)
    })
}

/// Makes the rules at once.
///
/// # Errors
/// As [`begin`].
pub fn add(backend: Backend, owner: Owner, ports: &HostPorts) -> Result<()> {
    begin(backend, owner, ports)?.finish()
}

/// Removes whatever rules the attachment has, of both families, by whichever backend and variant of
/// iptables they were made, found by the attachment alone. Returns the forwardings that were
/// removed, without their unspecified host address.
///
/// The reference plugins have one chain for all interfaces of a container in a network, under the
/// name that here is `eth0`'s, or one comment. For another interface it is removed where all that it speaks of is
/// in `addresses`, what the attachment is known to have (empty where nothing is known): `eth0`'s
/// own rules are not hurt.
///
/// # Errors
/// Only where rules are still there, or may be and nobody can tell (`expected`).
pub fn delete(owner: Owner, addresses: &[IpNet], expected: bool) -> Result<Vec<(Family, Mapping)>> {
    let mut leftovers = Vec::new();
    for prefix in [rules::PREFIX, rules::LEGACY_PREFIX] {
        leftovers.extend(Leftover::of(prefix, owner, addresses));
    }
    // All of it is waited for once, at the end.
    let (results, _settling) = nft::keep(|| {
        let by_iptables = verbs::delete(&leftovers, expected).map(forwardings);
        (by_iptables, nft::delete_ports(owner, addresses, expected))
    });
    match results {
        (Ok(mut removed), Ok(more)) => {
            removed.extend(more);
            Ok(removed)
        }
        (one, other) => {
            let errors = [one, other].into_iter().filter_map(Result::err).collect();
            Error::all(errors).map(|()| Vec::new())
        }
    }
}

/// Removes whatever rules attachments of the network have, of both families, by whichever backend
/// and variant of iptables they were made, except those of the `valid` ones. Returns the forwardings
/// that were removed, as [`delete`] does, also beside an error.
///
/// # Errors
/// What is still there, or may be.
pub fn gc(network: &str, valid: &[Owner]) -> (Vec<(Family, Mapping)>, Result<()>) {
    let garbage = KINDS.map(|kind| Garbage::new(kind, network, valid));
    let (removed, by_iptables) = verbs::gc(&garbage);
    let mut removed = forwardings(removed);
    let by_nftables = nft::gc_ports(network, valid).map(|more| removed.extend(more));
    let results = [by_iptables, by_nftables];
    let errors = results.into_iter().filter_map(Result::err).collect();
    (removed, Error::all(errors))
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
pub fn check(backend: Backend, owner: Owner, ports: &HostPorts) -> Result<()> {
    if backend == Backend::Nftables {
        return nft::check_ports(owner, ports);
    }
    verbs::check(rules::PREFIX, owner, |chain, family| {
        rules::rules(chain, owner, ports, family)
    })
}
