//! Host ports as elements and rules of a table of our own, and those read as host ports.
//!
//! ```text
//! table ip cni_lite_hostport {
//!     set attachments     { type ifname }
//!     map ports           { type inet_proto . inet_service : ipv4_addr . inet_service }
//!     map address_ports   { type ipv4_addr . inet_proto . inet_service : ipv4_addr . inet_service }
//!     map sources         { type inet_proto . inet_service : verdict }
//!     map address_sources { type ipv4_addr . inet_proto . inet_service : verdict }
//!     chain hostports { jump conditions; @address_sources; @address_ports; @sources; @ports;
//!                       jump duplicates }
//!     chain from_10.1.2.0/24_0x2000 { ip saddr 10.1.2.0/24 mark; ip saddr 127.0.0.1 mark }
//! }
//! ```
//!
//! A port is one element of `ports`, or of `address_ports` where it has a host address, and one of
//! `sources`, which leads to the chain that marks for masquerade what comes from the pod's network:
//! one chain for all pods of a network. Rules are only for what does not fit into a map: ports with
//! conditions, and a port that another attachment has already, which comes into effect when the
//! other has gone.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;
use netlink_packet_netfilter::nftables::{DataAttribute, InetHookNumber};

use super::condition;
use super::expr::{self, Part, octets};
use super::field::Field;
use super::listing::Listing;
use super::plan::Want;
use super::table::{
    Chain, Element, Entry, Hook, HookKind, Place, Rule, Set, Table, TableName, Value, key,
    proto_family,
};
use super::tag::Tag;
use crate::hostport::{HostPorts, Mapping, Mark};
use crate::rule::Family;
use crate::view;

const TABLE: &str = "cni_lite_hostport";

/// Ports of any address.
pub const PORTS: &str = "ports";
/// Ports of one address.
pub const ADDRESS_PORTS: &str = "address_ports";
const SOURCES: &str = "sources";
const ADDRESS_SOURCES: &str = "address_sources";

/// Rules of ports with conditions.
pub const CONDITIONS: &str = "conditions";
/// Rules of ports that another attachment has already.
pub const DUPLICATES: &str = "duplicates";
const HOSTPORTS: &str = "hostports";

/// `NF_IP_PRI_NAT_DST` of linux/netfilter_ipv4.h.
const DSTNAT: i32 = -100;
/// `NF_IP_PRI_NAT_SRC` of the same.
pub const SRCNAT: i32 = 100;

/// The table of one family, with the chains that mark where there are some.
pub fn table(family: Family, marking: Option<&Marking>) -> Table {
    use Field::{Destination, Port, Protocol};
    let (with_ip, without) = ([Destination, Protocol, Port], [Protocol, Port]);
    let set = |name, key: &[Field], value| Set {
        name,
        key: key.to_vec(),
        value,
    };
    let chain = |name: &str, rules: Vec<Part>| Chain {
        name: name.to_owned(),
        hook: None,
        rules,
    };
    let dispatch = vec![
        expr::jump(CONDITIONS),
        expr::verdict_of(family, &with_ip, ADDRESS_SOURCES),
        expr::dnat_by(family, &with_ip, ADDRESS_PORTS),
        expr::verdict_of(family, &without, SOURCES),
        expr::dnat_by(family, &without, PORTS),
        expr::jump(DUPLICATES),
    ];
    let mut chains = vec![
        chain(CONDITIONS, Vec::new()),
        chain(DUPLICATES, Vec::new()),
        chain(HOSTPORTS, dispatch),
        entrance("prerouting", InetHookNumber::PreRouting),
        entrance("output", InetHookNumber::LocalOut),
    ];
    chains.extend(marking.into_iter().flat_map(Marking::chains));
    Table {
        name: TableName {
            family: proto_family(family),
            name: TABLE,
        },
        family,
        sets: vec![
            Tag::set(),
            set(ADDRESS_SOURCES, &with_ip, Value::Verdict),
            set(ADDRESS_PORTS, &with_ip, Value::Target),
            set(SOURCES, &without, Value::Verdict),
            set(PORTS, &without, Value::Target),
        ],
        chains,
    }
}

