//! The table `nat`, which iptables of the nft variant keeps, looked at without starting it, and
//! cleaned where iptables cannot.

use std::io;

use super::listing::{self, FoundRule};
use super::table::{TableName, proto_family};
use super::verbs::{self, is_without_nftables};
use super::wire::Socket;
use crate::Result;
use crate::rule::Family;

fn table(family: Family) -> TableName {
    TableName {
        family: proto_family(family),
        name: "nat",
    }
}

/// Whether one of the chains is there.
///
/// # Errors
/// The kernel's; that it has no nf_tables is none.
pub fn has_chain(family: Family, names: &[&str]) -> io::Result<bool> {
    look(|socket| {
        for name in names {
            if socket.get(&table(family).get_chain(name))?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    })
}

/// The names of all chains.
///
/// # Errors
/// The kernel's; that it has no nf_tables is none.
pub fn chains(family: Family) -> io::Result<Vec<String>> {
    look(|socket| {
        let chains = listing::chains(socket, table(family))?;
        Ok(chains.into_iter().map(|chain| chain.name).collect())
    })
}

/// Removes chains and all rules that lead to them. iptables lists nothing of a table to which
/// another program has added what iptables has no words for; the kernel does.
///
/// # Errors
/// The kernel's.
pub fn remove(family: Family, names: &[&str]) -> Result<()> {
    let doing = "nftables: delete";
    let table = table(family);
    let mut socket = verbs::open(doing)?;
    verbs::change(&mut socket, doing, |socket| {
        let mut chains = Vec::new();
        for name in names {
            if socket.get(&table.get_chain(name))?.is_some() {
                chains.extend([table.flush_chain(name), table.delete_chain(name)]);
            }
        }
        let rules = listing::rules(socket, table)?;
        let leads_to_them = |rule: &&FoundRule| rule.target().is_some_and(|to| names.contains(&to));
        let to_them = rules.iter().filter(leads_to_them);
        let entries = to_them.map(|rule| table.delete_rule(&rule.chain, rule.handle));
        Ok((entries.chain(chains).collect(), ()))
    })
}

fn look<T: Default>(look: impl FnOnce(&mut Socket) -> io::Result<T>) -> io::Result<T> {
    match Socket::open().and_then(|mut socket| look(&mut socket)) {
        Err(error) if is_without_nftables(&error) => Ok(T::default()),
        found => found,
    }
}
