//! Host ports as they are: by whose rules, and which of them never gets a packet.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::Backend;
use crate::hostport::{self, Mapping, Protocol};
use crate::rule::{Family, Listing, Rule};

/// A port of the node that leads to a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forwarding {
    /// Which port leads to which.
    pub mapping: Mapping,
    /// The pod's address.
    pub target: IpAddr,
    /// Whose it is, as the comment of the rule says; empty where it says nothing.
    pub comment: String,
    /// By which rules.
    pub backend: Backend,
    /// More must be true of a connection than that it is to this port.
    pub conditional: bool,
    /// From where a connection gets the node's address, as the rules say; what they say of ports with
    /// conditions, or that another attachment has, is not read of nftables.
    pub masquerades: Vec<IpNet>,
}

impl Forwarding {
    fn family(&self) -> Family {
        Family::of(&self.target.into())
    }

    /// Whether a connection to an address and port of the node is taken, if its conditions are true.
    pub fn takes(&self, address: IpAddr, port: u16, protocol: Protocol) -> bool {
        let own = &self.mapping;
        let host_ip = own.host_ip.filter(|ip| !ip.is_unspecified());
        (own.host_port, own.protocol) == (port, protocol)
            && host_ip.is_none_or(|ip| ip == address)
            && self.target.is_ipv4() == address.is_ipv4()
    }

    /// Whether every connection to the other's port is taken by this one, where it is asked first.
    fn covers(&self, other: &Forwarding) -> bool {
        let (own, theirs) = (&self.mapping, &other.mapping);
        let host_ip = |mapping: &Mapping| mapping.host_ip.filter(|ip| !ip.is_unspecified());
        let same = (own.host_port, own.protocol) == (theirs.host_port, theirs.protocol);
        let address = host_ip(own).is_none() || host_ip(own) == host_ip(theirs);
        same && address && self.family() == other.family() && !self.conditional
    }
}

/// Each forwarding that never gets a packet, behind the one that takes them all. Those of one
/// backend must be in the order in which they are asked. Two rules of one pod's are no harm.
pub fn shadowed(ports: &[Forwarding]) -> Vec<(&Forwarding, &Forwarding)> {
    let mut pairs = Vec::new();
    for (index, late) in ports.iter().enumerate() {
        let before = ports.iter().take(index);
        let mut takers = before.filter(|early| early.backend == late.backend && early.covers(late));
        let other = takers.find(|early| early.target != late.target);
        pairs.extend(other.map(|early| (early, late)));
    }
    pairs
}

/// Those of a table `nat` of iptables.
pub fn of_iptables(listing: &Listing) -> Vec<Forwarding> {
    let entries = listing.rules_in(hostport::ENTRIES);
    entries.flat_map(|entry| of_entry(listing, entry)).collect()
}

/// The forwardings to which one rule leads: its own chain's, of its ports.
fn of_entry(listing: &Listing, entry: &Rule) -> Vec<Forwarding> {
    let (Some(chain), Some(ports)) = (entry.target(), entry.value_of("--dports")) else {
        return Vec::new();
    };
    let comment = entry.value_of("--comment").unwrap_or_default();
    let protocol = entry.value_of("-p");
    let conditional = is_conditional(entry);
    let of_entry = |mapping: &Mapping| {
        let named = |port: &str| port.parse() == Ok(mapping.host_port);
        protocol.as_deref() == Some(mapping.protocol.as_str()) && ports.split(',').any(named)
    };
    let rules = listing.rules_in(&chain);
    let forwardings = rules.filter_map(|rule| {
        let mapping = hostport::read(rule).filter(of_entry)?;
        let target = hostport::target(rule)?;
        Some(Forwarding {
            target,
            comment: comment.clone(),
            backend: Backend::Iptables,
            conditional,
            mapping,
            masquerades: marked(listing, &chain, target, &mapping),
        })
    });
    forwardings.collect()
}

/// From where connections to a port are marked for masquerade, by the rules of its chain.
fn marked(listing: &Listing, chain: &str, target: IpAddr, mapping: &Mapping) -> Vec<IpNet> {
    let everything = everything(Family::of(&target.into()));
    let is_about = |rule: &&Rule| {
        let same = |option: &str, value: String| rule.value_of(option) == Some(value);
        hostport::target(rule).is_none()
            && same("--dport", mapping.host_port.to_string())
            && same("-p", mapping.protocol.to_string())
    };
    let rules = listing.rules_in(chain).filter(is_about);
    let sources = rules.filter_map(|rule| match rule.value_of("-s") {
        Some(net) => net.parse().ok(),
        None => Some(everything),
    });
    sources.collect()
}

/// All addresses of a family.
pub fn everything(family: Family) -> IpNet {
    match family {
        Family::V4 => IpNet::from(Ipv4Net::default()),
        Family::V6 => IpNet::from(Ipv6Net::default()),
    }
}

/// Whether an entry has more words than its own: `-p tcp -m comment --comment … -m multiport
/// --dports … -j CHAIN`.
fn is_conditional(entry: &Rule) -> bool {
    const OWN_WORDS: usize = 12;
    entry.words().len() > OWN_WORDS
}
