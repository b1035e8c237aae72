//! The path of a pod's packets, both ways, as a person would follow it by hand.
//!
//! [`find`] says whose path is meant, [`path`] what it is: a list of hops, of which each says what it
//! is and, where no packet goes on from it, why. Nothing is sent.

mod destination;
mod hop;
mod links;
mod pods;
mod routes;
mod rules;
mod subject;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

pub use destination::Destination;
pub use hop::{Hop, Way};
pub use subject::{Pod, Subject, find};

use crate::case::Case;

/// The path of a subject: where it goes to and comes from as a rule, or with a destination where a
/// packet to that would go.
pub fn path(case: Case, subject: &Subject, to: Option<Destination>) -> Vec<Hop> {
    let hops = Vec::new();
    let mut walk = Walk { case, hops };
    match (subject, to) {
        (Subject::Pod(pod), None) => walk.pod(pod),
        (Subject::Pod(pod), Some(to)) => walk.send_from_pod(pod, to),
        (Subject::Elsewhere { address, node }, None) => walk.elsewhere(*address, node),
        (Subject::Elsewhere { address, .. }, Some(to)) => walk.send_from_elsewhere(*address, to),
        (Subject::Link(index), None) => walk.link(*index),
        (Subject::Link(index), Some(to)) => {
            let input = walk.case.node.name_of(*index);
            walk.deliver(&Sender::outside(input, to.address), to);
        }
    }
    walk.hops
}

/// The hops so far.
struct Walk<'a> {
    case: Case<'a>,
    hops: Vec<Hop>,
}

/// Where a packet comes from.
#[derive(Debug, Clone)]
struct Sender {
    /// The link of the node by which it comes in.
    input: String,
    /// Who sends it.
    source: IpAddr,
}

/// Hosts of nobody (RFC 5737 and RFC 3849), for what is outside.
const OUTSIDE: [IpAddr; 2] = [
    IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 254)),
    IpAddr::V6(std::net::Ipv6Addr::new(
        0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, 0xfffe,
    )),
];

/// A host outside, of the family of an address.
fn outside(like: IpAddr) -> IpAddr {
    let [v4, v6] = OUTSIDE;
    if like.is_ipv4() { v4 } else { v6 }
}

impl Sender {
    /// A host outside, that sends to an address.
    fn outside(input: String, to: IpAddr) -> Sender {
        let source = outside(to);
        Sender { input, source }
    }
}

impl Walk<'_> {
    fn push(&mut self, hop: Hop) {
        self.hops.push(hop);
    }
}
