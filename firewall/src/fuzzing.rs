//! What the kernel and the programs of iptables say, read as every verb reads it. For fuzzing, and for
//! tests of what that has found.

use netlink_packet_core::NetlinkPayload;

use crate::garbage::Garbage;
use crate::masquerade;
use crate::nft::wire::{Object, messages};
use crate::nft::{listing, read};
use crate::rule::{self, Family, Listing};
use crate::ruleset;
use crate::view::expression::Sets;
use crate::view::native::{self, Chain};
use crate::view::{Packet, View};

/// Reads a datagram of nf_tables.
pub fn nftables(bytes: &[u8]) {
    let objects: Vec<Object> = messages(bytes)
        .into_iter()
        .filter_map(|(_, payload)| match payload {
            NetlinkPayload::InnerMessage(object) => Some(object),
            _ => None,
        })
        .collect();
    for object in &objects {
        listing::is_dormant(object);
        listing::read_chain(object, "cni");
        for entry in listing::read_elements(&object.attributes) {
            read::entry(&entry);
        }
        if let Some(rule) = listing::read_rule(object) {
            rule.target();
            read::rule(&rule.expressions);
            read::input(&rule.expressions);
        }
    }
    let chains: Vec<Chain> = objects.iter().map(Chain::read).collect();
    let members = native::members(&objects);
    let sets = Sets::from([("set".to_owned(), members)]);
    native::steps(&("ip", "table".to_owned()), &chains, &objects, &sets);
}

/// Reads what `iptables-save` or `iptables -S` has printed.
///
/// # Panics
/// A line that is made of it is more than one, or says something else when it is read again.
pub fn iptables(text: &str) {
    let listing = Listing::parse(text);
    let garbage = Garbage::new(masquerade::KIND, "net", &[]);
    let (batch, rules) = ruleset::removal(&listing, garbage.chains(&listing));
    assert!(batch.iter().all(|line| !line.contains('\n')), "{batch:?}");
    for rule in rules.iter().chain(listing.rules()) {
        drop((rule.target(), rule.value_of("--comment")));
        ruleset::addresses_of(&listing, rule.chain());
    }
    for word in text.lines().flat_map(rule::words) {
        assert_eq!(rule::words(&rule::quote(&word)), [word]);
    }
    let packet = Packet {
        input: "cni0".to_owned(),
        output: "eth0".to_owned(),
        source: [10, 1, 0, 2].into(),
        destination: [192, 0, 2, 1].into(),
    };
    for table in ["filter", "nat"] {
        let view = View::default().with_table(Family::V4, "iptables", table, text);
        view.exit(&packet);
        view.garbage("net", &[]);
        for gate in &view.gates {
            gate.drops(&packet, rule::multicast(Family::V4));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    fn corpus(target: &str) -> Vec<Vec<u8>> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus");
        let files = fs::read_dir(format!("{folder}/{target}")).unwrap();
        let read = |file: std::io::Result<fs::DirEntry>| fs::read(file.unwrap().path()).unwrap();
        files.map(read).collect()
    }

    /// Of a real node, and what fuzzing has found; each cut everywhere, and with each byte another.
    #[test]
    fn no_datagram_of_the_corpus_makes_a_panic() {
        for bytes in corpus("nftables") {
            super::nftables(&bytes);
            // The first messages are enough: a datagram has many of the same.
            let bytes = &bytes[..bytes.len().min(600)];
            for at in 0..bytes.len() {
                super::nftables(&bytes[..at]);
                for byte in [0, 1, 0x7f, 0xff] {
                    let mut other = bytes.to_vec();
                    other[at] = byte;
                    super::nftables(&other);
                }
            }
        }
    }

    #[test]
    fn no_rules_of_the_corpus_make_a_panic() {
        for bytes in corpus("iptables") {
            let text = String::from_utf8_lossy(&bytes);
            super::iptables(&text);
            for (at, _) in text.char_indices().step_by(7) {
                super::iptables(&text[..at]);
                super::iptables(&text[at..]);
            }
        }
    }
}
