//! Filters of source MACs: a pod sends no frame that says to be from another.
//!
//! ```text
//! table bridge nat {
//!     chain PREROUTING { type filter hook prerouting priority -300
//!         iifname "vethf23385a58e0" jump cni-br-iface-cont1-eth0 }
//!     chain cni-br-iface-cont1-eth0 { jump cni-br-iface-cont1-eth0-mac }
//!     chain cni-br-iface-cont1-eth0-mac { ether saddr 0a:58:0a:f4:00:02 return; drop }
//! }
//! ```
//!
//! Names, rules and their comments (`macspoofchk-cont1-eth0`) are the reference plugins', which find
//! by them what they remove. They do not say of which network a filter is: our chains have a comment
//! that does, which the reference does not look at. A name that it tells to be another attachment's
//! is not used; instead of it there is a hash of all three.
//!
//! Nothing but these chains is ever listed, except by GC, which asks for the names of all chains of
//! bridges.

mod names;
mod plan;
#[cfg(test)]
mod tests;

use std::io;

use nix::errno::Errno;

use self::names::Names;
use self::plan::{PREROUTING, Want, Whose};
pub use self::plan::{TABLE, shared};
use super::listing::{self, Listing};
use super::tag::Dead;
use super::verbs::{self, failed};
use super::wire::{Message, Socket};
use crate::{Error, Owner, Result};

/// Whether a filter could be made: asked before ADD changes anything.
///
/// # Errors
/// [`Error::Unsupported`] where the kernel has no nf_tables for bridges, or has another chain in the
/// place of the one that leads to filters; or the kernel's.
pub fn preflight() -> Result<()> {
    let doing = "nftables: check";
    let mut socket = verbs::open(doing)?;
    // No attachment's: an id is never empty.
    let nobody = Owner {
        network: "",
        container_id: "",
        ifname: "",
    };
    let want = want(nobody, "lo", [0; 6]);
    let listing = read_chains(&mut socket, &want.whose).map_err(failed(doing))?;
    if listing.chain(PREROUTING).is_some() {
        return usable(&listing);
    }
    // The first one of all is rehearsed: only then the kernel tells.
    match socket.rehearse(&want.addition(&listing)) {
        Err(error) if error.raw_os_error() == Some(Errno::EOPNOTSUPP as i32) => {
            let text = "the kernel has no nf_tables for bridges (CONFIG_NF_TABLES_BRIDGE)";
            Err(Error::Unsupported(text.to_owned()))
        }
        rehearsed => rehearsed.map_err(failed(doing)),
    }
}

/// Lets through of what comes in by `port`, the host's end of a veth pair, only frames whose source
/// is `mac`. What the attachment had before is replaced. On an error nothing is changed.
///
/// # Errors
/// [`Error::Unsupported`] as [`preflight`], or the kernel's.
pub fn add(owner: Owner, port: &str, mac: [u8; 6]) -> Result<()> {
    let doing = "nftables: add";
    let want = want(owner, port, mac);
    let mut socket = verbs::open(doing)?;
    verbs::apply(&mut socket, doing, |socket| {
        let mut listing = read_chains(socket, &want.whose)?;
        let usable = usable(&listing);
        if usable.is_err() {
            return Ok((Vec::new(), usable));
        }
        // Of a new attachment there is nothing to be replaced.
        if listing.chains.iter().any(|chain| chain.name != PREROUTING) {
            listing.rules = listing::rules_in(socket, TABLE, PREROUTING)?;
        }
        Ok((want.addition(&listing), Ok(())))
    })?
}

/// Removes whatever filter the attachment has, found by the attachment alone, also one of a
/// reference plugin's. Where there is no such table, the kernel is only asked for it.
///
/// # Errors
/// Only where something is still there, or may be and was `expected`.
pub fn delete(owner: Owner, expected: bool) -> Result<()> {
    let doing = "nftables: delete";
    let whose = Whose::of(owner);
    remove(doing, expected, |socket| {
        let mut listing = read_chains(socket, &whose)?;
        listing.rules = listing::rules_in(socket, TABLE, PREROUTING)?;
        Ok(whose.removal(&listing))
    })
}

