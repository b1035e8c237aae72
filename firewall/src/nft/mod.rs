//! The second backend: nf_tables by netlink, in tables of our own.
//!
//! [`hostport`] and [`masquerade`] say as values what an attachment should have: elements of sets
//! and maps that all attachments share, so that neither a packet nor an ADD walks all of them.
//! [`plan`] makes batches of it, [`verbs`] applies them, [`wire`] is the transport. What is an
//! attachment's has a comment that begins with its hash ([`tag`]).
//!
//! An ADD sends elements alone, where a look at the rules says that all that is shared is there. The
//! table, its sets, chains and shared rules are only made where they are missing, under the lock.

mod compat;
mod condition;
mod expr;
mod field;
mod foreign;
mod hostport;
pub mod listing;
pub mod macspoof;
mod masquerade;
pub mod message;
pub mod nat;
mod plan;
pub mod read;
mod settling;
pub mod survey;
pub mod table;
mod tag;
mod verbs;
pub mod wire;

use std::net::IpAddr;

use ipnet::IpNet;

use self::listing::Listing;
use self::plan::Want;
use self::table::{Entry, Table};
use self::tag::Tag;

use self::verbs::{Kind, Leftovers, Removed};
use crate::hostport::{HostPorts, Mapping, Mark};
use crate::rule::Family;
use crate::{Error, Owner, Result};

pub use self::settling::{Settling, keep};
pub use self::tag::Dead;
pub use self::verbs::is_without_nftables;

/// Whether the kernel has nf_tables and lets us speak to it. Nothing is changed.
pub fn is_there() -> bool {
    probe().is_ok()
}

/// Asks for a table that need not be there.
fn probe() -> std::io::Result<()> {
    let mut socket = wire::Socket::open()?;
    socket.get(&masquerade::table(Family::V4, &[]).name.get())?;
    Ok(())
}

/// Whether the backend can be used: asked before ADD changes anything.
///
/// # Errors
/// The kernel's.
pub fn preflight() -> Result<()> {
    probe().map_err(|source| Error::Io {
        command: "nftables".to_owned(),
        source,
    })
}

/// Whether conditions can be obeyed.
///
/// # Errors
/// [`Error::Unsupported`] names what cannot, and what can.
pub fn check_conditions(family: Family, words: &[String]) -> Result<()> {
    condition::parse(family, words)
        .map(drop)
        .map_err(Error::Unsupported)
}

/// Whether the backend can do what is asked for the ports.
///
/// # Errors
/// [`Error::Unsupported`].
pub fn preflight_ports(ports: &HostPorts) -> Result<()> {
    if let Mark::Chain(chain) = ports.mark
        && ports.snat
    {
        let text = format!("chain {chain} of iptables cannot be used with nftables");
        return Err(Error::Unsupported(text));
    }
    for family in Family::ALL {
        check_conditions(family, ports.conditions(family))?;
    }
    preflight()
}

struct Ports<'a> {
    tag: Tag,
    ports: &'a HostPorts<'a>,
}

impl Kind for Ports<'_> {
    fn tag(&self) -> &Tag {
        &self.tag
    }

    fn table(&self, family: Family) -> Table {
        hostport::table(family, None)
    }

    fn want(&self, family: Family, listing: &Listing) -> Option<Want> {
        let others = listing.places_of_others(&self.tag);
        hostport::want(&self.tag, self.ports, family, |port| {
            port.is_taken(&others) || port.is_duplicate(&self.tag, listing)
        })
    }
}

/// See [`crate::hostport::add`].
///
/// # Errors
/// The kernel's.
pub fn add_ports(owner: Owner, ports: &HostPorts) -> Result<()> {
    let tag = Tag::of(owner);
    verbs::add(&Ports { tag, ports })
}

/// See [`crate::hostport::check`].
///
/// # Errors
/// [`Error::Missing`], or the kernel's.
pub fn check_ports(owner: Owner, ports: &HostPorts) -> Result<()> {
    let tag = Tag::of(owner);
    verbs::check(&Ports { tag, ports })
}

/// See [`crate::hostport::delete`].
///
/// # Errors
/// Only where something is still there, or may be and was `expected`.
pub fn delete_ports(
    owner: Owner,
    addresses: &[IpNet],
    expected: bool,
) -> Result<Vec<(Family, Mapping)>> {
    let tag = Tag::of(owner);
    let leftovers = Leftovers {
        own: port_tables(),
        is_own: &|comment| tag.owns(comment),
        foreign: &foreign::HOSTPORT,
        is_foreign: &|rule| foreign::is_port_of(owner, addresses, rule),
    };
    verbs::delete(&leftovers, expected).map(forwardings)
}

