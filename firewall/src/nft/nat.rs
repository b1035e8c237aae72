//! The table `nat`, which iptables of the nft variant keeps, looked at without starting it, and
//! cleaned where iptables cannot.

use std::io;

use netlink_packet_netfilter::nftables::{
    ChainAttribute, DataAttribute, Expressions, Immediate, NfTablesMessage, VerdictAttribute,
};

use super::listing::{self, FoundRule};
use super::table::{TableName, proto_family};
use super::verbs::{self, is_without_nftables};
use super::wire::{Object, Socket};
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
        // The kernel cannot be asked for those of one table.
        let all = socket.dump(&table(family).get_chains_of_family())?;
        Ok(all
            .iter()
            .filter_map(|chain| name_in(chain, table(family).name))
            .collect())
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
        let to_them = rules.iter().filter(|rule| leads_to(rule, names));
        let entries = to_them.map(|rule| table.delete_rule(&rule.chain, rule.handle));
        Ok((entries.chain(chains).collect(), ()))
    })
}

/// Whether a rule jumps or goes to one of the chains.
fn leads_to(rule: &FoundRule, names: &[&str]) -> bool {
    let of_verdict = |attribute: &Immediate| match attribute {
        Immediate::Data(DataAttribute::Verdict(parts)) => parts.iter().any(|part| {
            let VerdictAttribute::Chain(chain) = part else {
                return false;
            };
            names.contains(&chain.as_str())
        }),
        _ => false,
    };
    rule.expressions.iter().any(|expression| match expression {
        Expressions::Immediate(attributes) => attributes.iter().any(of_verdict),
        _ => false,
    })
}

fn look<T: Default>(look: impl FnOnce(&mut Socket) -> io::Result<T>) -> io::Result<T> {
    match Socket::open().and_then(|mut socket| look(&mut socket)) {
        Err(error) if is_without_nftables(&error) => Ok(T::default()),
        found => found,
    }
}

/// The name of a chain of that table.
fn name_in(chain: &Object, table: &str) -> Option<String> {
    let Some(NfTablesMessage::NewChain(message)) = chain.decode() else {
        return None;
    };
    let mut found = None;
    let mut is_there = false;
    for attribute in message.attributes {
        match attribute {
            ChainAttribute::Table(name) => is_there = name == table,
            ChainAttribute::Name(name) => found = Some(name),
            _ => {}
        }
    }
    found.filter(|_| is_there)
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::{NetlinkDeserializable, NetlinkHeader};

    use super::*;

    #[test]
    fn only_chains_of_the_table_are_named() {
        let chain = |kind: u16, table: u8, name: u8| {
            let mut header = NetlinkHeader::default();
            header.message_type = kind;
            // nfgenmsg, NFTA_CHAIN_TABLE, NFTA_CHAIN_NAME
            let mut body = vec![2, 0, 0, 0];
            for (kind, value) in [
                (1_u16, &[table, b'a', b't', 0][..]),
                (3, &[name, b'a', b't', 0][..]),
            ] {
                body.extend(8_u16.to_ne_bytes());
                body.extend(kind.to_ne_bytes());
                body.extend(value);
            }
            name_in(&Object::deserialize(&header, &body).unwrap(), "nat")
        };
        assert_eq!(chain(0xa03, b'n', b'c').as_deref(), Some("cat"));
        assert_eq!(chain(0xa03, b'r', b'c'), None);
        assert_eq!(chain(0xa00, b'n', b'c'), None);
    }
}
