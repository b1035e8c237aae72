//! What to send for a filter that is wanted, or is to go, given what is there: pure.

use std::collections::{BTreeMap, BTreeSet};

use netlink_packet_netfilter::NetfilterProtoFamily;
use netlink_packet_netfilter::nftables::InetHookNumber;

use super::names::Names;
use crate::Owner;
use crate::nft::expr::{self, Part};
use crate::nft::listing::{FoundChain, FoundRule, Listing};
use crate::nft::plan::{missing_chain, not_found};
use crate::nft::read;
use crate::nft::table::{Chain, Hook, HookKind, TableName};
use crate::nft::tag::{Dead, Tag};
use crate::nft::wire::Message;

/// Where filters are.
pub const TABLE: TableName = TableName {
    family: NetfilterProtoFamily::Bridge,
    name: "nat",
};

/// The chain that leads to all filters.
pub const PREROUTING: &str = "PREROUTING";

/// That chain, which is all that attachments share.
pub fn shared() -> Chain {
    /// `NF_BR_PRI_NAT_DST_BRIDGED` of linux/netfilter_bridge.h.
    const PRIORITY: i32 = -300;
    Chain {
        name: PREROUTING.to_owned(),
        hook: Some(Hook {
            kind: HookKind::Filter,
            number: InetHookNumber::PreRouting,
            priority: PRIORITY,
        }),
        rules: Vec::new(),
    }
}

/// What is wrong with what attachments share.
pub fn missing_shared(listing: &Listing) -> Option<String> {
    missing_chain(&shared(), listing.chain(PREROUTING), TABLE)
}

/// Whose a filter is, and what it may be called.
#[derive(Debug, Clone)]
pub struct Whose {
    /// The comment of its chains, which says more than their names do.
    tag: Tag,
    /// The best first.
    pub names: Vec<Names>,
}

impl Whose {
    /// The attachment's.
    pub fn of(owner: Owner) -> Whose {
        Whose {
            tag: Tag::of(owner),
            names: Names::of(owner),
        }
    }

    /// Whether a chain may be the attachment's by its comment. The reference plugins' have none.
    fn may_own(&self, chain: &FoundChain) -> bool {
        chain.comment.is_empty() || self.tag.owns(&chain.comment)
    }

    /// Whether a name is free, or the attachment's.
    fn may_use(&self, name: &str, listing: &Listing) -> bool {
        let found = listing.chain(name);
        found.is_none_or(|chain| self.may_own(chain))
    }

    /// Names that no other attachment has; those that are in use, if any are.
    fn chosen(&self, listing: &Listing) -> Option<&Names> {
        let free = |names: &&Names| {
            let mut both = names.chains().into_iter();
            both.all(|name| self.may_use(name, listing))
        };
        let in_use = |names: &&Names| listing.chain(&names.frames).is_some();
        let mut candidates = self.names.iter().filter(free);
        candidates.clone().find(in_use).or(candidates.next())
    }

    /// Removes whatever filter the attachment has.
    pub fn removal(&self, listing: &Listing) -> Vec<Message> {
        let is_ours = |chain: &FoundChain| {
            let name = chain.name.as_str();
            let named = self
                .names
                .iter()
                .any(|names| names.chains().contains(&name));
            named && self.may_own(chain)
        };
        let leads_to_ours = |rule: &FoundRule| {
            let named = |names: &&Names| {
                rule.comment == names.comment || rule.target() == Some(&names.frames)
            };
            let names = self.names.iter().find(named);
            names.is_some_and(|names| self.may_use(&names.frames, listing))
        };
        removal(listing, leads_to_ours, is_ours)
    }
}

/// What an attachment may send.
#[derive(Debug, Clone)]
pub struct Want<'a> {
    /// Whose it is.
    pub whose: Whose,
    /// Name of the host's end of the veth pair, where its frames come in.
    pub port: &'a str,
    /// The one source that they may have.
    pub mac: [u8; 6],
}

impl Want<'_> {
    /// The chains, with their rules.
    fn chains(&self, names: &Names) -> [Chain; 2] {
        let chain = |name: &str, rules: Vec<Part>| Chain {
            name: name.to_owned(),
            hook: None,
            rules,
        };
        let known = Part::all([expr::source_mac_is(self.mac), expr::back()]);
        [
            chain(&names.sources, vec![known, expr::drop_it()]),
            chain(&names.frames, vec![expr::jump(&names.sources)]),
        ]
    }

    /// The rule that leads there.
    fn entry(&self, names: &Names) -> Part {
        let comes_in = expr::input_is(self.port, false);
        Part::all([comes_in, expr::jump(&names.frames)])
    }

    /// Makes the filter in place of what the attachment had before, and what attachments share where
    /// it is missing.
    pub fn addition(&self, listing: &Listing) -> Vec<Message> {
        let mut batch = Vec::new();
        if listing.chain(PREROUTING).is_none() {
            batch.extend([TABLE.add(), TABLE.add_chain(&shared())]);
        }
        batch.extend(self.whose.removal(listing));
        // The last one, a hash, is no other's.
        let names = self.whose.chosen(listing).or(self.whose.names.last());
        let Some(names) = names else { return batch };
        for chain in self.chains(names) {
            batch.push(TABLE.create_chain(&chain.name, &self.whose.tag.comment));
            for part in &chain.rules {
                batch.push(TABLE.add_rule(&chain.name, part, &names.comment));
            }
        }
        batch.push(TABLE.add_rule(PREROUTING, &self.entry(names), &names.comment));
        batch
    }

    /// The first thing that is not as it should be. Rules of others are fine, but for one in front
    /// of the attachment's own in its chains, which they would come too late behind.
    pub fn missing(&self, listing: &Listing) -> Option<String> {
        if !listing.exists {
            return Some(format!("table {TABLE} not found"));
        }
        if listing.dormant {
            return Some(format!("table {TABLE} is dormant"));
        }
        let names = self.whose.chosen(listing).or(self.whose.names.last())?;
        missing_shared(listing)
            .or_else(|| {
                let mut chains = self.chains(names).into_iter().rev();
                chains.find_map(|chain| missing_in(&chain, names, listing))
            })
            .or_else(|| {
                let entry = self.entry(names);
                let mut rules = listing.rules_in(PREROUTING);
                let found = rules.any(|rule| is(rule, &entry, names));
                (!found).then(|| not_found(&entry.text, PREROUTING, TABLE))
            })
    }
}