/// Removes the filters of all attachments of the network but the `valid` ones. Of those that do not
/// say of which network they are, as the reference plugins make them, those go of which no link
/// (`is_link`) is left.
///
/// # Errors
/// What is still there.
pub fn gc(network: &str, valid: &[Owner], is_link: impl Fn(&str) -> bool) -> Result<()> {
    let doing = "nftables: delete";
    let dead = Dead::new(network, valid);
    remove(doing, false, |socket| {
        let listing = Listing {
            exists: true,
            chains: listing::chains(socket, TABLE)?,
            rules: listing::rules_in(socket, TABLE, PREROUTING)?,
            ..Listing::default()
        };
        Ok(plan::garbage(&listing, &dead, valid, &is_link))
    })
}

/// By which attachments' comments there are filters; those of the reference plugins have none.
///
/// # Errors
/// The kernel's.
pub fn comments(socket: &mut Socket) -> io::Result<Vec<String>> {
    let chains = listing::chains(socket, TABLE)?.into_iter();
    let comments = chains.map(|chain| chain.comment);
    Ok(comments.filter(|comment| !comment.is_empty()).collect())
}

/// Whether the filter is there, and lets through nothing else.
///
/// # Errors
/// [`Error::Missing`] with the first thing that is not as it should be, or the kernel's.
pub fn check(owner: Owner, port: &str, mac: [u8; 6]) -> Result<()> {
    let doing = "nftables: list";
    let want = want(owner, port, mac);
    let mut socket = verbs::open(doing)?;
    let listing = read(&mut socket, &want.whose).map_err(failed(doing))?;
    want.missing(&listing)
        .map_or(Ok(()), |text| Err(Error::Missing(text)))
}

fn want<'a>(owner: Owner, port: &'a str, mac: [u8; 6]) -> Want<'a> {
    let whose = Whose::of(owner);
    Want { whose, port, mac }
}

/// Refuses a chain in the place of the shared one through which frames come elsewhere, or not at
/// all.
fn usable(listing: &Listing) -> Result<()> {
    match listing.chain(PREROUTING).and(plan::missing_shared(listing)) {
        None => Ok(()),
        Some(text) => Err(Error::Unsupported(text)),
    }
}

/// Applies a removal, where there is a table at all.
fn remove(
    doing: &str,
    expected: bool,
    mut plan: impl FnMut(&mut Socket) -> io::Result<Vec<Message>>,
) -> Result<()> {
    let there = Socket::open().and_then(|mut socket| {
        let table = socket.get(&TABLE.get())?;
        Ok(table.map(|_| socket))
    });
    match verbs::or_nothing_there(there, doing, expected)? {
        Some(Some(mut socket)) => {
            verbs::apply(&mut socket, doing, |socket| Ok((plan(socket)?, ())))
        }
        _ => Ok(()),
    }
}

/// The shared chain and those that the attachment may have, without rules.
fn read_chains(socket: &mut Socket, whose: &Whose) -> io::Result<Listing> {
    let mut listing = Listing::default();
    let own = whose.names.iter();
    let own = own.flat_map(Names::chains);
    for name in own.chain([PREROUTING]) {
        let chain = listing::chain(socket, TABLE, name)?;
        listing.chains.extend(chain);
    }
    listing.exists = !listing.chains.is_empty();
    Ok(listing)
}

/// The same with their rules.
fn read(socket: &mut Socket, whose: &Whose) -> io::Result<Listing> {
    let Some(table) = socket.get(&TABLE.get())? else {
        return Ok(Listing::default());
    };
    let mut listing = read_chains(socket, whose)?;
    listing.exists = true;
    listing.dormant = listing::is_dormant(&table);
    for chain in &listing.chains {
        let rules = listing::rules_in(socket, TABLE, &chain.name)?;
        listing.rules.extend(rules);
    }
    Ok(listing)
}
