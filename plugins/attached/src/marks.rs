//! How an attachment's links on the node are named and marked, with nothing but the attachment at
//! hand.

use cni::Attachment;
use net::{Link, Mac};
use sha2::{Digest, Sha256};

/// What an interface's name holds at most, in bytes (linux/if.h: `IFNAMSIZ` less its final NUL).
pub const NAME_MAX: usize = 15;
/// What IFLA_IFALIAS holds at most, in bytes (linux/if.h: `IFALIASZ` less its final NUL).
const ALIAS_MAX: usize = 255;

/// What says whose a link is, beside its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marks {
    /// Locally administered, unicast.
    pub mac: Mac,
    /// Link group of the network; not 0, which is every other link's group.
    pub group: u32,
    /// `network/id/interface`, or a hash where that is too long for an alias.
    pub alias: String,
}

impl Marks {
    /// The marks of a link of the attachment. `bits`, of which the MAC is made, are of a hash of the
    /// attachment, and other ones for each of its links.
    pub fn of(attachment: &Attachment, bits: [u8; 6]) -> Marks {
        let text = attachment.to_string();
        Marks {
            mac: Mac::local(bits),
            group: group_of(&attachment.network),
            alias: if text.len() <= ALIAS_MAX {
                text
            } else {
                format!("sha256:{}", hex(&Sha256::digest(&text)))
            },
        }
    }

    /// Whether the link carries a mark that is the attachment's alone. One is enough, since another
    /// program may have changed the other.
    pub fn are_on(&self, link: &Link) -> bool {
        link.mac == Some(self.mac) || link.alias == self.alias
    }
}

/// Whether the link carries none of the marks, as the reference plugins make them.
pub fn is_unmarked(link: &Link) -> bool {
    link.alias.is_empty() && link.group == 0
}

/// Whether the link is of the network, whichever attachment's: the alias says so in words. Where it
/// says nothing, as a hash, or before it is set, the group does.
pub fn is_of_network(link: &Link, network: &str) -> bool {
    let words: Vec<&str> = link.alias.split('/').collect();
    match words.as_slice() {
        [named, _, _] => *named == network,
        _ => link.group == group_of(network),
    }
}

/// An interface's name: `prefix`, then as many hex digits of the hash as fit.
pub fn name(prefix: &str, hash: &[u8]) -> String {
    let mut name = prefix.to_owned() + &hex(hash);
    name.truncate(NAME_MAX);
    name
}

/// The link group that all links of a network share. Of 31 bits: `ip link show group` takes no more.
fn group_of(network: &str) -> u32 {
    let [a, b, c, d, ..]: [u8; 32] = Sha256::digest(network).into();
    u32::from_be_bytes([a & 0x7f, b, c, d]).max(1)
}

fn hex(bytes: &[u8]) -> String {
    base16ct::lower::encode_string(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(network: &str, container_id: &str, bits: [u8; 6]) -> Marks {
        let attachment = Attachment::new(network, container_id, "eth0");
        Marks::of(&attachment, bits)
    }

    #[test]
    fn a_name_is_as_long_as_a_name_may_be() {
        assert_eq!(name("veth", &[0x1a; 32]), "veth1a1a1a1a1a1");
        assert_eq!(name("veth", &[0x1a; 32]).len(), NAME_MAX);
    }

    #[test]
    fn a_group_is_the_network_s_and_never_zero() {
        let group = |network, id| marks(network, id, [0; 6]).group;
        assert_eq!(group("n", "a"), group("n", "b"));
        assert_ne!(group("m", "a"), group("n", "a"));
        assert_ne!(group("n", "a"), 0);
        assert_eq!(group("n", "a") >> 31, 0);
    }

    #[test]
    fn a_long_alias_becomes_a_hash_of_its_own() {
        let alias = |id: &str| marks("n", id, [0; 6]).alias;
        assert_eq!(alias("c"), "n/c/eth0");
        let longest = "c".repeat(ALIAS_MAX - "n//eth0".len());
        assert_eq!(alias(&longest).len(), ALIAS_MAX);
        let (one, other) = (alias(&format!("{longest}1")), alias(&format!("{longest}2")));
        assert_eq!(one.len(), "sha256:".len() + 64);
        assert_ne!(one, other);
    }

    #[test]
    fn a_link_tells_its_network() {
        let link = |group: u32, alias: &str| Link {
            group,
            alias: alias.to_owned(),
            ..Link::default()
        };
        let (net, other) = (group_of("net"), group_of("net1"));
        for (group, alias, expected) in [
            (net, "net/c/eth0", true),
            (0, "net/c/eth0", true),
            (net, "net1/c/eth0", false),
            (other, "net1/c/eth0", false),
            (net, "ne/c/eth0", false),
            (net, "", true),
            (net, "sha256:00", true),
            (net, "uplink of the pod", true),
            (other, "sha256:00", false),
            (other, "net", false),
            (0, "", false),
            (0, "net/c", false),
        ] {
            let link = link(group, alias);
            assert_eq!(is_of_network(&link, "net"), expected, "{link:?}");
        }
    }

    #[test]
    fn one_mark_is_enough_and_the_group_is_none() {
        let ours = marks("n", "c", [2, 0, 0, 0, 0, 9]);
        let link = |mac: Mac, group: u32, alias: &str| Link {
            mac: Some(mac),
            group,
            alias: alias.to_owned(),
            ..Link::default()
        };
        let other = Mac([2, 0, 0, 0, 0, 1]);
        assert!(ours.are_on(&link(ours.mac, 0, "")));
        assert!(ours.are_on(&link(other, 0, "n/c/eth0")));
        assert!(!ours.are_on(&link(other, ours.group, "n/other/eth0")));
        assert!(is_unmarked(&link(other, 0, "")));
        assert!(!is_unmarked(&link(other, 1, "")));
        assert!(!is_unmarked(&link(other, 0, "n/other/eth0")));
    }
}
