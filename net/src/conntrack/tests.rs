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

fn target(ipv6: bool, destinations: &[Destination]) -> Target {
    let destinations = destinations.iter().copied().collect();
    Target { ipv6, destinations }
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
    (target(ipv6, &[]), ConntrackMessage::New(attributes))
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

fn assert_deletes(ipv6: bool, destinations: &[(u16, Option<&str>)], gone: &[usize]) {
    let parse = |address: &str| address.parse().expect("address");
    let destinations = destinations
        .iter()
        .map(|(port, address)| (*port, address.map(parse)));
    let outcome = left_after(|| delete_udp(ipv6, destinations.collect()).expect("delete"));
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
    assert_deletes(false, &[(53, None)], &[0, 1]);
}

#[test]
fn of_one_port_and_address() {
    assert_deletes(false, &[(53, Some("10.0.0.2"))], &[1]);
}

#[test]
fn of_several_ports_and_addresses() {
    assert_deletes(false, &[(53, Some("10.0.0.2")), (54, None)], &[1, 2]);
    assert_deletes(false, &[(53, None), (53, Some("10.0.0.1"))], &[0, 1]);
    let many: Vec<_> = (1..=u16::MAX).map(|port| (port, None)).collect();
    assert_deletes(false, &many, &[0, 1, 2]);
    assert_deletes(true, &many, &[4, 5]);
    assert_deletes(true, &[], &[]);
}

#[test]
fn of_ipv6() {
    assert_deletes(true, &[(53, None)], &[4, 5]);
    assert_deletes(true, &[(53, Some("fd00::1"))], &[4]);
}

#[test]
fn never_more_than_asked() {
    assert_deletes(false, &[(99, None)], &[]);
    assert_deletes(false, &[(53, Some("10.0.0.99"))], &[]);
    assert_deletes(true, &[(53, Some("10.0.0.1"))], &[]);
}

#[test]
fn the_same_without_the_kernels_filter() {
    let target = target(false, &[(53, Some(IpAddr::from([10, 0, 0, 1])))]);
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
    for (destinations, expected) in [(&[(53, None)][..], 2), (&[(53, None), (99, None)], 3)] {
        let count = || {
            let socket = Socket::open(NETLINK_NETFILTER).expect("socket");
            let target = target(false, destinations);
            let answers = target.list(&socket, target.filter(), Some);
            answers.expect("filtered").len()
        };
        if let Some((listed, _)) = left_after(count) {
            assert_eq!(listed, expected);
        }
    }
}

#[test]
fn a_request_to_delete_always_names_an_entry() {
    let target = target(false, &[(53, None)]);
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
