//! Connection tracking entries, by netlink (nfnetlink_conntrack).

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

/// Deletes the calling thread's namespace's UDP entries of one family whose original direction
/// went to `port` and, where given, to `address`. Equivalent to `conntrack -D -p udp --orig-port-dst PORT
/// [--orig-dst ADDRESS]`. Returns how many.
///
/// # Errors
/// The kernel's; an entry that vanished meanwhile is none, and so is a kernel without conntrack.
pub fn delete_udp(ipv6: bool, port: u16, address: Option<IpAddr>) -> Result<usize> {
    if address.is_some_and(|address| address.is_ipv6() != ipv6) {
        return Ok(0);
    }
    let target = Target {
        ipv6,
        port,
        address,
    };
    let socket = match Socket::open(NETLINK_NETFILTER) {
        Err(error) if error.is(Errno::EPROTONOSUPPORT) => return Ok(0),
        socket => socket?,
    };
    let mut deleted = 0;
    for entry in target.entries(&socket)? {
        let doing = format_args!("delete conntrack entry of UDP port {port}");
        match socket.change(target.message(ConntrackMessage::Delete(entry)), 0, doing) {
            Ok(()) => deleted += 1,
            Err(error) if error.is(Errno::ENOENT) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(deleted)
}

/// The entries that are meant.
struct Target {
    ipv6: bool,
    port: u16,
    address: Option<IpAddr>,
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
        let doing = format_args!("list conntrack entries of UDP port {}", self.port);
        socket.dump(message, doing, pick)
    }

    /// Has the kernel (Linux 5.8) leave out other protocols and ports: there may be hundreds of
    /// thousands of entries. Older ones ignore it, so that each is looked at here nevertheless. Not
    /// by address: the kernel takes an IPv6 address for one that must differ.
    fn filter(&self) -> Vec<DefaultNla> {
        let tuple = [Tuple::Proto(vec![
            ProtoTuple::Protocol(Protocol::Udp),
            ProtoTuple::DestinationPort(self.port),
        ])];
        let flags = FILTER_PROTO_NUM | FILTER_PROTO_DST_PORT;
        let flags = DefaultNla::new(CTA_FILTER_ORIG_FLAGS, flags.to_ne_bytes().to_vec());
        vec![nested(CTA_TUPLE_ORIG, &tuple), nested(CTA_FILTER, &[flags])]
    }

    /// The attributes that name an entry in a request, if it is one that is meant. They always hold
    /// its tuple: a deletion without one would delete all entries there are.
    fn identity(&self, answer: NetfilterMessage) -> Option<Vec<ConntrackAttribute>> {
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
        let Some(destination) = address else {
            return false;
        };
        udp && port == Some(self.port)
            && destination.is_ipv6() == self.ipv6
            && self.address.is_none_or(|address| address == destination)
    }
}

/// An attribute that holds others.
fn nested(kind: u16, inner: &[impl Nla]) -> DefaultNla {
    let mut value = vec![0; inner.buffer_len()];
    inner.emit(&mut value);
    DefaultNla::new(kind | NLA_F_NESTED, value)
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};

    use super::*;
    use crate::Netns;

    fn tuple(protocol: Protocol, ends: [(&str, u16); 2]) -> Vec<Tuple> {
        let [(source, from), (destination, to)] = ends;
        vec![
            Tuple::Ip(vec![
                IPTuple::SourceAddress(source.parse().expect(source)),
                IPTuple::DestinationAddress(destination.parse().expect(destination)),
            ]),
            Tuple::Proto(vec![
                ProtoTuple::Protocol(protocol),
                ProtoTuple::SourcePort(from),
                ProtoTuple::DestinationPort(to),
            ]),
        ]
    }

    /// A flow to a port, and the target that its family's request is made with.
    fn entry(protocol: Protocol, destination: (&str, u16)) -> (Target, ConntrackMessage) {
        let ipv6 = destination.0.contains(':');
        let source = (if ipv6 { "fd00::9" } else { "192.0.2.9" }, 4000);
        let attributes = vec![
            ConntrackAttribute::CtaTupleOrig(tuple(protocol, [source, destination])),
            ConntrackAttribute::CtaTupleReply(tuple(protocol, [destination, source])),
            ConntrackAttribute::CtaTimeout(600),
        ];
        (
            Target {
                ipv6,
                port: 0,
                address: None,
            },
            ConntrackMessage::New(attributes),
        )
    }

    const ENTRIES: [(Protocol, (&str, u16)); 6] = [
        (Protocol::Udp, ("10.0.0.1", 53)),
        (Protocol::Udp, ("10.0.0.2", 53)),
        (Protocol::Udp, ("10.0.0.1", 54)),
        (Protocol::UdpLite, ("10.0.0.1", 53)),
        (Protocol::Udp, ("fd00::1", 53)),
        (Protocol::Udp, ("fd00::2", 53)),
    ];

    /// Which of ENTRIES are there.
    fn there(socket: &Socket) -> Vec<usize> {
        let is_there = |index: &usize| {
            let (protocol, destination) = ENTRIES[*index];
            let (target, message) = entry(protocol, destination);
            let ConntrackMessage::New(mut attributes) = message else {
                return false;
            };
            attributes.truncate(1);
            let message = target.message(ConntrackMessage::Get(attributes));
            socket.get(message, format_args!("get entry")).is_ok()
        };
        (0..ENTRIES.len()).filter(is_there).collect()
    }

    /// Makes all ENTRIES in a new namespace, runs `delete` there, and tells what is left.
    fn left_after(delete: impl FnOnce() -> usize) -> Option<(usize, Vec<usize>)> {
        let netns = Netns::anonymous();
        let inside = || {
            let socket = Socket::open(NETLINK_NETFILTER)?;
            for (protocol, destination) in ENTRIES {
                let (target, message) = entry(protocol, destination);
                let flags = NLM_F_CREATE | NLM_F_EXCL;
                socket.change(target.message(message), flags, format_args!("make entry"))?;
            }
            Ok((delete(), there(&socket)))
        };
        match netns.and_then(|netns| netns.enter(inside)?) {
            Ok(outcome) => Some(outcome),
            Err(error) => {
                lab::skip(&format!(
                    "cannot make conntrack entries in a namespace: {error}"
                ));
                None
            }
        }
    }

    fn assert_deletes(ipv6: bool, port: u16, address: Option<&str>, gone: &[usize]) {
        let address = address.map(|address| address.parse().expect("address"));
        let outcome = left_after(|| delete_udp(ipv6, port, address).expect("delete"));
        let Some((deleted, left)) = outcome else {
            return;
        };
        let kept: Vec<usize> = (0..ENTRIES.len())
            .filter(|index| !gone.contains(index))
            .collect();
        assert_eq!((deleted, left), (gone.len(), kept));
    }

    #[test]
    fn of_one_port() {
        assert_deletes(false, 53, None, &[0, 1]);
    }

    #[test]
    fn of_one_port_and_address() {
        assert_deletes(false, 53, Some("10.0.0.2"), &[1]);
    }

    #[test]
    fn of_ipv6() {
        assert_deletes(true, 53, None, &[4, 5]);
        assert_deletes(true, 53, Some("fd00::1"), &[4]);
    }

    #[test]
    fn never_more_than_asked() {
        assert_deletes(false, 99, None, &[]);
        assert_deletes(false, 53, Some("10.0.0.99"), &[]);
        assert_deletes(true, 53, Some("10.0.0.1"), &[]);
    }

    #[test]
    fn the_same_without_the_kernels_filter() {
        let target = Target {
            ipv6: false,
            port: 53,
            address: Some(IpAddr::from([10, 0, 0, 1])),
        };
        let meant: Vec<bool> = ENTRIES
            .iter()
            .map(|(protocol, destination)| {
                let (family, message) = entry(*protocol, *destination);
                target.identity(family.message(message)).is_some()
            })
            .collect();
        assert_eq!(meant, [true, false, false, false, false, false]);
    }

    #[test]
    fn the_kernel_leaves_out_other_entries() {
        let count = || {
            let socket = Socket::open(NETLINK_NETFILTER).expect("socket");
            let target = Target {
                ipv6: false,
                port: 53,
                address: None,
            };
            let answers = target.list(&socket, target.filter(), Some);
            answers.expect("filtered").len()
        };
        if let Some((listed, _)) = left_after(count) {
            assert_eq!(listed, 2);
        }
    }

    #[test]
    fn a_request_to_delete_always_names_an_entry() {
        let target = Target {
            ipv6: false,
            port: 53,
            address: None,
        };
        let without = [
            ConntrackMessage::New(Vec::new()),
            ConntrackMessage::New(vec![ConntrackAttribute::CtaTupleOrig(Vec::new())]),
            ConntrackMessage::New(vec![ConntrackAttribute::CtaTimeout(1)]),
        ];
        for message in without {
            assert_eq!(target.identity(target.message(message)), None);
        }
        let (_, message) = entry(Protocol::Udp, ("10.0.0.1", 53));
        let identity = target.identity(target.message(message)).expect("meant");
        assert!(matches!(
            identity[..],
            [ConntrackAttribute::CtaTupleOrig(_)]
        ));
    }
}