/// Removes the attachment's ports from our own tables, where its element says that it has some.
///
/// # Errors
/// The kernel's.
pub fn forget_ports(owner: Owner) -> Result<()> {
    verbs::forget(&Tag::of(owner), port_tables())
}

/// See [`crate::hostport::gc`]. The reference plugins' rules are let alone: their comment is a
/// container's id, which may be of any network, and they name no link of the node by which one could
/// tell that nobody uses them. They go by DEL, which knows the id.
///
/// # Errors
/// What is still there.
pub fn gc_ports(network: &str, valid: &[Owner]) -> Result<Vec<(Family, Mapping)>> {
    let dead = Dead::new(network, valid);
    let leftovers = Leftovers {
        own: port_tables(),
        is_own: &|comment| dead.owns(comment),
        foreign: &[],
        is_foreign: &|_| false,
    };
    verbs::delete(&leftovers, false).map(forwardings)
}

fn port_tables() -> [Table; 2] {
    Family::ALL.map(|family| hostport::table(family, None))
}

fn forwardings(removed: Removed) -> Vec<(Family, Mapping)> {
    let entries = removed.entries.iter();
    let entries = entries.filter_map(|(_, entry)| read::entry(entry));
    let rules = removed.rules.iter();
    let rules = rules.filter_map(|rule| read::rule(&rule.expressions));
    let with_family = |(mapping, pod): (Mapping, IpAddr)| (Family::of(&pod.into()), mapping);
    entries.chain(rules).map(with_family).collect()
}

struct Masquerade<'a> {
    tag: Tag,
    addresses: &'a [IpNet],
}

impl Kind for Masquerade<'_> {
    fn tag(&self) -> &Tag {
        &self.tag
    }

    fn table(&self, family: Family) -> Table {
        masquerade::table(family, &[])
    }

    fn want(&self, family: Family, _: &Listing) -> Option<Want> {
        masquerade::want(&self.tag, self.addresses, family)
    }

    fn is_stale(&self, entry: &Entry) -> bool {
        masquerade::is_stale(&self.tag, self.addresses, entry)
    }
}

/// See [`crate::masquerade::add`].
///
/// # Errors
/// The kernel's.
pub fn add_masquerade(owner: Owner, addresses: &[IpNet]) -> Result<()> {
    let tag = Tag::of(owner);
    verbs::add(&Masquerade { tag, addresses })
}

/// See [`crate::masquerade::check`].
///
/// # Errors
/// [`Error::Missing`], or the kernel's.
pub fn check_masquerade(owner: Owner, addresses: &[IpNet]) -> Result<()> {
    let tag = Tag::of(owner);
    verbs::check(&Masquerade { tag, addresses })
}

/// See [`crate::masquerade::delete`].
///
/// # Errors
/// Only where something is still there, or may be and was `expected`.
pub fn delete_masquerade(owner: Owner, expected: bool) -> Result<()> {
    let tag = Tag::of(owner);
    remove_masquerade(&|comment| tag.owns(comment), expected)
}

/// As [`forget_ports`], for masquerade.
///
/// # Errors
/// The kernel's.
pub fn forget_masquerade(owner: Owner) -> Result<()> {
    verbs::forget(&Tag::of(owner), masquerade_tables())
}

/// See [`crate::masquerade::gc`].
///
/// # Errors
/// What is still there.
pub fn gc_masquerade(network: &str, valid: &[Owner]) -> Result<()> {
    let dead = Dead::new(network, valid);
    remove_masquerade(&|comment| dead.owns(comment), false)
}

fn masquerade_tables() -> [Table; 2] {
    Family::ALL.map(|family| masquerade::table(family, &[]))
}

/// Also from the reference plugins' table, where comments begin as ours do.
fn remove_masquerade(is_own: &dyn Fn(&str) -> bool, expected: bool) -> Result<()> {
    let leftovers = Leftovers {
        own: masquerade_tables(),
        is_own,
        foreign: &foreign::MASQUERADE,
        is_foreign: &|rule| is_own(&rule.comment),
    };
    verbs::delete(&leftovers, expected).map(drop)
}
