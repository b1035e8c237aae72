//! What attachments that are no more have left in a table. Their ids are not known: only the comments
//! of the rules say which network a chain is of.

use std::collections::{BTreeMap, BTreeSet};

use crate::Owner;
use crate::names;
use crate::rule::{Listing, Rule};

/// One kind of chain that attachments have.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// What the chain's name begins with.
    pub prefix: &'static str,
    /// What the comments of its rules, or of those that lead to it, begin with.
    pub words: &'static str,
    /// The chain whose rules lead to it.
    pub entered_from: &'static str,
}

/// How the chains of one kind are recognised that belong to no valid attachment of a network.
#[derive(Debug)]
pub struct Garbage<'a> {
    kind: Kind,
    network: &'a str,
    /// The valid attachments' chains, each with the one that a reference plugin would have made.
    valid: BTreeMap<String, String>,
}

impl<'a> Garbage<'a> {
    /// All that is of the network, but of none of the `valid` attachments.
    pub fn new(kind: Kind, network: &'a str, valid: &[Owner]) -> Self {
        let chains = valid.iter().map(|owner| {
            let own = names::chain(kind.prefix, *owner);
            (own, names::shared_chain(kind.prefix, *owner))
        });
        Garbage {
            kind,
            network,
            valid: chains.collect(),
        }
    }

    /// Whether a chain of that name can be garbage.
    pub fn may_be(&self, chain: &str) -> bool {
        names::is_chain(self.kind.prefix, chain) && !self.valid.contains_key(chain)
    }

    /// The chains that are: the comments say that they are of the network, and none says that they
    /// are of another's too. A chain of which no comment speaks is let alone; nothing leads to it.
    pub fn chains(&self, listing: &Listing) -> Vec<String> {
        let mut found = BTreeMap::new();
        for rule in commented(listing) {
            let comment = rule.value_of("--comment").unwrap_or_default();
            if let Some(ours) = names::is_of_network(&comment, self.kind.words, self.network) {
                for chain in chains_of(rule).filter(|chain| self.may_be(chain)) {
                    *found.entry(chain).or_insert(true) &= ours;
                }
            }
        }
        found.retain(|chain, ours| *ours && !self.is_shared(chain, listing));
        found.into_keys().collect()
    }

    /// Whether it is the chain that a reference plugin made for all interfaces of a container, of
    /// which one is valid and has no chain of its own.
    fn is_shared(&self, chain: &str, listing: &Listing) -> bool {
        let mut valid = self.valid.iter();
        valid.any(|(own, shared)| shared == chain && !listing.has_chain(own))
    }
}

/// Whether of each of these chains that is listed a comment says whose it is. Where none does, the listing
/// may lack rules: iptables-nft-save that the kernel refuses some prints the others, and succeeds.
pub fn is_told(chains: &[String], listing: &Listing) -> bool {
    let told: BTreeSet<String> = commented(listing).flat_map(chains_of).collect();
    let mut listed = chains.iter().filter(|chain| listing.has_chain(chain));
    listed.all(|chain| told.contains(chain))
}

/// Most rules of a busy node are of others: look closer only where the word occurs.
fn commented(listing: &Listing) -> impl Iterator<Item = &Rule> {
    let all = listing.rules();
    all.filter(|rule| rule.append().contains("name: "))
}

