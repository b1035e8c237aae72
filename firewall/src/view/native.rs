//! The rules of nf_tables as the kernel holds them, whoever made them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;

use netlink_packet_core::NLA_TYPE_MASK;
use netlink_packet_netfilter::NetfilterProtoFamily;
use netlink_packet_netfilter::nftables::{
    ChainMessage, NfTablesMessage, RuleMessage, SetElementList, SetElementMessage,
};

use super::expression::{self, Member, Reading, Sets};
use super::packet::{Action, Gate, Insertion, Step};
use super::shell::quote;
use crate::nft::message::comment;
use crate::nft::wire::{Message, Object, Socket};
use crate::rule::Family;

/// A hook (`NF_INET_*` of linux/netfilter.h), and the type of its chains that count.
pub type Hook = (u32, &'static str);

/// Where what comes in can be dropped before it is known where it goes.
pub const PREROUTING: Hook = (0, "filter");
/// Where forwarded packets can be dropped.
pub const FORWARD: Hook = (2, "filter");
/// Where what leaves the node can get another source.
pub const POSTROUTING: Hook = (4, "nat");

/// The families of tables that forwarded packets pass, as `nft` names them (`NFPROTO_*` of
/// linux/netfilter.h).
const FAMILIES: [(u8, &str, &[Family]); 3] = [
    (1, "inet", &Family::ALL),
    (2, "ip", &[Family::V4]),
    (10, "ip6", &[Family::V6]),
];

/// A table: its family as `nft` names it, and its name.
type Place = (&'static str, String);

/// Reads what the chains of a hook that `wanted` picks, by family, table and name, decide on packets.
///
/// # Errors
/// The kernel's.
pub fn gates(
    socket: &mut Socket,
    hook: Hook,
    wanted: impl Fn(&str, &str, &str) -> bool,
) -> io::Result<Vec<Gate>> {
    let mut gates = Vec::new();
    for (number, family, families) in FAMILIES {
        let proto = NetfilterProtoFamily::from(number);
        let chains = dump(
            socket,
            proto,
            NfTablesMessage::GetChain(ChainMessage {
                attributes: Vec::new(),
            }),
        )?;
        let chains: Vec<Chain> = chains.iter().map(Chain::read).collect();
        let is_wanted =
            |chain: &&Chain| chain.is_at(hook) && wanted(family, &chain.table, &chain.name);
        let entrances = chains.iter().filter(is_wanted);
        let entrances: Vec<&Chain> = entrances.collect();
        if entrances.is_empty() {
            continue;
        }
        let rules = dump(
            socket,
            proto,
            NfTablesMessage::GetRule(RuleMessage {
                attributes: Vec::new(),
            }),
        )?;
        for entrance in entrances {
            let table = (family, entrance.table.clone());
            let sets = sets(socket, proto, &table, &rules)?;
            let steps = steps(&table, &chains, &rules, &sets);
            gates.push(
                entrance
                    .gate(&table, families, steps)
                    .early_if(hook == PREROUTING),
            );
        }
    }
    Ok(gates)
}

fn dump(
    socket: &mut Socket,
    family: NetfilterProtoFamily,
    body: NfTablesMessage,
) -> io::Result<Vec<Object>> {
    socket.dump(&Message {
        family,
        flags: 0,
        body,
    })
}

/// A chain, by its attributes (`NFTA_CHAIN_*` of linux/netfilter/nf_tables.h).
#[derive(Debug, Default)]
pub struct Chain {
    table: String,
    name: String,
    hook: Option<u32>,
    drops: bool,
    kind: String,
}

impl Chain {
    pub(crate) fn read(object: &Object) -> Chain {
        const TABLE: u16 = 1;
        const NAME: u16 = 3;
        const HOOK: u16 = 4;
        const POLICY: u16 = 5;
        const TYPE: u16 = 7;
        /// `NFTA_HOOK_HOOKNUM`.
        const NUMBER: u16 = 1;
        let mut chain = Chain::default();
        for (kind, value) in attributes(&object.attributes) {
            match kind {
                TABLE => chain.table = text(value),
                NAME => chain.name = text(value),
                HOOK => {
                    let number = attributes(value).find(|(kind, _)| *kind == NUMBER);
                    chain.hook = number.and_then(|(_, value)| number_of(value));
                }
                // `NF_DROP` is 0.
                POLICY => chain.drops = number_of(value) == Some(0),
                TYPE => chain.kind = text(value),
                _ => {}
            }
        }
        chain
    }

    fn is_at(&self, (number, kind): Hook) -> bool {
        self.hook == Some(number) && self.kind == kind
    }

    fn gate(
        &self,
        (family, table): &Place,
        families: &[Family],
        chains: BTreeMap<String, Vec<Step>>,
    ) -> Gate {
        Gate {
            families: families.to_vec(),
            name: format!("nftables, table {family} {table}, chain {}", self.name),
            drops: self.drops,
            entrance: self.name.clone(),
            is_early: false,
            chains,
            insertion: Insertion::Nft {
                table: format!("{family} {}", quote(table)),
            },
        }
    }
}

/// The chains of a table with their rules.
pub fn steps(
    table: &Place,
    chains: &[Chain],
    rules: &[Object],
    sets: &Sets,
) -> BTreeMap<String, Vec<Step>> {
    let own = chains.iter().filter(|chain| chain.table == table.1);
    let mut steps: BTreeMap<String, Vec<Step>> =
        own.map(|chain| (chain.name.clone(), Vec::new())).collect();
    for rule in rules
        .iter()
        .map(Rule::read)
        .filter(|rule| rule.table == table.1)
    {
        let chain = steps.entry(rule.chain.clone()).or_default();
        chain.push(rule.step(table, sets));
    }
    steps
}

/// A rule, by its attributes (`NFTA_RULE_*` of linux/netfilter/nf_tables.h).
#[derive(Debug, Default)]
struct Rule<'a> {
    table: String,
    chain: String,
    handle: u64,
    expressions: &'a [u8],
    comment: String,
}

impl<'a> Rule<'a> {
    fn read(object: &'a Object) -> Rule<'a> {
        const TABLE: u16 = 1;
        const CHAIN: u16 = 2;
        const HANDLE: u16 = 3;
        const EXPRESSIONS: u16 = 4;
        const USER_DATA: u16 = 7;
        let mut rule = Rule::default();
        for (kind, value) in attributes(&object.attributes) {
            match kind {
                TABLE => rule.table = text(value),
                CHAIN => rule.chain = text(value),
                HANDLE => {
                    rule.handle = value.try_into().map(u64::from_be_bytes).unwrap_or_default()
                }
                EXPRESSIONS => rule.expressions = value,
                USER_DATA => rule.comment = comment(value),
                _ => {}
            }
        }
        rule
    }

    fn step(&self, (family, table): &Place, sets: &Sets) -> Step {
        let Reading { conditions, action } = expression::read(self.expressions, sets);
        let (chain, handle) = (&self.chain, self.handle);
        let what = match (&action, self.comment.as_str()) {
            (Action::Drop, "") => "drops".to_owned(),
            (Action::Drop, comment) => format!("({comment}) drops"),
            (Action::Translate, _) => "masquerades".to_owned(),
            _ => String::new(),
        };
        Step {
            conditions,
            action,
            text: format!("rule with handle {handle} of chain {chain} {what}"),
            removal: format!(
                "nft delete rule {family} {} {} handle {handle}",
                quote(table),
                quote(chain)
            ),
        }
    }
}

/// The elements of the sets that the rules of a table ask.
fn sets(
    socket: &mut Socket,
    family: NetfilterProtoFamily,
    table: &Place,
    rules: &[Object],
) -> io::Result<Sets> {
    let mut sets = Sets::new();
    for rule in rules
        .iter()
        .map(Rule::read)
        .filter(|rule| rule.table == table.1)
    {
        for name in expression::sets(rule.expressions) {
            let Entry::Vacant(place) = sets.entry(name) else {
                continue;
            };
            let body = NfTablesMessage::GetSetElement(SetElementMessage {
                attributes: vec![
                    SetElementList::Table(table.1.clone()),
                    SetElementList::Set(place.key().clone()),
                ],
            });
            let found = dump(socket, family, body)?;
            place.insert(members(&found));
        }
    }
    Ok(sets)
}

/// A set's elements; `None` where one has no plain key, as a range of several keys together.
pub fn members(found: &[Object]) -> Option<Vec<Member>> {
    const ELEMENTS: u16 = 3;
    let mut elements = Vec::new();
    for object in found {
        let lists = attributes(&object.attributes).filter(|(kind, _)| *kind == ELEMENTS);
        for (_, element) in lists.flat_map(|(_, list)| attributes(list)) {
            elements.push((key(element)?, expression::verdict(element)));
        }
    }
    let is_of_ranges = elements.iter().any(|((_, is_end), _)| *is_end);
    Some(match is_of_ranges {
        true => ranges(elements),
        false => {
            let elements = elements.into_iter();
            let member = |((key, _), action)| Member {
                key,
                last: None,
                action,
            };
            elements.map(member).collect()
        }
    })
}

/// A key, and whether it is the first one behind a range.
type Key = (Vec<u8>, bool);

/// Each range goes on until the next key, whether that ends it or begins another.
fn ranges(mut elements: Vec<(Key, Option<Action>)>) -> Vec<Member> {
    elements.sort_by(|((a, a_ends), _), ((b, b_ends), _)| (a, !a_ends).cmp(&(b, !b_ends)));
    let mut ranges: Vec<Member> = Vec::new();
    let mut is_open = false;
    for ((key, is_end), action) in elements {
        if let Some(range) = ranges.last_mut().filter(|_| is_open) {
            range.last = Some(before(&key));
        }
        is_open = !is_end;
        if !is_end {
            let last = Some(vec![u8::MAX; key.len()]);
            ranges.push(Member { key, last, action });
        }
    }
    ranges
}

/// The key before another, as numbers in the order of the network; all zeros have none.
fn before(key: &[u8]) -> Vec<u8> {
    let mut before = key.to_vec();
    for byte in before.iter_mut().rev() {
        let (less, borrows) = byte.overflowing_sub(1);
        *byte = less;
        if !borrows {
            break;
        }
    }
    before
}

/// `NFTA_SET_ELEM_*`: the key's value, of an element that has no end of its own.
fn key(element: &[u8]) -> Option<Key> {
    const KEY: u16 = 1;
    const FLAGS: u16 = 3;
    const KEY_END: u16 = 10;
    /// `NFTA_DATA_VALUE`.
    const VALUE: u16 = 1;
    /// `NFT_SET_ELEM_INTERVAL_END`.
    const END: u32 = 1;
    let (mut found, mut is_end) = (None, false);
    for (kind, value) in attributes(element) {
        match kind {
            KEY => {
                let value = attributes(value).find(|(kind, _)| *kind == VALUE);
                found = value.map(|(_, bytes)| bytes.to_vec());
            }
            FLAGS if number_of(value) == Some(END) => is_end = true,
            FLAGS if number_of(value) == Some(0) => {}
            FLAGS | KEY_END => return None,
            _ => {}
        }
    }
    Some((found?, is_end))
}

/// Kinds and values.
pub(super) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    // Not the iterator's own values, which live no longer than it.
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let [a, b, c, d, ..] = *rest else { return None };
        let length = usize::from(u16::from_ne_bytes([a, b]));
        let kind = u16::from_ne_bytes([c, d]) & NLA_TYPE_MASK;
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .trim_end_matches('\0')
        .to_owned()
}

pub(super) fn number_of(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().map(u32::from_be_bytes).ok()
}
