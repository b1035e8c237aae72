//! Host ports as elements and rules of a table of our own, and those read as host ports.
//!
//! ```text
//! table ip cni_lite_hostport {
//!     set attachments     { type ifname }
//!     map ports           { type inet_proto . inet_service : ipv4_addr . inet_service }
//!     map address_ports   { type ipv4_addr . inet_proto . inet_service : ipv4_addr . inet_service }
//!     map sources         { type inet_proto . inet_service . ipv4_addr : verdict; flags interval }
//!     map address_sources { type ipv4_addr . inet_proto . inet_service . ipv4_addr : verdict; … }
//!     chain hostports { jump conditions; @address_sources; @address_ports; @sources; @ports;
//!                       jump duplicates }
//! }
//! ```
//!
//! A port is one element of `ports`, or of `address_ports` where it has a host address; from whom
//! connections are marked for masquerade says `sources`. Rules are only for what does not fit into
//! a map: ports with conditions, and a port that another attachment has already, which comes into
//! effect when the other has gone.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;
use netlink_packet_netfilter::nftables::{DataAttribute, InetHookNumber};

use super::condition;
use super::expr::{self, Part, octets};
use super::field::Field;
use super::listing::Listing;
use super::plan::Want;
use super::table::{
    Chain, Element, Entry, Hook, Rule, Set, Table, TableName, Value, key, proto_family,
};
use super::tag::Tag;
use crate::hostport::{HostPorts, Mapping, Mark};
use crate::rule::Family;

const TABLE: &str = "cni_lite_hostport";

/// Ports of any address.
pub const PORTS: &str = "ports";
/// Ports of one address.
pub const ADDRESS_PORTS: &str = "address_ports";
const SOURCES: &str = "sources";
const ADDRESS_SOURCES: &str = "address_sources";

const CONDITIONS: &str = "conditions";
const DUPLICATES: &str = "duplicates";
const HOSTPORTS: &str = "hostports";

/// `NF_IP_PRI_NAT_DST` of linux/netfilter_ipv4.h.
const DSTNAT: i32 = -100;
/// `NF_IP_PRI_NAT_SRC` of the same.
pub const SRCNAT: i32 = 100;

