//! What one attachment should have in one family's table `nat`, and the batches of lines for
//! `iptables-restore` that make it so, repair it or remove it.

use std::collections::{BTreeSet, HashSet};

use crate::rule::{Listing, Rule};

/// What one attachment should have in one family's table `nat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleSet {
    /// The attachment's own chain.
    pub chain: String,
    /// Its rules, in their order.
    pub own: Vec<Rule>,
    /// The rules of other chains that lead to it.
    pub entries: Vec<Rule>,
    /// Whether the entries hold words of the configuration, of which nobody knows how
    /// `iptables-save` will print them: CHECK then also asks the program for them.
    pub foreign_words: bool,
    /// What it shares with all other attachments.
    pub shared: Shared,
}

/// Chains and rules that all attachments share: made by the first one, never removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shared {
    /// Chains, made where they are not there.
    pub chains: Vec<&'static str>,
    /// Rules, each with its place.
    pub rules: Vec<(Rule, Place)>,
}

/// Where a shared rule goes when it is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In front of all others.
    First,
    /// Behind all others.
    Last,
}

impl RuleSet {
    /// The batch of an attachment that is new on a node that has served one before. Its first
    /// lines are refused, and with them all others, where a shared rule is missing; the `-N` where
    /// the attachment has rules already.
    pub fn first_batch(&self) -> Vec<String> {
        let shared = self.shared.rules.iter().map(|(rule, _)| rule.test());
        shared
            .chain([format!("-N {}", self.chain)])
            .chain(self.additions())
            .collect()
    }

    /// The batch for a table as listed: makes what is missing of the shared objects, replaces what
    /// the attachment has.
    pub fn repair_batch(&self, listing: &Listing) -> Vec<String> {
        // `:CHAIN -` would flush a shared chain that has come into being since the listing.
        let chains = self.shared.chains.iter();
        let chains = chains.filter(|chain| !listing.has_chain(chain));
        let rules = self.shared.rules.iter();
        let rules = rules.filter(|(rule, _)| !listing.has(rule));
        let stale = listing.rules_to(&self.chain).map(Rule::delete);
        chains
            .map(|chain| format!("-N {chain}"))
            .chain(rules.map(|(rule, place)| match place {
                Place::First => rule.prepend(),
                Place::Last => rule.append().to_owned(),
            }))
            .chain(stale)
            .chain([format!(":{} - [0:0]", self.chain)])
            .chain(self.additions())
            .collect()
    }

    fn additions(&self) -> impl Iterator<Item = String> {
        self.own
            .iter()
            .chain(&self.entries)
            .map(|rule| rule.append().to_owned())
    }

    /// The chains that [`RuleSet::missing`] looks at.
    pub fn chains(&self) -> BTreeSet<&str> {
        let shared = self.shared.rules.iter().map(|(rule, _)| rule);
        let rules = shared.chain(&self.entries).map(Rule::chain);
        let chains = self.shared.chains.iter().copied();
        chains.chain([self.chain.as_str()]).chain(rules).collect()
    }

    /// The first thing that is not as it should be. Rules of others are fine, but not in front of
    /// ours or between them in the attachment's own chain.
    pub fn missing(&self, listing: &Listing) -> Option<String> {
        let absent = |rule: &&Rule| !listing.has(rule);
        let chains = self.shared.chains.iter().copied();
        let mut chains = chains.chain([self.chain.as_str()]);
        if let Some(chain) = chains.find(|chain| !listing.has_chain(chain)) {
            return Some(format!("chain {chain} not found in iptables table nat"));
        }
        if let Some(rule) = self.shared.rules.iter().map(|(rule, _)| rule).find(absent) {
            return Some(not_found(rule));
        }
        if let Some(rule) = self
            .entries
            .iter()
            .find(|rule| !self.has_entry(listing, rule))
        {
            return Some(not_found(rule));
        }
        let mut there = listing.rules_in(&self.chain);
        self.own.iter().find_map(|rule| match there.next() {
            Some(found) if found == rule => None,
            Some(found) if listing.has(rule) => Some(format!(
                "rule [{rule}] in chain {}: [{found}] is in its place",
                self.chain
            )),
            _ => Some(not_found(rule)),
        })
    }

    /// Whether an entry is there; of one with foreign words, all that is our own of it.
    fn has_entry(&self, listing: &Listing, entry: &Rule) -> bool {
        let same = |found: &Rule| {
            let options = ["-p", "--comment", "--dports"];
            options
                .iter()
                .all(|option| found.value_of(option) == entry.value_of(option))
        };
        listing.has(entry)
            || self.foreign_words
                && listing
                    .rules_to(&self.chain)
                    .any(|found| found.chain() == entry.chain() && same(found))
    }
}

