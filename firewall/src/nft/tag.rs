//! The comment by which an attachment's elements and rules are found.

use std::collections::BTreeSet;

use super::field::Field;
use super::table::{Element, Entry, Set, Value};
use crate::Owner;
use crate::names;

const ATTACHMENTS: &str = "attachments";

/// `NFTNL_UDATA_COMMENT_MAXLEN` of libnftnl (128) without the final zero.
const MAX_COMMENT_LEN: usize = 127;
/// Hex digits of each of the two hashes.
const HASH_LEN: usize = 16;
/// `IFNAMSIZ` of linux/if.h: the length of a key of type `ifname`, with its final zero.
const NAME_LEN: usize = 16;

/// Whose an element or a rule is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag {
    hash: String,
    /// The comment of all that is the attachment's: a hash of the network, one of container and
    /// interface, then all three in words.
    pub comment: String,
}

impl Tag {
    /// The attachment's, as the reference plugins make it for their masquerade rules.
    pub fn of(owner: Owner) -> Tag {
        let Owner {
            network,
            container_id,
            ifname,
        } = owner;
        let hash = format!(
            "{}{}",
            network_hash(network),
            names::hash(&[ifname, ":", container_id], HASH_LEN)
        );
        let mut comment = format!("{hash}, net: {network}, if: {ifname}, id: {container_id}");
        comment.retain(|c| c != '"');
        names::truncate(&mut comment, MAX_COMMENT_LEN);
        Tag { hash, comment }
    }

    /// Whether a comment is the attachment's.
    pub fn owns(&self, comment: &str) -> bool {
        comment.starts_with(&self.hash)
    }

    /// The set of all attachments, the keys of which are hashes.
    pub fn set() -> Set {
        Set {
            name: ATTACHMENTS,
            key: vec![Field::Interface],
            value: Value::None,
        }
    }

    /// The attachment's element in that set: a second ADD is known by it without a look at any
    /// other element.
    pub fn element(&self) -> Element {
        let name = names::hash(&[&self.hash], NAME_LEN.saturating_sub(1));
        let mut key = name.clone().into_bytes();
        key.resize(NAME_LEN, 0);
        Element {
            text: format!("{name:?}"),
            entry: Entry {
                set: ATTACHMENTS.to_owned(),
                key,
                value: None,
                comment: self.comment.clone(),
            },
        }
    }
}

/// What the comments of a network's attachments begin with.
fn network_hash(network: &str) -> String {
    names::hash(&[network], HASH_LEN) + "-"
}

/// The attachments of a network that are no more: all but the valid ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dead {
    network: String,
    /// Hashes.
    valid: BTreeSet<String>,
}

impl Dead {
    /// All of the network but these.
    pub fn new(network: &str, valid: &[Owner]) -> Dead {
        Dead {
            network: network_hash(network),
            valid: valid.iter().map(|owner| Tag::of(*owner).hash).collect(),
        }
    }

    /// Whether a comment is one of theirs.
    pub fn owns(&self, comment: &str) -> bool {
        let hash = comment.get(..self.network.len().saturating_add(HASH_LEN));
        comment.starts_with(&self.network) && !hash.is_some_and(|hash| self.valid.contains(hash))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(network: &str, container_id: &str, ifname: &str) -> Tag {
        Tag::of(Owner {
            network,
            container_id,
            ifname,
        })
    }

    #[test]
    fn a_comment_begins_with_the_reference_hash() {
        let tag = tag("unit-test", "cont1", "eth0");
        let (network, rest) = tag.comment.split_once('-').unwrap();
        assert_eq!(network, "6fd94d501e58f0aa");
        assert_eq!(
            rest.get(16..),
            Some(", net: unit-test, if: eth0, id: cont1")
        );
        assert!(tag.owns(&tag.comment) && !tag.owns("") && !tag.owns("cont1"));
    }

    #[test]
    fn a_comment_is_short_and_has_no_quotes() {
        let long = tag(&"é\"".repeat(300), "id", "eth0");
        assert!((126..=127).contains(&long.comment.len()));
        assert!(!long.comment.contains('"'));
        assert!(long.owns(&long.comment));
    }

    #[test]
    fn each_attachment_has_its_own() {
        let tags = [
            tag("n", "a", "eth0"),
            tag("n", "a", "eth1"),
            tag("n", "b", "eth0"),
            tag("m", "a", "eth0"),
        ];
        for (i, one) in tags.iter().enumerate() {
            for (j, other) in tags.iter().enumerate() {
                assert_eq!(one.owns(&other.comment), i == j);
                assert_eq!(one.element() == other.element(), i == j);
            }
        }
        let key = tags[0].element().entry.key;
        assert_eq!((key.len(), key[14] != 0, key[15]), (16, true, 0));
    }

    #[test]
    fn of_a_network_all_but_the_valid_ones_are_dead() {
        let owner = |network, container_id| Owner {
            network,
            container_id,
            ifname: "eth0",
        };
        let dead = Dead::new("n", &[owner("n", "a"), owner("n", "b")]);
        for (network, id, expected) in [
            ("n", "a", false),
            ("n", "b", false),
            ("n", "c", true),
            ("m", "c", false),
        ] {
            let tag = Tag::of(owner(network, id));
            assert_eq!(dead.owns(&tag.comment), expected, "{network} {id}");
        }
        assert!(!dead.owns("") && Dead::new("n", &[]).owns(&tag("n", "a", "eth0").comment));
    }
}
