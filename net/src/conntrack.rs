//! Connection tracking entries, by netlink (nfnetlink_conntrack).

use std::collections::HashSet;
use std::net::IpAddr;

use netlink_packet_core::{DefaultNla, Emitable, NLA_F_NESTED, NLA_TYPE_MASK, Nla};
use netlink_packet_netfilter::conntrack::{
    ConntrackAttribute, ConntrackMessage, ConntrackMessageType, IPTuple, ProtoTuple, Protocol,
    Tuple,
};
use netlink_packet_netfilter::{
    NetfilterHeader, NetfilterMessage, NetfilterMessageInner, NetfilterProtoFamily,
    NetfilterSubsystem,
};
use netlink_sys::protocols::NETLINK_NETFILTER;
use nix::errno::Errno;

use crate::netlink::Socket;
use crate::{Error, Result};

/// Attributes of linux/netfilter/nfnetlink_conntrack.h.
const CTA_TUPLE_ORIG: u16 = 1;
const CTA_ID: u16 = 12;
const CTA_ZONE: u16 = 18;
const CTA_FILTER: u16 = 25;
const CTA_FILTER_ORIG_FLAGS: u16 = 1;

/// What of the original tuple a list is filtered by: `CTA_FILTER_F_*` of the kernel's
/// net/netfilter/nf_internals.h.
const FILTER_PROTO_NUM: u32 = 1 << 3;
const FILTER_PROTO_DST_PORT: u32 = 1 << 5;

/// Where flows went: a port, and an address where only that one is meant.
pub type Destination = (u16, Option<IpAddr>);