fn missing_in(chain: &Chain, names: &Names, listing: &Listing) -> Option<String> {
    let gone = missing_chain(chain, listing.chain(&chain.name), TABLE);
    gone.or_else(|| {
        let mut found = listing.rules_in(&chain.name);
        let gone = |part: &&Part| !found.next().is_some_and(|rule| is(rule, part, names));
        let part = chain.rules.iter().find(gone)?;
        Some(not_found(&part.text, &chain.name, TABLE))
    })
}

/// By its comment, too: a reference plugin finds nothing else.
fn is(rule: &FoundRule, part: &Part, names: &Names) -> bool {
    rule.comment == names.comment && expr::are(&rule.expressions, &part.expressions)
}

/// Removes what attachments of a network have left that are no more: all but the `valid` ones. A
/// filter that does not say of which network it is, as the reference plugins make them, goes where
/// no link is left that it is for (`is_link`), since nothing can be using it.
pub fn garbage(
    listing: &Listing,
    dead: &Dead,
    valid: &[Owner],
    is_link: impl Fn(&str) -> bool,
) -> Vec<Message> {
    let chains = listing.chains.iter();
    let chains: BTreeMap<_, _> = chains.map(|chain| (chain.name.as_str(), chain)).collect();
    let idle = idle(listing, &chains, valid, is_link);
    let is_dead = |chain: &FoundChain| dead.owns(&chain.comment);
    let left: BTreeSet<&str> = idle.values().flat_map(Names::chains).collect();
    removal(
        listing,
        |rule| {
            let chain = rule.target().and_then(|name| chains.get(name));
            chain.is_some_and(|chain| is_dead(chain)) || idle.contains_key(rule.comment.as_str())
        },
        |chain| {
            let says_nothing = chain.comment.is_empty();
            is_dead(chain) || says_nothing && left.contains(chain.name.as_str())
        },
    )
}

/// The filters that do not say whose they are, and are for no link that is there, by the comments of
/// their rules.
fn idle<'a>(
    listing: &'a Listing,
    chains: &BTreeMap<&str, &FoundChain>,
    valid: &[Owner],
    is_link: impl Fn(&str) -> bool,
) -> BTreeMap<&'a str, Names> {
    let valid = valid.iter().copied().flat_map(Names::of);
    let valid: BTreeSet<String> = valid.map(|names| names.comment).collect();
    let mut idle = BTreeMap::new();
    for rule in listing.rules_in(PREROUTING) {
        let Some(names) = Names::of_comment(&rule.comment) else {
            continue;
        };
        let chain = chains.get(names.frames.as_str());
        let says_nothing = chain.is_none_or(|chain| chain.comment.is_empty());
        let may_be_used = || read::input(&rule.expressions).is_none_or(&is_link);
        let entry = idle.entry(rule.comment.as_str()).or_insert(Some(names));
        if !says_nothing || valid.contains(&rule.comment) || may_be_used() {
            *entry = None;
        }
    }
    let some = |(comment, names): (_, Option<Names>)| Some((comment, names?));
    idle.into_iter().filter_map(some).collect()
}

/// Removes rules that lead to filters, and chains to which no other leads.
fn removal(
    listing: &Listing,
    goes: impl Fn(&FoundRule) -> bool,
    is_chain: impl Fn(&FoundChain) -> bool,
) -> Vec<Message> {
    let entries = listing.rules_in(PREROUTING);
    let (gone, kept): (Vec<_>, Vec<_>) = entries.partition(|rule| goes(rule));
    let in_use: BTreeSet<&str> = kept.into_iter().filter_map(|rule| rule.target()).collect();
    let chains = listing.chains.iter().filter(|chain| is_chain(chain));
    // A chain of frames comes before that of sources, to which its rule leads.
    let names: BTreeSet<&str> = chains.map(|chain| chain.name.as_str()).collect();
    let rules = gone.iter();
    let rules = rules.map(|rule| TABLE.delete_rule(PREROUTING, rule.handle));
    let chains = names
        .difference(&in_use)
        .map(|name| TABLE.delete_chain(name));
    rules.chain(chains).collect()
}