/// The table of one family; with the chains for a mark where there is one.
pub fn table(family: Family, mark: Option<u32>) -> Table {
    use Field::{Destination, Port, Protocol, Source};
    let set = |name, key: &[Field], value, interval| Set {
        name,
        key: key.to_vec(),
        value,
        interval,
    };
    let (with_ip, without) = ([Destination, Protocol, Port], [Protocol, Port]);
    let from = [Protocol, Port, Source];
    let from_with_ip = [Destination, Protocol, Port, Source];
    let chain = |name: &str, rules: Vec<Part>| Chain {
        name: name.to_owned(),
        hook: None,
        rules,
    };
    let dispatch = vec![
        expr::jump(CONDITIONS),
        expr::verdict_of(family, &from_with_ip, ADDRESS_SOURCES),
        expr::dnat_by(family, &with_ip, ADDRESS_PORTS),
        expr::verdict_of(family, &from, SOURCES),
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
    if let Some(mark) = mark {
        chains.push(chain(&mark_chain(mark), vec![expr::set_mark(mark)]));
        chains.push(Chain {
            name: format!("masquerade_{mark:#x}"),
            hook: Some(Hook {
                number: InetHookNumber::PostRouting,
                priority: SRCNAT,
            }),
            rules: vec![Part::all([expr::has_mark(mark), expr::masquerade()])],
        });
    }
    Table {
        name: TableName {
            family: proto_family(family),
            name: TABLE,
        },
        family,
        sets: vec![
            Tag::set(),
            set(ADDRESS_SOURCES, &from_with_ip, Value::Verdict, true),
            set(ADDRESS_PORTS, &with_ip, Value::Target, false),
            set(SOURCES, &from, Value::Verdict, true),
            set(PORTS, &without, Value::Target, false),
        ],
        chains,
    }
}

/// Where packets come in; only those to the node's own addresses are looked at.
fn entrance(name: &str, number: InetHookNumber) -> Chain {
    Chain {
        name: name.to_owned(),
        hook: Some(Hook {
            number,
            priority: DSTNAT,
        }),
        rules: vec![Part::all([expr::to_local(), expr::jump(HOSTPORTS)])],
    }
}

fn mark_chain(mark: u32) -> String {
    format!("mark_{mark:#x}")
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
    let mark = mark(ports);
    let mut elements = vec![tag.element()];
    let mut rules = Vec::new();
    for mapping in served(ports.mappings, family) {
        let forward = Forward {
            mapping,
            address: address.addr(),
            sources: sources(ports, address),
            mark_chain: mark.map(mark_chain),
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
        table: table(family, mark),
        elements,
        rules,
    })
}

/// The mark of what is to be masqueraded, if anything is.
fn mark(ports: &HostPorts) -> Option<u32> {
    match ports.mark {
        Mark::Bit(bit) if ports.snat => 1_u32.checked_shl(bit.into()),
        _ => None,
    }
}

/// From where connections are marked: disjoint networks.
fn sources(ports: &HostPorts, address: &IpNet) -> Vec<IpNet> {
    if ports.masq_all {
        let all = IpNet::new(address.addr(), 0).map(|net| net.trunc());
        return all.into_iter().collect();
    }
    let mut sources = vec![address.trunc()];
    if Family::of(address) == Family::V4 {
        sources.push(IpAddr::from(Ipv4Addr::LOCALHOST).into());
    }
    IpNet::aggregate(&sources)
}

/// The ports that a family serves, of two for the same the first.
fn served(mappings: &[Mapping], family: Family) -> Vec<Mapping> {
    let mut served: Vec<Mapping> = Vec::new();
    for mapping in mappings.iter().filter(|mapping| mapping.serves(family)) {
        let mapping = Mapping {
            host_ip: mapping.host_ip.filter(|ip| !ip.is_unspecified()),
            ..*mapping
        };
        let port = |mapping: &Mapping| (mapping.protocol, mapping.host_ip, mapping.host_port);
        if served.iter().all(|other| port(other) != port(&mapping)) {
            served.push(mapping);
        }
    }
    served
}

/// One port and where it leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forward {
    mapping: Mapping,
    address: IpAddr,
    sources: Vec<IpNet>,
    /// The chain that marks; `None` where nothing is.
    mark_chain: Option<String>,
}

impl Forward {
    /// The key of the port, which the keys of its sources begin with.
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
        let entry = |set: &str, key, end, value| Entry {
            set: set.to_owned(),
            key,
            end,
            value: Some(value),
            comment: comment.to_owned(),
        };
        let own = self.key();
        let port_text = match host_ip {
            Some(ip) => format!("{ip} . {protocol} . {host_port}"),
            None => format!("{protocol} . {host_port}"),
        };
        let target = key([&octets(self.address)[..], &container_port.to_be_bytes()[..]]);
        let target = DataAttribute::Value(target);
        let mut elements = vec![Element {
            text: format!("{port_text} : {} . {container_port}", self.address),
            entry: entry(ports, own.clone(), None, target),
        }];
        if let Some(chain) = &self.mark_chain {
            let from = |ip| [own.clone(), octets(ip)].concat();
            elements.extend(self.sources.iter().map(|net| Element {
                text: format!("{port_text} . {} : jump {chain}", expr::net_text(*net)),
                entry: entry(
                    sources,
                    from(net.network()),
                    Some(from(net.broadcast())),
                    expr::jump_verdict(chain),
                ),
            }));
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
            rules.extend(self.sources.iter().map(|net| {
                // From anywhere needs no condition.
                let source =
                    (net.prefix_len() != 0).then(|| expr::net_is(Field::Source, *net, false));
                let parts = source
                    .into_iter()
                    .chain([matched.clone(), expr::jump(mark_chain)]);
                Part::all(parts)
            }));
        }
        let target = expr::dnat_to(self.address, self.mapping.container_port);
        rules.push(Part::all([matched, target]));
        rules.into_iter().map(|part| Rule { chain, part }).collect()
    }

    /// Whether another attachment has the port already.
    pub fn is_taken(&self, tag: &Tag, listing: &Listing) -> bool {
        let (ports, sources) = self.sets();
        let key = self.key();
        listing.entries.iter().any(|entry| {
            (entry.set == ports || entry.set == sources)
                && entry.key.starts_with(&key)
                && !tag.owns(&entry.comment)
        })
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
