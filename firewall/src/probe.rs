//! Whether a chain can be there at all, asked without starting a process.

use std::io;

use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_netfilter::nftables::{ChainAttribute, ChainMessage, NfTablesMessage};
use netlink_packet_netfilter::{
    NetfilterHeader, NetfilterMessage, NetfilterMessageInner, NetfilterProtoFamily,
};
use netlink_sys::{Socket, protocols::NETLINK_NETFILTER};
use nix::errno::Errno;

use crate::iptables::Variant;
use crate::rule::Family;

/// Where all rules of both variants are.
const TABLE: &str = "nat";

/// What is known without having looked at the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It is not there.
    Absent,
    /// It is there.
    Present,
    /// There is a table in which it may be.
    Possible,
    /// The kernel would not say.
    Unknown,
}

/// Whether one of the chains is in the table `nat` of the calling thread's namespace.
pub fn chains(family: Family, variant: Variant, names: &[&str]) -> Presence {
    match variant {
        Variant::Nft => nft(family, names).unwrap_or(Presence::Unknown),
        Variant::Legacy => legacy(family),
    }
}

/// The chains of the table `nat` of the calling thread's namespace, as far as they can be known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Names {
    /// These; none where there is no table.
    Known(Vec<String>),
    /// There is a table, and only its program can tell what is in it.
    Hidden,
    /// The kernel would not say whether there is a table.
    Unknown,
}

/// The names of all chains.
pub fn names(family: Family, variant: Variant) -> Names {
    match variant {
        Variant::Nft => nft_names(family).map_or(Names::Unknown, Names::Known),
        Variant::Legacy => match legacy(family) {
            Presence::Absent => Names::Known(Vec::new()),
            Presence::Unknown => Names::Unknown,
            Presence::Present | Presence::Possible => Names::Hidden,
        },
    }
}

/// The legacy table is made in a namespace by the first program that looks at it; only then it is
/// in this list, and then only the program can tell what is in it.
fn legacy(family: Family) -> Presence {
    let path = match family {
        Family::V4 => "/proc/thread-self/net/ip_tables_names",
        Family::V6 => "/proc/thread-self/net/ip6_tables_names",
    };
    match std::fs::read_to_string(path) {
        Ok(tables) if tables.lines().any(|table| table == TABLE) => Presence::Possible,
        Ok(_) => Presence::Absent,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Presence::Absent,
        Err(_) => Presence::Unknown,
    }
}

/// `None` for a kernel without netfilter's netlink, which has no such rules.
fn open() -> io::Result<Option<Socket>> {
    match Socket::new(NETLINK_NETFILTER) {
        Ok(socket) => Ok(Some(socket)),
        Err(error) if error.raw_os_error() == Some(Errno::EPROTONOSUPPORT as i32) => Ok(None),
        Err(error) => Err(error),
    }
}

/// `NFT_MSG_GETCHAIN` for each name; the kernel answers each with the chain or an error.
fn nft(family: Family, names: &[&str]) -> io::Result<Presence> {
    let Some(socket) = open()? else {
        return Ok(Presence::Absent);
    };
    for name in names {
        socket.send(&get_chain(family, Some(name)), 0)?;
        let (reply, _) = socket.recv_from_full()?;
        match errno_of(&reply) {
            None => return Ok(Presence::Present),
            Some(error) if is_absence(error) => {}
            Some(_) => return Ok(Presence::Unknown),
        }
    }
    Ok(Presence::Absent)
}

/// `NFT_MSG_GETCHAIN` for all.
fn nft_names(family: Family) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    let Some(socket) = open()? else {
        return Ok(names);
    };
    socket.send(&get_chain(family, None), 0)?;
    loop {
        let (replies, _) = socket.recv_from_full()?;
        if read_names(&replies, &mut names)? {
            return Ok(names);
        }
    }
}

/// Takes the names of the table's chains from a part of the kernel's answer; whether it was the
/// last.
fn read_names(mut replies: &[u8], names: &mut Vec<String>) -> io::Result<bool> {
    while !replies.is_empty() {
        let message = NetlinkMessage::<NetfilterMessage>::deserialize(replies);
        let message = message.map_err(io::Error::other)?;
        match message.payload {
            NetlinkPayload::InnerMessage(NetfilterMessage {
                inner: NetfilterMessageInner::NfTables(NfTablesMessage::NewChain(chain)),
                ..
            }) => names.extend(name_in_nat(chain)),
            NetlinkPayload::Done(_) => return Ok(true),
            NetlinkPayload::Error(error) => {
                let errno = Errno::from_raw(error.raw_code().saturating_neg());
                return match is_absence(errno) {
                    true => Ok(true),
                    false => Err(errno.into()),
                };
            }
            _ => {}
        }
        // Each message begins at a multiple of four bytes.
        let length = message.header.length.next_multiple_of(4);
        let rest = usize::try_from(length)
            .ok()
            .and_then(|at| replies.get(at..));
        replies = rest.unwrap_or_default();
    }
    Ok(false)
}

