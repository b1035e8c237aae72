//! Messages of the kernel as bytes, read as every verb reads them. For fuzzing, and for tests of what
//! that has found.

use netlink_packet_core::{NetlinkDeserializable, NetlinkMessage, NetlinkPayload};
use netlink_packet_netfilter::NetfilterMessage;
use netlink_packet_route::RouteNetlinkMessage;

use crate::conntrack::Target;
use crate::netlink::{Packet, attribute_text, refusal_text};
use crate::qdisc::{self, redirect};
use crate::route::{self, table};
use crate::{Tbf, address, link, rule, vlan};

/// Reads one message. The first byte says which socket it comes from: an even one that of routes.
pub fn answer(bytes: &[u8]) {
    let Some((socket, bytes)) = bytes.split_first() else {
        return;
    };
    let Ok(message) = NetlinkMessage::<Packet>::deserialize(bytes) else {
        return;
    };
    let (header, payload) = message.into_parts();
    match payload {
        NetlinkPayload::InnerMessage(packet) if socket % 2 == 0 => {
            if let Ok(answer) = RouteNetlinkMessage::deserialize(&header, packet.body()) {
                of_routes(&answer);
            }
        }
        NetlinkPayload::InnerMessage(packet) => {
            if let Ok(answer) = NetfilterMessage::deserialize(&header, packet.body()) {
                of_conntrack(answer);
            }
        }
        NetlinkPayload::Error(error) => drop(refusal_text(header.flags, &error)),
        NetlinkPayload::Done(done) => drop(attribute_text(&done.extended_ack)),
        _ => {}
    }
}

fn of_routes(answer: &RouteNetlinkMessage) {
    link::link_of(answer);
    route::way(answer);
    qdisc::qdisc(answer);
    match answer {
        RouteNetlinkMessage::NewLink(link) => drop(vlan::read(link)),
        RouteNetlinkMessage::NewAddress(message) => drop(address::address(message)),
        RouteNetlinkMessage::NewRoute(route) => drop(table::entries(route)),
        RouteNetlinkMessage::NewRule(message) => drop(rule::Rule::read(message)),
        RouteNetlinkMessage::NewQueueDiscipline(message) => drop(Tbf::read(&message.attributes)),
        RouteNetlinkMessage::NewTrafficFilter(filter) => {
            redirect::takes_all(filter);
            redirect::deletions(&[filter.clone(), filter.clone()], 1);
        }
        _ => {}
    }
}

fn of_conntrack(answer: NetfilterMessage) {
    let target = Target {
        ipv6: false,
        destinations: [(53, None)].into(),
    };
    // A deletion without a tuple would delete all entries there are.
    if let Some(identity) = target.identity(answer) {
        assert!(!identity.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    /// Of a real node, each cut everywhere, and with each byte another.
    #[test]
    fn no_message_of_the_corpus_makes_a_panic() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus/netlink");
        for file in fs::read_dir(folder).unwrap() {
            let bytes = fs::read(file.unwrap().path()).unwrap();
            super::answer(&bytes);
            for at in 0..bytes.len() {
                super::answer(&bytes[..at]);
                for byte in [0, 1, 0x7f, 0xff] {
                    let mut other = bytes.clone();
                    other[at] = byte;
                    super::answer(&other);
                }
            }
        }
    }
}
