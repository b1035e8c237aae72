//! Elements and rules read as host ports, whoever made them.

use std::net::IpAddr;

use netlink_packet_netfilter::nftables::{
    Cmp, DataAttribute, Expressions, Immediate, Meta, MetaKey, Operator, Payload,
};

use super::hostport::{ADDRESS_PORTS, PORTS};
use super::table::Entry;
use crate::hostport::{Mapping, Protocol};

/// Bytes of protocol and port in a key.
const PORT_KEY_LEN: usize = 8;

/// The port that an element forwards, and the pod's address; `None` for one of another set.
pub fn entry(entry: &Entry) -> Option<(Mapping, IpAddr)> {
    let (host_ip, port) = match entry.set.as_str() {
        PORTS => (None, entry.key.as_slice()),
        ADDRESS_PORTS => {
            let split = entry.key.len().checked_sub(PORT_KEY_LEN)?;
            let (ip, port) = entry.key.split_at_checked(split)?;
            (Some(address(ip)?), port)
        }
        _ => return None,
    };
    let [protocol, _, _, _, high, low, ..] = port else {
        return None;
    };
    let Some(DataAttribute::Value(target)) = &entry.value else {
        return None;
    };
    let (pod, container_port) = target.split_at_checked(target.len().checked_sub(4)?)?;
    let mapping = Mapping {
        host_port: u16::from_be_bytes([*high, *low]),
        container_port: u16::from_be_bytes(*container_port.first_chunk()?),
        protocol: Protocol::of_number(*protocol)?,
        host_ip,
    };
    Some((mapping, address(pod)?))
}

/// The port that a rule forwards, and the pod's address; `None` for any other rule.
pub fn rule(expressions: &[Expressions]) -> Option<(Mapping, IpAddr)> {
    let (mut protocol, mut host_port, mut host_ip) = (None, None, None);
    let (mut target, mut container_port) = (None, None);
    let mut loaded = Loaded::Else;
    for expression in expressions {
        match expression {
            Expressions::Meta(attributes) => loaded = Loaded::by_meta(attributes),
            Expressions::Payload(attributes) => loaded = Loaded::by_payload(attributes),
            Expressions::Cmp(_) => {
                let value = value(expression)?;
                match loaded {
                    Loaded::Protocol => protocol = Protocol::of_number(*value.first()?),
                    Loaded::Port => host_port = port(value),
                    Loaded::Destination => host_ip = address(value),
                    Loaded::Else => {}
                }
            }
            Expressions::Immediate(_) => {
                let value = value(expression)?;
                container_port = port(value).or(container_port);
                target = address(value).or(target);
            }
            _ => {}
        }
    }
    let mapping = Mapping {
        host_port: host_port?,
        container_port: container_port?,
        protocol: protocol?,
        host_ip,
    };
    Some((mapping, target?))
}

/// The name of the interface that a rule is for; `None` where it is for several, or does not say.
pub fn input(expressions: &[Expressions]) -> Option<&str> {
    let (load, compare) = expressions.split_first()?;
    let Expressions::Meta(attributes) = load else {
        return None;
    };
    let Some(Expressions::Cmp(comparison)) = compare.first() else {
        return None;
    };
    let is_name = attributes.contains(&Meta::Key(MetaKey::Iifname));
    let is_equal = comparison.contains(&Cmp::Op(Operator::Equal));
    // One that ends in `*` has no zero.
    let name = value(compare.first()?)?.split_last()?;
    let name = std::str::from_utf8(name.1).ok().filter(|_| *name.0 == 0)?;
    (is_name && is_equal).then(|| name.trim_end_matches('\0'))
}

/// What the next comparison is about.
enum Loaded {
    Protocol,
    Port,
    Destination,
    Else,
}

impl Loaded {
    fn by_meta(attributes: &[Meta]) -> Loaded {
        if attributes.contains(&Meta::Key(MetaKey::L4Proto)) {
            Loaded::Protocol
        } else {
            Loaded::Else
        }
    }

    fn by_payload(attributes: &[Payload]) -> Loaded {
        let is = |base, offset, length| {
            let wanted = [
                Payload::Base(base),
                Payload::Offset(offset),
                Payload::Len(length),
            ];
            wanted
                .iter()
                .all(|attribute| attributes.contains(attribute))
        };
        if is(2, 2, 2) {
            Loaded::Port
        } else if is(1, 16, 4) || is(1, 24, 16) {
            Loaded::Destination
        } else {
            Loaded::Else
        }
    }
}

fn port(bytes: &[u8]) -> Option<u16> {
    bytes.try_into().map(u16::from_be_bytes).ok()
}

/// An address of the given bytes; `None` where there are not 4 or 16.
fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from))
        .ok()
}

/// All values that a rule compares with or loads.
pub fn values(expressions: &[Expressions]) -> impl Iterator<Item = &[u8]> {
    expressions.iter().filter_map(value)
}

/// The value that an expression compares with or loads.
fn value(expression: &Expressions) -> Option<&[u8]> {
    let data = match expression {
        Expressions::Cmp(attributes) => attributes.iter().find_map(|attribute| match attribute {
            Cmp::Data(data) => Some(data),
            _ => None,
        }),
        Expressions::Immediate(attributes) => {
            attributes.iter().find_map(|attribute| match attribute {
                Immediate::Data(data) => Some(data),
                _ => None,
            })
        }
        _ => None,
    };
    match data {
        Some(DataAttribute::Value(value)) => Some(value),
        _ => None,
    }
}
