//! Masquerade as elements of a table of our own, which one rule looks up.
//!
//! ```text
//! table ip cni_lite_masquerade {
//!     set attachments { type ifname }
//!     set pods        { type ipv4_addr }
//!     set inside      { type ipv4_addr . ipv4_addr; flags interval }
//!     chain postrouting { ip saddr @pods ip daddr != 224.0.0.0/4
//!                         ip saddr . ip daddr != @inside masquerade }
//! }
//! ```

use ipnet::IpNet;
use netlink_packet_netfilter::nftables::InetHookNumber;

use super::expr::{self, Part, octets};
use super::field::Field;
use super::hostport::SRCNAT;
use super::plan::Want;
use super::table::{Chain, Element, Entry, Hook, Set, Table, TableName, Value, proto_family};
use super::tag::Tag;
use crate::rule::{Family, multicast};

const TABLE: &str = "cni_lite_masquerade";

/// Addresses of pods.
const PODS: &str = "pods";
/// Which pod reaches which networks by its own address.
const INSIDE: &str = "inside";

const PAIR: [Field; 2] = [Field::Source, Field::Destination];

/// The table of one family.
pub fn table(family: Family) -> Table {
    let rule = Part::all([
        expr::is_in(family, &[Field::Source], PODS, false),
        expr::net_is(Field::Destination, multicast(family), true),
        expr::is_in(family, &PAIR, INSIDE, true),
        expr::masquerade(),
    ]);
    let set = |name, key: &[Field], interval| Set {
        name,
        key: key.to_vec(),
        value: Value::None,
        interval,
    };
    Table {
        name: TableName {
            family: proto_family(family),
            name: TABLE,
        },
        family,
        sets: vec![
            Tag::set(),
            set(PODS, &[Field::Source], false),
            set(INSIDE, &PAIR, true),
        ],
        chains: vec![Chain {
            name: "postrouting".to_owned(),
            hook: Some(Hook {
                number: InetHookNumber::PostRouting,
                priority: SRCNAT,
            }),
            rules: vec![rule],
        }],
    }
}

/// What an attachment should have in one family's table, if it has an address of the family: each
/// address, and beside it each network that is reached without masquerade.
pub fn want(tag: &Tag, addresses: &[IpNet], family: Family) -> Option<Want> {
    let nets = of(addresses, family);
    if nets.is_empty() {
        return None;
    }
    let mut hosts: Vec<_> = nets.iter().map(IpNet::addr).collect();
    hosts.sort();
    hosts.dedup();
    let entry = |set: &str, key, end| Entry {
        set: set.to_owned(),
        key,
        end,
        value: None,
        comment: tag.comment.clone(),
    };
    let mut elements = vec![tag.element()];
    for host in hosts {
        elements.push(Element {
            text: host.to_string(),
            entry: entry(PODS, octets(host), None),
        });
        // Disjoint, as ranges must be.
        elements.extend(IpNet::aggregate(&nets).into_iter().map(|net| {
            let pair = |ip| [octets(host), octets(ip)].concat();
            Element {
                text: format!("{host} . {}", expr::net_text(net)),
                entry: entry(INSIDE, pair(net.network()), Some(pair(net.broadcast()))),
            }
        }));
    }
    Some(Want {
        table: table(family),
        elements,
        rules: Vec::new(),
    })
}

/// Whether an element is in the way: whoever had an address before, it is now the attachment's.
pub fn is_stale(tag: &Tag, addresses: &[IpNet], entry: &Entry) -> bool {
    let about = |net: &IpNet| entry.key.starts_with(&octets(net.addr()));
    tag.owns(&entry.comment)
        || (entry.set == PODS || entry.set == INSIDE) && addresses.iter().any(about)
}

fn of(addresses: &[IpNet], family: Family) -> Vec<IpNet> {
    let of_family = |net: &&IpNet| Family::of(net) == family;
    addresses.iter().filter(of_family).copied().collect()
}
