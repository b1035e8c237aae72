//! Masquerade as elements of a table of our own, which one rule looks up.
//!
//! ```text
//! table ip cni_lite_masquerade {
//!     set attachments { type ifname }
//!     map pods        { type ipv4_addr : verdict; elements = { 10.1.2.2 : jump outside_10.1.2.0/24 } }
//!     chain postrouting { ip daddr != 224.0.0.0/4 ip saddr vmap @pods }
//!     chain outside_10.1.2.0/24 { ip daddr != 10.1.2.0/24 masquerade }
//! }
//! ```

use ipnet::IpNet;
use netlink_packet_netfilter::nftables::InetHookNumber;

use super::expr::{self, Part, octets};
use super::field::Field;
use super::hostport::SRCNAT;
use super::plan::Want;
use super::table::{
    Chain, Element, Entry, Hook, HookKind, Set, Table, TableName, Value, proto_family,
};
use super::tag::Tag;
use crate::names;
use crate::rule::{Family, multicast};

const TABLE: &str = "cni_lite_masquerade";

/// Where packets go next, by the pod that they come from.
const PODS: &str = "pods";

/// Bytes of a chain's name up to which it tells all networks; else it is a hash of them.
const MAX_NAME_LEN: usize = 100;

/// The table of one family, with the chain for what leaves these networks where there are some.
pub fn table(family: Family, nets: &[IpNet]) -> Table {
    let dispatch = Part::all([
        expr::net_is(Field::Destination, multicast(family), true),
        expr::verdict_of(family, &[Field::Source], PODS),
    ]);
    let mut chains = vec![Chain {
        name: "postrouting".to_owned(),
        hook: Some(Hook {
            kind: HookKind::Nat,
            number: InetHookNumber::PostRouting,
            priority: SRCNAT,
        }),
        rules: vec![dispatch],
    }];
    if !nets.is_empty() {
        chains.push(Chain {
            name: chain(nets),
            hook: None,
            rules: leaving(nets).into_iter().collect(),
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
            Set {
                name: PODS,
                key: vec![Field::Source],
                value: Value::Verdict,
            },
        ],
        chains,
    }
}

/// The chain for what leaves the networks.
fn chain(nets: &[IpNet]) -> String {
    let name = expr::net_name(nets);
    let name = if name.len() > MAX_NAME_LEN {
        names::hash(&[&name], 24)
    } else {
        name
    };
    format!("outside_{name}")
}

/// Its rule; nothing leaves the network of all addresses.
fn leaving(nets: &[IpNet]) -> Option<Part> {
    if nets.iter().any(|net| net.prefix_len() == 0) {
        return None;
    }
    let outside = nets.iter();
    let outside = outside.map(|net| expr::net_is(Field::Destination, *net, true));
    Some(Part::all(outside.chain([expr::masquerade()])))
}

/// What an attachment should have in one family's table, if it has an address of the family: an
/// element for each address.
pub fn want(tag: &Tag, addresses: &[IpNet], family: Family) -> Option<Want> {
    let nets = of(addresses, family);
    if nets.is_empty() {
        return None;
    }
    let mut hosts: Vec<_> = nets.iter().map(IpNet::addr).collect();
    hosts.sort();
    hosts.dedup();
    let nets = IpNet::aggregate(&nets);
    let chain = chain(&nets);
    let pods = hosts.into_iter().map(|host| Element {
        text: format!("{host} : jump {chain}"),
        entry: Entry {
            set: PODS.to_owned(),
            key: octets(host),
            value: Some(expr::jump_verdict(&chain)),
            comment: tag.comment.clone(),
        },
    });
    Some(Want {
        table: table(family, &nets),
        elements: [tag.element()].into_iter().chain(pods).collect(),
        rules: Vec::new(),
    })
}

/// Whether an element is in the way: whoever had an address before, it is now the attachment's.
pub fn is_stale(tag: &Tag, addresses: &[IpNet], entry: &Entry) -> bool {
    let is = |net: &IpNet| entry.key == octets(net.addr());
    tag.owns(&entry.comment) || entry.set == PODS && addresses.iter().any(is)
}

fn of(addresses: &[IpNet], family: Family) -> Vec<IpNet> {
    let of_family = |net: &&IpNet| Family::of(net) == family;
    addresses.iter().filter(of_family).copied().collect()
}
