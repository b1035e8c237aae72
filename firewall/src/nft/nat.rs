//! The table `nat`, which iptables of the nft variant keeps: read and cleaned without starting it, and
//! also where iptables cannot.

use std::io;

use super::compat;
use super::listing::{self, FoundRule};
use super::table::{TableName, proto_family};
use super::verbs::{self, is_without_nftables};
use super::wire::Socket;
use crate::Result;
use crate::rule::{Family, Listing, Rule};

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

/// The chains of these names that are there, with their rules as iptables prints them; a rule of
/// which that is not known for certain is [`Rule::unknown`].
///
/// # Errors
/// The kernel's; that it has no nf_tables is none.
pub fn list<'a>(family: Family, names: impl IntoIterator<Item = &'a str>) -> io::Result<Listing> {
    look(|socket| {
        let mut listing = Listing::default();
        for name in names {
            if socket.get(&table(family).get_chain(name))?.is_some() {
                let lines = rules(socket, family, name)?.into_iter();
                let lines = lines.map(|found| found.line.unwrap_or_else(|| Rule::unknown(name)));
                listing.add(name, lines);
            }
        }
        Ok(listing)
    })
}

/// Removes chains and the rules that lead to them from the one that `entered_from` says, and returns
/// all these rules as far as they can be told; `None`, and nothing is changed, where one of a chain's
/// own cannot.
///
/// # Errors
/// The kernel's: also where another rule leads to a chain.
pub fn delete(
    family: Family,
    names: &[&str],
    entered_from: impl Fn(&str) -> &'static str,
) -> Result<Option<Vec<Rule>>> {
    let doing = "nftables: delete";
    let table = table(family);
    let mut socket = verbs::open(doing)?;
    verbs::apply(&mut socket, doing, |socket| {
        let (mut batch, mut removed) = (Vec::new(), Vec::new());
        for name in names {
            if socket.get(&table.get_chain(name))?.is_none() {
                continue;
            }
            for found in rules(socket, family, entered_from(name))? {
                if found.target.as_deref() == Some(name) {
                    batch.push(table.delete_rule(entered_from(name), found.handle));
                    removed.extend(found.line);
                }
            }
            for found in rules(socket, family, name)? {
                let Some(line) = found.line else {
                    return Ok((Vec::new(), None));
                };
                removed.push(line);
            }
            batch.extend([table.flush_chain(name), table.delete_chain(name)]);
        }
        Ok((batch, Some(removed)))
    })
}

/// A rule as it was found.
struct Found {
    handle: u64,
    /// `None` where it is not known for certain.
    line: Option<Rule>,
    /// The chain that it leads to.
    target: Option<String>,
}

/// The rules of a chain, in their order.
fn rules(socket: &mut Socket, family: Family, chain: &str) -> io::Result<Vec<Found>> {
    let found = socket.dump(&table(family).get_rules_in(chain))?;
    let mut rules = Vec::new();
    for object in &found {
        // One that was left out would leave no trace in the order of the others.
        let rule = read(family, chain, &object.attributes);
        rules.extend(rule.ok_or(io::ErrorKind::InvalidData)?);
    }
    Ok(rules)
}

/// A rule by its attributes (`NFTA_RULE_*` of linux/netfilter/nf_tables.h), unless it is of another
/// chain, of which older kernels tell as well; `None` where the attributes are none.
fn read(family: Family, chain: &str, attributes: &[u8]) -> Option<Option<Found>> {
    const TABLE: u16 = 1;
    const CHAIN: u16 = 2;
    const HANDLE: u16 = 3;
    const EXPRESSIONS: u16 = 4;
    const USER_DATA: u16 = 7;
    let attributes = compat::attributes(attributes)?;
    let get = |kind| {
        let mut attributes = attributes.iter();
        attributes.find_map(|(found, value)| (*found == kind).then_some(*value))
    };
    let place = (compat::text(get(TABLE)?)?, compat::text(get(CHAIN)?)?);
    if place != (table(family).name, chain) {
        return Some(None);
    }
    let list = get(EXPRESSIONS).unwrap_or_default();
    // What is in there iptables may print as well.
    let line = get(USER_DATA)
        .is_none()
        .then(|| compat::rule(family, chain, list));
    Some(Some(Found {
        handle: u64::from_be_bytes(get(HANDLE)?.try_into().ok()?),
        line: line.flatten(),
        target: compat::target(list).map(str::to_owned),
    }))
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