/// Deletes the calling thread's namespace's UDP entries of one family whose original direction
/// went to one of the destinations. Equivalent to `conntrack -D -p udp --orig-port-dst PORT
/// [--orig-dst ADDRESS]` for each, but the kernel's table is walked once: that takes it some
/// 15 ms, however few entries there are. Returns how many.
///
/// # Errors
/// The kernel's first, once all was tried; an entry that vanished meanwhile is none, and so is a
/// kernel without conntrack.
pub fn delete_udp(ipv6: bool, destinations: HashSet<Destination>) -> Result<usize> {
    if destinations.is_empty() {
        return Ok(0);
    }
    let target = Target { ipv6, destinations };
    let socket = match Socket::open(NETLINK_NETFILTER) {
        Err(error) if error.is(Errno::EPROTONOSUPPORT) => return Ok(0),
        socket => socket?,
    };
    let (mut deleted, mut failed) = (0, None);
    for entry in target.entries(&socket)? {
        let doing = format_args!("delete a conntrack entry of UDP");
        match socket.change(target.message(ConntrackMessage::Delete(entry)), 0, doing) {
            Ok(()) => deleted += 1,
            Err(error) if error.is(Errno::ENOENT) => {}
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    failed.map_or(Ok(deleted), Err)
}

/// The entries that are meant.
pub(crate) struct Target {
    pub(crate) ipv6: bool,
    pub(crate) destinations: HashSet<Destination>,
}

impl Target {
    fn message(&self, inner: impl Into<NetfilterMessageInner>) -> NetfilterMessage {
        let family = if self.ipv6 {
            NetfilterProtoFamily::IPv6
        } else {
            NetfilterProtoFamily::IPv4
        };
        NetfilterMessage::new(NetfilterHeader::new(family, 0, 0), inner)
    }

    /// What identifies each entry.
    fn entries(&self, socket: &Socket) -> Result<Vec<Vec<ConntrackAttribute>>> {
        let refused = |error: &Error| error.is(Errno::EINVAL) || error.is(Errno::EOPNOTSUPP);
        let list = |attributes| self.list(socket, attributes, |answer| self.identity(answer));
        match list(self.filter()) {
            // Either it does not know the filter, or there is no conntrack to ask.
            Err(error) if refused(&error) => match list(Vec::new()) {
                Err(error) if refused(&error) => Ok(Vec::new()),
                entries => entries,
            },
            entries => entries,
        }
    }

    fn list<T>(
        &self,
        socket: &Socket,
        attributes: Vec<DefaultNla>,
        pick: impl FnMut(NetfilterMessage) -> Option<T>,
    ) -> Result<Vec<T>> {
        // Not as a typed message, which drops the nested flag that the filter needs.
        let message = self.message(NetfilterMessageInner::Other {
            subsys: NetfilterSubsystem::Conntrack,
            message_type: ConntrackMessageType::Get.into(),
            attributes,
        });
        let doing = format_args!("list conntrack entries of UDP");
        socket.dump(message, doing, pick)
    }

    /// Has the kernel (Linux 5.8) leave out other protocols and, where only one port is meant, other
    /// ports: there may be hundreds of thousands of entries. Older ones ignore it, so that each is
    /// looked at here nevertheless. Not by address: the kernel takes an IPv6 address for one that must
    /// differ.
    fn filter(&self) -> Vec<DefaultNla> {
        let mut tuple = vec![ProtoTuple::Protocol(Protocol::Udp)];
        let mut flags = FILTER_PROTO_NUM;
        if let Some(port) = self.only_port() {
            tuple.push(ProtoTuple::DestinationPort(port));
            flags |= FILTER_PROTO_DST_PORT;
        }
        let flags = DefaultNla::new(CTA_FILTER_ORIG_FLAGS, flags.to_ne_bytes().to_vec());
        vec![
            nested(CTA_TUPLE_ORIG, &[Tuple::Proto(tuple)]),
            nested(CTA_FILTER, &[flags]),
        ]
    }

    fn only_port(&self) -> Option<u16> {
        let mut ports = self.destinations.iter().map(|(port, _)| *port);
        let first = ports.next()?;
        ports.all(|port| port == first).then_some(first)
    }

    /// The attributes that name an entry in a request, if it is one that is meant. They always hold
    /// its tuple: a deletion without one would delete all entries there are.
    pub(crate) fn identity(&self, answer: NetfilterMessage) -> Option<Vec<ConntrackAttribute>> {
        let NetfilterMessageInner::Conntrack(ConntrackMessage::New(attributes)) = answer.inner
        else {
            return None;
        };
        let meant = attributes.iter().any(|attribute| match attribute {
            ConntrackAttribute::CtaTupleOrig(tuple) => self.is_meant(tuple),
            _ => false,
        });
        let identifies = |attribute: &ConntrackAttribute| {
            matches!(attribute, ConntrackAttribute::CtaTupleOrig(_))
                || matches!(attribute.kind() & NLA_TYPE_MASK, CTA_ID | CTA_ZONE)
        };
        meant.then(|| attributes.into_iter().filter(identifies).collect())
    }

    fn is_meant(&self, tuple: &[Tuple]) -> bool {
        let (mut udp, mut port, mut address) = (false, None, None);
        for part in tuple {
            match part {
                Tuple::Ip(parts) => {
                    address = parts.iter().find_map(|part| match part {
                        IPTuple::DestinationAddress(ip) => Some(*ip),
                        _ => None,
                    });
                }
                Tuple::Proto(parts) => {
                    udp = parts.contains(&ProtoTuple::Protocol(Protocol::Udp));
                    port = parts.iter().find_map(|part| match part {
                        ProtoTuple::DestinationPort(port) => Some(*port),
                        _ => None,
                    });
                }
                _ => {}
            }
        }
        let (Some(address), Some(port)) = (address, port) else {
            return false;
        };
        let is_asked = |address| self.destinations.contains(&(port, address));
        udp && address.is_ipv6() == self.ipv6 && (is_asked(None) || is_asked(Some(address)))
    }
}

/// An attribute that holds others.
fn nested(kind: u16, inner: &[impl Nla]) -> DefaultNla {
    let mut value = vec![0; inner.buffer_len()];
    inner.emit(&mut value);
    DefaultNla::new(kind | NLA_F_NESTED, value)
}

#[cfg(test)]
mod tests;