/// That a rule is not there, in the words of the reference plugins.
pub fn not_found(rule: &Rule) -> String {
    format!(
        "rule [{rule}] in chain {} not found in table nat",
        rule.chain()
    )
}

/// The batch that removes a chain and all that leads to it, and the rules that go with it; both
/// empty where it is not there.
fn removal_batch(listing: &Listing, chain: &str) -> (Vec<String>, Vec<Rule>) {
    if !listing.has_chain(chain) {
        return (Vec::new(), Vec::new());
    }
    let entries: Vec<_> = listing.rules_to(chain).cloned().collect();
    let mut batch: Vec<_> = entries.iter().map(Rule::delete).collect();
    batch.extend([format!("-F {chain}"), format!("-X {chain}")]);
    let own = listing.rules_in(chain).cloned();
    (batch, entries.into_iter().chain(own).collect())
}

/// As [`removal_batch`], for several chains.
pub fn removal(
    listing: &Listing,
    chains: impl IntoIterator<Item = impl AsRef<str>>,
) -> (Vec<String>, Vec<Rule>) {
    let (mut batch, mut rules) = (Vec::new(), Vec::new());
    for chain in chains {
        let (lines, gone) = removal_batch(listing, chain.as_ref());
        batch.extend(lines);
        rules.extend(gone);
    }
    (batch, rules)
}

