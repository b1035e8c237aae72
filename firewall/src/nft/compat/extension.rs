//! What the expressions `match` and `target` hold: the structures that the extensions of iptables
//! exchange with the kernel, in its own byte order (linux/netfilter/xt_*.h, nf_nat.h).

use std::ffi::CStr;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::{number, only, text};
use crate::hostport::Protocol;
use crate::rule::{Family, quote};

/// `XT_ALIGN` of linux/netfilter/x_tables.h: what a structure's size is rounded up to.
const ALIGN: usize = 8;

/// The words of a `match` (`NFTA_MATCH_*`), with a space behind them.
pub fn condition(data: &[u8]) -> Option<String> {
    let (name, revision, info) = extension(data)?;
    match (name, revision) {
        ("comment", 0) => comment(info),
        ("multiport", 1) => multiport(info),
        ("addrtype", 1) => addrtype(info),
        ("mark", 1) => {
            let info = sized(info, 12)?;
            let is_plain = byte(info, 8)? == 0;
            is_plain.then(|| Some(mark(long(info, 0)?, long(info, 4)?)))?
        }
        ("tcp", 0) => {
            // Ports, an option, flags, what is turned.
            let info = sized(info, 12)?;
            ports(Protocol::Tcp, info, [0, 4], info.get(8..12)?)
        }
        ("udp", 0) => {
            let info = sized(info, 10)?;
            ports(Protocol::Udp, info, [0, 4], info.get(8..9)?)
        }
        ("sctp", 0) => sctp(info),
        _ => None,
    }
}

/// The words of a `target` (`NFTA_TARGET_*`).
pub fn target(family: Family, data: &[u8]) -> Option<String> {
    let (name, revision, info) = extension(data)?;
    match (name, revision) {
        ("MARK", 2) => {
            let info = sized(info, 8)?;
            let (mark, mask) = (long(info, 0)?, long(info, 4)?);
            Some(format!("-j MARK --set-xmark {mark:#x}/{mask:#x}"))
        }
        ("MASQUERADE", 0) => {
            // `nf_nat_ipv4_multi_range_compat` and `nf_nat_range`: how many, and flags.
            let flags = match family {
                Family::V4 => {
                    let info = sized(info, 20)?;
                    (long(info, 0)? == 1).then(|| long(info, 4))?
                }
                Family::V6 => long(sized(info, 40)?, 0),
            };
            (flags? == 0).then(|| "-j MASQUERADE".to_owned())
        }
        ("DNAT", 1) if family == Family::V6 => destination(family, sized(info, 40)?),
        ("DNAT", 2) => destination(family, sized(info, 44)?),
        _ => None,
    }
}

/// Name, revision and structure.
fn extension(data: &[u8]) -> Option<(&str, u32, &[u8])> {
    let [name, revision, info] = only(data, [1, 2, 3])?;
    Some((text(name)?, number(revision)?, info))
}

/// A structure that has that size for certain.
fn sized(info: &[u8], size: usize) -> Option<&[u8]> {
    (info.len() == size.next_multiple_of(ALIGN)).then_some(info)
}

/// `xt_comment_info`.
fn comment(info: &[u8]) -> Option<String> {
    let text = CStr::from_bytes_until_nul(sized(info, 256)?).ok()?;
    let comment = quote(text.to_str().ok()?);
    Some(format!("-m comment --comment {comment} "))
}

/// `xt_multiport_v1`: destination ports, none of which begins a range, and which are not turned.
fn multiport(info: &[u8]) -> Option<String> {
    const DESTINATION: u8 = 1;
    const MAX_PORTS: usize = 15;
    let info = sized(info, 48)?;
    let count = usize::from(byte(info, 1)?);
    let is_plain = byte(info, 0)? == DESTINATION
        && (1..=MAX_PORTS).contains(&count)
        && info.get(32..48)?.iter().all(|byte| *byte == 0);
    if !is_plain {
        return None;
    }
    let places = (2..).step_by(2).take(count);
    let ports: Option<Vec<_>> = places
        .map(|at| short(info, at).map(|port| port.to_string()))
        .collect();
    Some(format!("-m multiport --dports {} ", ports?.join(",")))
}

/// `xt_addrtype_info_v1`: that the destination is the node's own, and no more.
fn addrtype(info: &[u8]) -> Option<String> {
    /// `XT_ADDRTYPE_LOCAL`.
    const LOCAL: u16 = 1 << 2;
    let info = sized(info, 8)?;
    let asked = (short(info, 0)?, short(info, 2)?, long(info, 4)?);
    (asked == (0, LOCAL, 0)).then(|| "-m addrtype --dst-type LOCAL ".to_owned())
}

/// `xt_sctp_info`, where it asks for the destination port alone.
fn sctp(info: &[u8]) -> Option<String> {
    /// `XT_SCTP_DEST_PORTS`.
    const DESTINATION: u32 = 2;
    let info = sized(info, 292)?;
    let is_plain = (long(info, 284)?, long(info, 288)?) == (DESTINATION, 0);
    let port = short(info, 0).filter(|port| is_plain && short(info, 2) == Some(*port))?;
    Some(self::port(Protocol::Sctp, port))
}

/// One destination port and any source port, where nothing `else` is asked. `places` are those of the
/// ranges of sources and destinations.
fn ports(protocol: Protocol, info: &[u8], places: [usize; 2], other: &[u8]) -> Option<String> {
    let [source, destination] = places;
    let range = |at: usize| Some((short(info, at)?, short(info, at.checked_add(2)?)?));
    let (first, last) = range(destination)?;
    let is_plain =
        range(source)? == (0, u16::MAX) && first == last && other.iter().all(|byte| *byte == 0);
    is_plain.then(|| port(protocol, first))
}

/// That a packet goes to a port.
pub fn port(protocol: Protocol, port: u16) -> String {
    format!("-m {protocol} --dport {port} ")
}

/// That a packet has a mark.
pub fn mark(mark: u32, mask: u32) -> String {
    match mask {
        u32::MAX => format!("-m mark --mark {mark:#x} "),
        _ => format!("-m mark --mark {mark:#x}/{mask:#x} "),
    }
}

/// `nf_nat_range2`, or its beginning `nf_nat_range`: one address and one port.
fn destination(family: Family, info: &[u8]) -> Option<String> {
    /// `NF_NAT_RANGE_MAP_IPS` and `NF_NAT_RANGE_PROTO_SPECIFIED`.
    const ADDRESS_AND_PORT: u32 = 1 | 2;
    let (first, last) = (info.get(4..20)?, info.get(20..36)?);
    let at = |place: usize| Some(u16::from_be_bytes(*info.get(place..)?.first_chunk()?));
    let port = at(36)?;
    if long(info, 0)? != ADDRESS_AND_PORT || first != last || at(38)? != port {
        return None;
    }
    let to = match family {
        Family::V4 => format!("{}:{port}", Ipv4Addr::from(*first.first_chunk::<4>()?)),
        Family::V6 => format!("[{}]:{port}", Ipv6Addr::from(*first.first_chunk::<16>()?)),
    };
    Some(format!("-j DNAT --to-destination {to}"))
}

fn byte(info: &[u8], at: usize) -> Option<u8> {
    info.get(at).copied()
}

fn short(info: &[u8], at: usize) -> Option<u16> {
    let bytes = info.get(at..)?.first_chunk()?;
    Some(u16::from_ne_bytes(*bytes))
}

fn long(info: &[u8], at: usize) -> Option<u32> {
    let bytes = info.get(at..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*bytes))
}
