//! How an attachment's host veth is named and recognised, with nothing but the attachment at hand.

use attached::{Marks, marks};
use cni::Attachment;
use net::Link;
use sha2::{Digest, Sha256};

/// Name and marks of the host's end of an attachment's veth pair, all derived from the attachment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// `veth` and 11 hex digits.
    pub name: String,
    /// What else says whose it is.
    pub marks: Marks,
}

impl Identity {
    /// Derives both. Neither a container id nor an interface name can hold a `/`, so no two
    /// attachments give the same text to hash.
    pub fn of(attachment: &Attachment) -> Identity {
        let hash: [u8; 32] = Sha256::digest(attachment.to_string()).into();
        // The name uses the first 44 bits.
        let [.., a, b, c, d, e, f] = hash;
        Identity {
            name: marks::name("veth", &hash),
            marks: Marks::of(attachment, [a, b, c, d, e, f]),
        }
    }

    /// Whether a link is this attachment's.
    pub fn owns(&self, link: &Link) -> bool {
        let named = link.name == self.name && link.group == self.marks.group;
        link.kind == "veth" && (self.marks.are_on(link) || named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::link;

    fn identity(network: &str, container_id: &str, ifname: &str) -> Identity {
        Identity::of(&Attachment::new(network, container_id, ifname))
    }

    /// Links of a node that runs are known by these: they must never change.
    #[test]
    fn an_attachment_gives_the_same_for_ever() {
        let ours = identity("mynet", "cont1", "eth0");
        assert_eq!(ours.name, "vethf23385a58e0");
        assert_eq!(ours.marks.mac.to_string(), "0a:3f:ae:02:9c:17");
        assert_eq!(ours.marks.group, 298_337_529);
        assert_eq!(ours.marks.alias, "mynet/cont1/eth0");
    }

    #[test]
    fn attachments_that_join_to_the_same_letters_differ() {
        let names = [
            identity("ab", "c", "eth0").name,
            identity("a", "bc", "eth0").name,
            identity("ab", "ce", "th0").name,
            identity("ab", "c", "eth1").name,
        ];
        for (at, name) in names.iter().enumerate() {
            assert!(!names[at + 1..].contains(name), "{names:?}");
        }
    }

    #[test]
    fn any_one_mark_makes_a_veth_ours() {
        let ours = identity("n", "c", "eth0");
        let named = Link {
            name: ours.name.clone(),
            ..link("veth")
        };
        assert!(!ours.owns(&named));
        let by_mac = Link {
            mac: Some(ours.marks.mac),
            ..link("veth")
        };
        assert!(ours.owns(&by_mac));
        let by_alias = Link {
            alias: ours.marks.alias.clone(),
            ..link("veth")
        };
        assert!(ours.owns(&by_alias));
        let by_group = Link {
            group: ours.marks.group,
            ..named
        };
        assert!(ours.owns(&by_group));
        let dummy = Link {
            kind: "dummy".into(),
            ..by_group
        };
        assert!(!ours.owns(&dummy));
        let other_of_the_network = Link {
            group: ours.marks.group,
            ..link("veth")
        };
        assert!(!ours.owns(&other_of_the_network));
    }
}