/// The addresses that a chain's rules are about: sources of the rules that lead to it, and where
/// its own rules send packets. As text, without prefix or port.
pub fn addresses_of(listing: &Listing, chain: &str) -> HashSet<String> {
    let sources = listing
        .rules_to(chain)
        .filter(|rule| rule.chain() == "POSTROUTING")
        .filter_map(|rule| rule.value_of("-s"));
    let destinations = listing
        .rules_in(chain)
        .filter_map(|rule| rule.value_of("--to-destination"));
    sources
        .filter_map(|net| Some(net.split_once('/')?.0.to_owned()))
        .chain(destinations.filter_map(|to| {
            let (address, _port) = to.rsplit_once(':')?;
            Some(address.trim_matches(['[', ']']).to_owned())
        }))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set() -> RuleSet {
        RuleSet {
            chain: "CNI-DN-a".to_owned(),
            own: vec![
                Rule::new("CNI-DN-a", "-p tcp -j CNI-HOSTPORT-SETMARK"),
                Rule::new("CNI-DN-a", "-p tcp -j DNAT --to-destination 10.0.0.2:80"),
            ],
            entries: vec![Rule::new("CNI-HOSTPORT-DNAT", "-p tcp -j CNI-DN-a")],
            foreign_words: false,
            shared: Shared {
                chains: vec!["CNI-HOSTPORT-DNAT"],
                rules: vec![
                    (
                        Rule::new("POSTROUTING", "-j CNI-HOSTPORT-MASQ"),
                        Place::First,
                    ),
                    (Rule::new("PREROUTING", "-j CNI-HOSTPORT-DNAT"), Place::Last),
                ],
            },
        }
    }

    const COMPLETE: &str = "-P PREROUTING ACCEPT\n-P POSTROUTING ACCEPT\n\
        -N CNI-DN-a\n-N CNI-HOSTPORT-DNAT\n\
        -A PREROUTING -j CNI-HOSTPORT-DNAT\n-A POSTROUTING -j CNI-HOSTPORT-MASQ\n\
        -A CNI-DN-a -p tcp -j CNI-HOSTPORT-SETMARK\n\
        -A CNI-DN-a -p tcp -j DNAT --to-destination 10.0.0.2:80\n\
        -A CNI-HOSTPORT-DNAT -p tcp -j CNI-DN-a\n";

    #[test]
    fn the_first_batch_begins_with_what_must_be_there() {
        assert_eq!(
            set().first_batch(),
            [
                "-C POSTROUTING -j CNI-HOSTPORT-MASQ",
                "-C PREROUTING -j CNI-HOSTPORT-DNAT",
                "-N CNI-DN-a",
                "-A CNI-DN-a -p tcp -j CNI-HOSTPORT-SETMARK",
                "-A CNI-DN-a -p tcp -j DNAT --to-destination 10.0.0.2:80",
                "-A CNI-HOSTPORT-DNAT -p tcp -j CNI-DN-a",
            ]
        );
    }

    #[test]
    fn repair_makes_all_on_an_empty_table() {
        let batch = set().repair_batch(&Listing::default());
        assert_eq!(
            batch.get(..4),
            Some(
                [
                    "-N CNI-HOSTPORT-DNAT",
                    "-I POSTROUTING 1 -j CNI-HOSTPORT-MASQ",
                    "-A PREROUTING -j CNI-HOSTPORT-DNAT",
                    ":CNI-DN-a - [0:0]",
                ]
                .map(str::to_owned)
                .as_slice()
            )
        );
        assert_eq!(batch.len(), 7);
    }

    #[test]
    fn repair_replaces_what_the_attachment_has() {
        let stale = COMPLETE.to_owned() + "-A CNI-HOSTPORT-DNAT -p udp -j CNI-DN-a\n";
        assert_eq!(
            set().repair_batch(&Listing::parse(&stale)),
            [
                "-D CNI-HOSTPORT-DNAT -p tcp -j CNI-DN-a",
                "-D CNI-HOSTPORT-DNAT -p udp -j CNI-DN-a",
                ":CNI-DN-a - [0:0]",
                "-A CNI-DN-a -p tcp -j CNI-HOSTPORT-SETMARK",
                "-A CNI-DN-a -p tcp -j DNAT --to-destination 10.0.0.2:80",
                "-A CNI-HOSTPORT-DNAT -p tcp -j CNI-DN-a",
            ]
        );
    }

    #[test]
    fn check_notices_each_line_that_is_gone() {
        assert_eq!(set().missing(&Listing::parse(COMPLETE)), None);
        for gone in COMPLETE.lines().filter(|line| !line.starts_with("-P")) {
            let rest: Vec<_> = COMPLETE.lines().filter(|line| *line != gone).collect();
            let missing = set().missing(&Listing::parse(&rest.join("\n")));
            let name = gone.strip_prefix("-N ").unwrap_or(gone);
            assert!(missing.is_some_and(|text| text.contains(name)), "{gone}");
        }
    }

    #[test]
    fn check_allows_others_but_not_in_front_of_ours() {
        let own = "-A CNI-DN-a -p tcp -j CNI-HOSTPORT-SETMARK\n";
        let before = COMPLETE.replace(own, &format!("-A CNI-DN-a -j RETURN\n{own}"));
        let missing = set().missing(&Listing::parse(&before)).unwrap();
        assert!(missing.contains("[-A CNI-DN-a -j RETURN] is in its place"));
        let around = COMPLETE.to_owned() + "-A CNI-DN-a -j RETURN\n-A POSTROUTING -j OTHER\n";
        assert_eq!(set().missing(&Listing::parse(&around)), None);
    }

    #[test]
    fn an_unknown_rule_is_none_of_ours() {
        let whole = Listing::parse(COMPLETE);
        let set = set();
        let listed = |unknown: Option<usize>| {
            let rules: Vec<_> = whole.rules().enumerate().collect();
            let mut listing = Listing::default();
            for chain in set.chains() {
                let of_chain = rules.iter().filter(|(_, rule)| rule.chain() == chain);
                let known = of_chain.map(|(at, rule)| match Some(*at) == unknown {
                    true => Rule::unknown(chain),
                    false => (*rule).clone(),
                });
                listing.add(chain, known);
            }
            listing
        };
        assert_eq!(set.missing(&listed(None)), None);
        for at in 0..whole.rules().count() {
            assert!(set.missing(&listed(Some(at))).is_some(), "{at}");
        }
    }

    #[test]
    fn removal_finds_all_by_the_chain_alone() {
        let listing = Listing::parse(COMPLETE);
        let (batch, rules) = removal_batch(&listing, "CNI-DN-a");
        assert_eq!(
            batch,
            [
                "-D CNI-HOSTPORT-DNAT -p tcp -j CNI-DN-a",
                "-F CNI-DN-a",
                "-X CNI-DN-a"
            ]
        );
        assert_eq!(rules.len(), 3);
        assert_eq!(removal_batch(&listing, "CNI-DN-b"), (vec![], vec![]));
    }

    #[test]
    fn a_chain_tells_whose_it_is_by_its_addresses() {
        let listing = Listing::parse(
            "-N CNI-DN-a\n-N CNI-b\n-A POSTROUTING -s 10.0.0.2/32 -j CNI-b\n\
             -A CNI-DN-a -p tcp -j DNAT --to-destination 10.0.0.3:80\n\
             -A CNI-DN-a -p tcp -j DNAT --to-destination [fd00::3]:80\n",
        );
        assert_eq!(
            addresses_of(&listing, "CNI-DN-a"),
            ["10.0.0.3".to_owned(), "fd00::3".to_owned()].into()
        );
        assert_eq!(
            addresses_of(&listing, "CNI-b"),
            ["10.0.0.2".to_owned()].into()
        );
    }
}