/// Where packets come in; only those to the node's own addresses are looked at.
fn entrance(name: &str, number: InetHookNumber) -> Chain {
    Chain {
        name: name.to_owned(),
        hook: Some(Hook {
            kind: HookKind::Nat,
            number,
            priority: DSTNAT,
        }),
        rules: vec![Part::all([expr::to_local(), expr::jump(HOSTPORTS)])],
    }
}

/// What is marked for masquerade, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marking {
    /// The network that it comes from; `None` for anywhere.
    network: Option<IpNet>,
    mark: u32,
}

impl Marking {
    /// That of a pod with the address, if anything is marked.
    fn of(ports: &HostPorts, address: &IpNet) -> Option<Marking> {
        let Mark::Bit(bit) = ports.mark else {
            return None;
        };
        let everything = ports.masq_all || address.prefix_len() == 0;
        Some(Marking {
            network: (!everything).then(|| address.trunc()),
            mark: 1_u32.checked_shl(bit.into()).filter(|_| ports.snat)?,
        })
    }

    /// The chain that marks.
    fn chain(&self) -> String {
        match self.network {
            Some(net) => format!("from_{}_{:#x}", expr::net_name(&[net]), self.mark),
            None => format!("from_anywhere_{:#x}", self.mark),
        }
    }

    /// Those that all pods of a network share, and that of the mark.
    fn chains(&self) -> [Chain; 2] {
        let mut sources: Vec<_> = self.network.into_iter().collect();
        if matches!(self.network, Some(IpNet::V4(_))) {
            sources.push(IpAddr::from(Ipv4Addr::LOCALHOST).into());
        }
        let mark = || expr::set_mark(self.mark);
        let marks = sources.iter().map(|net| {
            let source = expr::net_is(Field::Source, *net, false);
            Part::all([source, mark()])
        });
        let mut rules: Vec<_> = marks.collect();
        if rules.is_empty() {
            rules.push(mark());
        }
        [
            Chain {
                name: self.chain(),
                hook: None,
                rules,
            },
            Chain {
                name: format!("masquerade_{:#x}", self.mark),
                hook: Some(Hook {
                    kind: HookKind::Nat,
                    number: InetHookNumber::PostRouting,
                    priority: SRCNAT,
                }),
                rules: vec![Part::all([expr::has_mark(self.mark), expr::masquerade()])],
            },
        ]
    }
}

/// The set of sources that belongs to a set of ports.
pub fn sources_of(ports: &str) -> Option<&'static str> {
    match ports {
        PORTS => Some(SOURCES),
        ADDRESS_PORTS => Some(ADDRESS_SOURCES),
        _ => None,
    }
}

/// From where a chain of that name marks.
pub fn marked_by(chain: &str, family: Family) -> Vec<IpNet> {
    let Some((from, _)) = chain
        .strip_prefix("from_")
        .and_then(|rest| rest.rsplit_once("_0x"))
    else {
        return Vec::new();
    };
    let localhost = IpNet::from(IpAddr::from(Ipv4Addr::LOCALHOST));
    match (from, family, from.replace('_', ":").parse::<IpNet>()) {
        ("anywhere", ..) => vec![view::everything(family)],
        (_, Family::V4, Ok(net)) => vec![net, localhost],
        (_, Family::V6, Ok(net)) => vec![net],
        _ => Vec::new(),
    }
}

/// What an attachment should have in one family's table, if it has an address of the family. A port
/// is a rule where `is_rule` says so, as its key may be another's.
pub fn want(
    tag: &Tag,
    ports: &HostPorts,
    family: Family,
    is_rule: impl Fn(&Forward) -> bool,
) -> Option<Want> {
    let address = ports.address(family)?;
    let conditions = ports.conditions(family);
    // Words that cannot be obeyed have been refused before.
    let conditions = condition::parse(family, conditions).unwrap_or_default();
    let marking = Marking::of(ports, address);
    let mut elements = vec![tag.element()];
    let mut rules = Vec::new();
    for mapping in served(ports.mappings, family) {
        let forward = Forward {
            mapping,
            address: address.addr(),
            mark_chain: marking.as_ref().map(Marking::chain),
        };
        if !conditions.is_empty() {
            rules.extend(forward.rules(CONDITIONS, &conditions));
        } else if is_rule(&forward) {
            rules.extend(forward.rules(DUPLICATES, &[]));
        } else {
            elements.extend(forward.elements(&tag.comment));
        }
    }
    Some(Want {
        table: table(family, marking.as_ref()),
        elements,
        rules,
    })
}