/// The chain that the rule is in, and the one that it leads to.
fn chains_of(rule: &Rule) -> impl Iterator<Item = String> {
    [Some(rule.chain().to_owned()), rule.target()]
        .into_iter()
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MASQUERADE: Kind = Kind {
        prefix: "CNI-",
        words: "",
        entered_from: "POSTROUTING",
    };
    const DNAT: Kind = Kind {
        prefix: "CNI-DN-",
        words: "dnat ",
        entered_from: "CNI-HOSTPORT-DNAT",
    };

    fn owner<'a>(network: &'a str, container_id: &'a str, ifname: &'a str) -> Owner<'a> {
        Owner {
            network,
            container_id,
            ifname,
        }
    }

    /// What an attachment has of both kinds, with its rules' comments of `told`.
    fn lines_as(owner: Owner, told: Owner) -> String {
        let (masq, dnat) = (names::chain("CNI-", owner), names::chain("CNI-DN-", owner));
        let comment = crate::rule::quote(&names::masquerade_comment(told));
        let entry = crate::rule::quote(&names::hostport_comment(told));
        format!(
            "-N {masq}\n-N {dnat}\n\
             -A POSTROUTING -s 10.1.0.2/32 -m comment --comment {comment} -j {masq}\n\
             -A {masq} -d 10.1.0.0/24 -m comment --comment {comment} -j ACCEPT\n\
             -A CNI-HOSTPORT-DNAT -p tcp -m comment --comment {entry} -j {dnat}\n\
             -A {dnat} -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.1.0.2:80\n"
        )
    }

    fn lines(owner: Owner) -> String {
        lines_as(owner, owner)
    }

    /// Whose chains of the two kinds are garbage in the network `net`.
    fn dead(text: &str, valid: &[Owner]) -> Vec<String> {
        let listing = Listing::parse(text);
        let of_kind = |kind| Garbage::new(kind, "net", valid).chains(&listing);
        [of_kind(MASQUERADE), of_kind(DNAT)].concat()
    }

    fn both(owner: Owner) -> Vec<String> {
        ["CNI-", "CNI-DN-"]
            .map(|prefix| names::chain(prefix, owner))
            .into()
    }

    #[test]
    fn all_of_the_network_but_what_is_valid() {
        let (a, b) = (owner("net", "a", "eth0"), owner("net", "b", "net1"));
        let text = lines(a) + &lines(b);
        assert_eq!(dead(&text, &[a]), both(b));
        assert_eq!(dead(&text, &[b]), both(a));
        assert_eq!(dead(&text, &[a, b]), [""; 0]);
        assert_eq!(dead(&text, &[]).len(), 4);
        // The same container by another interface is another attachment.
        assert_eq!(dead(&lines(a), &[owner("net", "a", "net1"), b]), [""; 0]);
        let second = owner("net", "a", "net1");
        assert_eq!(dead(&(lines(a) + &lines(second)), &[second]), both(a));
    }

    #[test]
    fn a_chain_of_which_no_comment_speaks_may_be_one_of_a_torn_listing() {
        let text = lines(owner("net", "a", "eth0"));
        let chains = both(owner("net", "a", "eth0"));
        assert!(is_told(&chains, &Listing::parse(&text)));
        assert!(is_told(&chains, &Listing::parse("")));
        let without_entries: Vec<_> = text
            .lines()
            .filter(|line| !line.starts_with("-A CNI-HOSTPORT-DNAT"))
            .collect();
        let torn = Listing::parse(&without_entries.join("\n"));
        assert!(!is_told(&chains, &torn));
    }

    #[test]
    fn other_networks_are_let_alone() {
        for network in ["ne", "net1", "net2", "n", "net.", "nett"] {
            assert_eq!(
                dead(&lines(owner(network, "a", "eth0")), &[]),
                [""; 0],
                "{network}"
            );
        }
        // Names that join to the same letters give one chain.
        let (ours, theirs) = (owner("net", "1a", "eth0"), owner("net1", "a", "eth0"));
        assert_eq!(both(ours), both(theirs));
        assert_eq!(dead(&lines(ours), &[]), both(ours));
        assert_eq!(dead(&lines(theirs), &[]), [""; 0]);
        assert_eq!(dead(&(lines(ours) + &lines(theirs)), &[]), [""; 0]);
    }

    #[test]
    fn what_says_nothing_of_the_network_is_let_alone() {
        let a = owner("net", "a", "eth0");
        let mute =
            "-N CNI-0123456789abcdef01234567\n-A POSTROUTING -j CNI-0123456789abcdef01234567\n";
        assert_eq!(dead(mute, &[]), [""; 0]);
        // Another's rule with such a comment, and a chain with another name.
        let comment = crate::rule::quote(&names::masquerade_comment(a));
        let other = format!("-N MINE\n-A POSTROUTING -m comment --comment {comment} -j MINE\n");
        assert_eq!(dead(&other, &[]), [""; 0]);
        // Someone else's remark on a rule of ours does not make it theirs.
        let [masq, dnat] = ["CNI-", "CNI-DN-"].map(|prefix| names::chain(prefix, a));
        let remark = format!("-A OUTPUT -m comment --comment \"my name: x\" -j {dnat}\n");
        assert_eq!(dead(&(lines(a) + &remark), &[]), [masq, dnat]);
    }

    #[test]
    fn only_other_names_than_the_valid_ones_can_be_garbage() {
        let a = owner("net", "a", "eth0");
        let garbage = Garbage::new(MASQUERADE, "net", &[a]);
        assert!(!garbage.may_be(&names::chain("CNI-", a)));
        assert!(garbage.may_be(&names::chain("CNI-", owner("net", "b", "eth0"))));
        assert!(!garbage.may_be(&names::chain("CNI-DN-", owner("net", "b", "eth0"))));
        assert!(!garbage.may_be("POSTROUTING"));
    }
}
