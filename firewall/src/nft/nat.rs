//! The table `nat`, which iptables of the nft variant keeps, looked at without starting it.

use std::io;

use netlink_packet_netfilter::nftables::{ChainAttribute, NfTablesMessage};

use super::table::{TableName, proto_family};
use super::verbs::is_without_nftables;
use super::wire::{Object, Socket};
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
