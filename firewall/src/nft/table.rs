//! Tables, chains, sets, rules and elements as values.

use std::fmt;

use netlink_packet_netfilter::NetfilterProtoFamily;
use netlink_packet_netfilter::nftables::{DataAttribute, InetHookNumber};

use super::expr::Part;
use super::field::Field;
use crate::rule::Family;

/// The family's number in netfilter.
pub fn proto_family(family: Family) -> NetfilterProtoFamily {
    match family {
        Family::V4 => NetfilterProtoFamily::IPv4,
        Family::V6 => NetfilterProtoFamily::IPv6,
    }
}

/// Which table: a name counts for one family only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableName {
    /// The family.
    pub family: NetfilterProtoFamily,
    /// The name.
    pub name: &'static str,
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = match self.family {
            NetfilterProtoFamily::IPv4 => "ip",
            NetfilterProtoFamily::IPv6 => "ip6",
            NetfilterProtoFamily::Bridge => "bridge",
            _ => "inet",
        };
        write!(f, "{family} {}", self.name)
    }
}

/// A table with all that attachments share in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Which it is.
    pub name: TableName,
    /// The family that its sets and rules speak of.
    pub family: Family,
    /// Its sets and maps.
    pub sets: Vec<Set>,
    /// Its chains, each behind those that it jumps to.
    pub chains: Vec<Chain>,
}

/// A set, or a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Set {
    /// Its name.
    pub name: &'static str,
    /// What its keys are made of.
    pub key: Vec<Field>,
    /// What it leads to.
    pub value: Value,
}

/// What a set leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    /// Nothing: no map.
    None,
    /// A verdict.
    Verdict,
    /// An address and a port.
    Target,
}

/// A chain with its shared rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// Its name.
    pub name: String,
    /// Where packets enter it; `None` where rules lead to it.
    pub hook: Option<Hook>,
    /// Its rules in their order.
    pub rules: Vec<Part>,
}

/// A place where packets enter a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hook {
    /// What for.
    pub kind: HookKind,
    /// Which one; those of bridges have the same numbers (`NF_BR_*` of linux/netfilter_bridge.h).
    pub number: InetHookNumber,
    /// The lower, the earlier: `NF_IP_PRI_*` of linux/netfilter_ipv4.h, `NF_BR_PRI_*` of
    /// linux/netfilter_bridge.h.
    pub priority: i32,
}

/// What a chain with a hook is for: its type, as the kernel calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookKind {
    /// Network address translation.
    Nat,
    /// Anything.
    Filter,
}

impl HookKind {
    /// `NFTA_CHAIN_TYPE` of linux/netfilter/nf_tables.h.
    pub fn name(self) -> &'static str {
        match self {
            HookKind::Nat => "nat",
            HookKind::Filter => "filter",
        }
    }

    /// The one of that name.
    pub fn of_name(name: &str) -> Option<HookKind> {
        let all = [HookKind::Nat, HookKind::Filter];
        all.into_iter().find(|kind| kind.name() == name)
    }
}

/// A rule of one attachment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Where it is.
    pub chain: &'static str,
    /// What it does.
    pub part: Part,
}

/// An element of one attachment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element {
    /// As `nft` prints it.
    pub text: String,
    /// What the kernel holds.
    pub entry: Entry,
}

/// An element as the kernel holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Name of the set.
    pub set: String,
    /// The key.
    pub key: Vec<u8>,
    /// What it leads to, in a map.
    pub value: Option<DataAttribute>,
    /// Whose it is.
    pub comment: String,
}

/// Where an element is: its set, and its key.
pub type Place<'a> = (&'a str, &'a [u8]);

impl Entry {
    /// Where it is: no two are at one place.
    pub fn place(&self) -> Place<'_> {
        (&self.set, &self.key)
    }
}

/// The bytes of a key, each field padded to whole registers.
pub fn key<'a>(fields: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut key = Vec::new();
    for field in fields {
        key.extend_from_slice(field);
        key.resize(key.len().next_multiple_of(4), 0);
    }
    key
}