/// The ports that a family serves, of two for the same the first.
fn served(mappings: &[Mapping], family: Family) -> Vec<Mapping> {
    let mut seen = HashSet::new();
    let of_family = mappings.iter().filter(|mapping| mapping.serves(family));
    of_family
        .map(|mapping| Mapping {
            host_ip: mapping.host_ip.filter(|ip| !ip.is_unspecified()),
            ..*mapping
        })
        .filter(|mapping| seen.insert((mapping.protocol, mapping.host_ip, mapping.host_port)))
        .collect()
}

/// One port and where it leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forward {
    mapping: Mapping,
    address: IpAddr,
    /// The chain that marks; `None` where nothing is.
    mark_chain: Option<String>,
}

impl Forward {
    /// The key of the port, also among the sources.
    fn key(&self) -> Vec<u8> {
        let Mapping {
            host_ip,
            protocol,
            host_port,
            ..
        } = self.mapping;
        let address = host_ip.map(octets);
        let port = [&[protocol.number()][..], &host_port.to_be_bytes()[..]];
        key(address.as_deref().into_iter().chain(port))
    }

    fn sets(&self) -> (&'static str, &'static str) {
        match self.mapping.host_ip {
            Some(_) => (ADDRESS_PORTS, ADDRESS_SOURCES),
            None => (PORTS, SOURCES),
        }
    }

    fn elements(&self, comment: &str) -> Vec<Element> {
        let Mapping {
            host_ip,
            protocol,
            host_port,
            container_port,
        } = self.mapping;
        let (ports, sources) = self.sets();
        let element = |set: &str, leads_to, value| Element {
            text: match host_ip {
                Some(ip) => format!("{ip} . {protocol} . {host_port} : {leads_to}"),
                None => format!("{protocol} . {host_port} : {leads_to}"),
            },
            entry: Entry {
                set: set.to_owned(),
                key: self.key(),
                value: Some(value),
                comment: comment.to_owned(),
            },
        };
        let target = key([&octets(self.address)[..], &container_port.to_be_bytes()[..]]);
        let target = DataAttribute::Value(target);
        let leads_to = format!("{} . {container_port}", self.address);
        let mut elements = vec![element(ports, leads_to, target)];
        if let Some(chain) = &self.mark_chain {
            let verdict = expr::jump_verdict(chain);
            elements.push(element(sources, format!("jump {chain}"), verdict));
        }
        elements
    }

    /// The same as rules, for what fulfils the conditions.
    fn rules(&self, chain: &'static str, conditions: &[Part]) -> Vec<Rule> {
        let mut parts = conditions.to_vec();
        if let Some(ip) = self.mapping.host_ip {
            parts.push(expr::net_is(Field::Destination, ip.into(), false));
        }
        parts.push(expr::port_is(self.mapping.protocol, self.mapping.host_port));
        let matched = Part::all(parts);
        let mut rules = Vec::new();
        if let Some(mark_chain) = &self.mark_chain {
            rules.push(Part::all([matched.clone(), expr::jump(mark_chain)]));
        }
        let target = expr::dnat_to(self.address, self.mapping.container_port);
        rules.push(Part::all([matched, target]));
        rules.into_iter().map(|part| Rule { chain, part }).collect()
    }

    /// Whether another attachment has the port already, by the places that others have.
    pub fn is_taken(&self, others: &HashSet<Place>) -> bool {
        let (ports, sources) = self.sets();
        let key = self.key();
        [ports, sources]
            .iter()
            .any(|set| others.contains(&(*set, &key[..])))
    }

    /// Whether the port is there as a rule, since another attachment had it first.
    pub fn is_duplicate(&self, tag: &Tag, listing: &Listing) -> bool {
        let rules = self.rules(DUPLICATES, &[]);
        let Some(forward) = rules.last() else {
            return false;
        };
        listing.rules_in(DUPLICATES).any(|rule| {
            tag.owns(&rule.comment) && expr::are(&rule.expressions, &forward.part.expressions)
        })
    }
}

#[cfg(test)]
mod tests;