fn name_in_nat(chain: ChainMessage) -> Option<String> {
    let is_nat = |attribute: &ChainAttribute| matches!(attribute, ChainAttribute::Table(table) if table == TABLE);
    if !chain.attributes.iter().any(is_nat) {
        return None;
    }
    let mut attributes = chain.attributes.into_iter();
    attributes.find_map(|attribute| match attribute {
        ChainAttribute::Name(name) => Some(name),
        _ => None,
    })
}

/// Whether it says that there is no such chain or table. EINVAL: no nf_tables in this kernel, so
/// that no subsystem knows the message.
fn is_absence(error: Errno) -> bool {
    matches!(error, Errno::ENOENT | Errno::EINVAL)
}

/// The question for one chain of the table, or for all chains of the family, as bytes (struct
/// nlmsghdr, struct nfgenmsg, attributes).
fn get_chain(family: Family, name: Option<&str>) -> Vec<u8> {
    let family = match family {
        Family::V4 => NetfilterProtoFamily::IPv4,
        Family::V6 => NetfilterProtoFamily::IPv6,
    };
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST;
    let mut attributes = Vec::new();
    match name {
        None => header.flags |= NLM_F_DUMP,
        Some(name) => attributes.extend([
            ChainAttribute::Table(TABLE.to_owned()),
            ChainAttribute::Name(name.to_owned()),
        ]),
    }
    let mut message = NetlinkMessage::new(
        header,
        NetlinkPayload::from(NetfilterMessage::new(
            NetfilterHeader::new(family, 0, 0),
            NfTablesMessage::GetChain(ChainMessage { attributes }),
        )),
    );
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

/// The error of a reply (`NLMSG_ERROR`, linux/netlink.h: header of 16 bytes, then the negative
/// number); `None` for any other message, which is the chain.
fn errno_of(reply: &[u8]) -> Option<Errno> {
    const NLMSG_ERROR: u16 = 2;
    let kind = u16::from_ne_bytes(reply.get(4..6)?.try_into().ok()?);
    if kind != NLMSG_ERROR {
        return None;
    }
    let number = i32::from_ne_bytes(reply.get(16..20)?.try_into().ok()?);
    Some(Errno::from_raw(number.checked_neg()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    // As `nft list chain ip nat c` asks for it, headers of the kernel's include/uapi/linux.
    #[cfg(target_endian = "little")]
    #[test]
    fn the_question_is_a_getchain() {
        let expected = [
            36, 0, 0, 0, 4, 10, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, // nlmsghdr: NFT_MSG_GETCHAIN
            10, 0, 0, 0, // nfgenmsg: NFPROTO_IPV6
            8, 0, 1, 0, b'n', b'a', b't', 0, // NFTA_CHAIN_TABLE
            6, 0, 3, 0, b'c', 0, 0, 0, // NFTA_CHAIN_NAME, padded
        ];
        assert_eq!(get_chain(Family::V6, Some("c")), expected);
    }

    // As `nft list chains ip` asks for them.
    #[cfg(target_endian = "little")]
    #[test]
    fn the_question_for_all_is_a_dump() {
        let expected = [
            20, 0, 0, 0, 4, 10, 1, 3, 0, 0, 0, 0, 0, 0, 0, 0, // NLM_F_REQUEST | NLM_F_DUMP
            2, 0, 0, 0, // nfgenmsg: NFPROTO_IPV4
        ];
        assert_eq!(get_chain(Family::V4, None), expected);
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn only_chains_of_the_table_are_named() {
        let chain = |table: u8, name: u8| {
            [
                36, 0, 0, 0, 3, 10, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, // NFT_MSG_NEWCHAIN
                2, 0, 0, 0, 8, 0, 1, 0, table, b'a', b't', 0, 6, 0, 3, 0, name, 0, 0, 0,
            ]
        };
        let done = [20, 0, 0, 0, 3, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let first = [chain(b'n', b'c'), chain(b'r', b'd')].concat();
        let mut names = Vec::new();
        assert!(!read_names(&first, &mut names).unwrap());
        let last = [&chain(b'n', b'e')[..], &done].concat();
        assert!(read_names(&last, &mut names).unwrap());
        assert_eq!(names, ["c", "e"]);
        let error = |number: i32| {
            let mut bytes = vec![0; 36];
            bytes[..6].copy_from_slice(&[36, 0, 0, 0, 2, 0]);
            bytes[16..20].copy_from_slice(&number.to_ne_bytes());
            bytes
        };
        assert!(read_names(&error(-2), &mut names).unwrap());
        assert!(read_names(&error(-1), &mut names).is_err());
        assert!(read_names(&[1, 2, 3], &mut names).is_err());
    }

    #[test]
    fn errors_and_chains_are_told_apart() {
        let reply = |kind: u16, number: i32| {
            let mut bytes = vec![0; 36];
            bytes.splice(4..6, kind.to_ne_bytes());
            bytes.splice(16..20, number.to_ne_bytes());
            bytes
        };
        assert_eq!(errno_of(&reply(2, -2)), Some(Errno::ENOENT));
        assert_eq!(errno_of(&reply(2, -1)), Some(Errno::EPERM));
        assert_eq!(errno_of(&reply(0xa03, 0)), None);
    }
}
