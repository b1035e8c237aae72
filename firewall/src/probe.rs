//! Whether a chain can be there at all, asked without starting a process.

use std::io;

use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_netfilter::nftables::{ChainAttribute, ChainMessage, NfTablesMessage};
use netlink_packet_netfilter::{NetfilterHeader, NetfilterMessage, NetfilterProtoFamily};
use netlink_sys::{Socket, protocols::NETLINK_NETFILTER};
use nix::errno::Errno;

use crate::iptables::Variant;
use crate::rule::Family;

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

/// The legacy table is made in a namespace by the first program that looks at it; only then it is
/// in this list, and then only the program can tell what is in it.
fn legacy(family: Family) -> Presence {
    let path = match family {
        Family::V4 => "/proc/thread-self/net/ip_tables_names",
        Family::V6 => "/proc/thread-self/net/ip6_tables_names",
    };
    match std::fs::read_to_string(path) {
        Ok(tables) if tables.lines().any(|table| table == "nat") => Presence::Possible,
        Ok(_) => Presence::Absent,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Presence::Absent,
        Err(_) => Presence::Unknown,
    }
}

/// `NFT_MSG_GETCHAIN` for each name; the kernel answers each with the chain or an error.
fn nft(family: Family, names: &[&str]) -> io::Result<Presence> {
    let socket = match Socket::new(NETLINK_NETFILTER) {
        Ok(socket) => socket,
        // A kernel without netfilter's netlink has no such rules.
        Err(error) if error.raw_os_error() == Some(Errno::EPROTONOSUPPORT as i32) => {
            return Ok(Presence::Absent);
        }
        Err(error) => return Err(error),
    };
    for name in names {
        socket.send(&get_chain(family, name), 0)?;
        let (reply, _) = socket.recv_from_full()?;
        match errno_of(&reply) {
            None => return Ok(Presence::Present),
            // EINVAL: no nf_tables in this kernel, so that no subsystem knows the message.
            Some(Errno::ENOENT | Errno::EINVAL) => {}
            Some(_) => return Ok(Presence::Unknown),
        }
    }
    Ok(Presence::Absent)
}

/// The question as bytes (struct nlmsghdr, struct nfgenmsg, attributes).
fn get_chain(family: Family, name: &str) -> Vec<u8> {
    let family = match family {
        Family::V4 => NetfilterProtoFamily::IPv4,
        Family::V6 => NetfilterProtoFamily::IPv6,
    };
    let attributes = vec![
        ChainAttribute::Table("nat".to_owned()),
        ChainAttribute::Name(name.to_owned()),
    ];
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST;
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
        assert_eq!(get_chain(Family::V6, "c"), expected);
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
