//! How an attachment's host veth is named and recognised, with nothing but the attachment at hand.

use cni::Attachment;
use net::{Link, Mac};
use sha2::{Digest, Sha256};

/// What IFLA_IFALIAS holds at most, in bytes (linux/if.h: `IFALIASZ` less its final NUL).
const ALIAS_MAX: usize = 255;

/// Name and marks of the host's end of an attachment's veth pair, all derived from the attachment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// `veth` and 11 hex digits: the 15 bytes that an interface name may have.
    pub name: String,
    /// Locally administered, unicast.
    pub mac: Mac,
    /// Link group of the network; not 0, which is every other link's group.
    pub group: u32,
    /// `network/id/interface`, or a hash where that is too long for an alias.
    pub alias: String,
}

impl Identity {
    /// Derives the marks. Neither a container id nor an interface name can hold a `/`, so no two
    /// attachments give the same text to hash.
    pub fn of(attachment: &Attachment) -> Identity {
        let text = attachment.to_string();
        let hash: [u8; 32] = Sha256::digest(&text).into();
        let mut name = format!("veth{}", hex(&hash));
        name.truncate(15);
        // The name has used the first 44 bits.
        let [.., a, b, c, d, e, f] = hash;
        let alias = if text.len() <= ALIAS_MAX {
            text
        } else {
            format!("sha256:{}", hex(&hash))
        };
        Identity {
            name,
            mac: Mac([(a & 0xfc) | 0x02, b, c, d, e, f]),
            group: group_of(&attachment.network),
            alias,
        }
    }

    /// Whether a link of this name is this attachment's. One mark is enough, since another program
    /// may have changed the others.
    pub fn owns(&self, link: &Link) -> bool {
        link.kind == "veth"
            && (link.mac == Some(self.mac)
                || link.alias == self.alias
                || (link.name == self.name && link.group == self.group))
    }
}

/// The link group that all host veths of a network share. Of 31 bits: `ip link show group` takes no more.
fn group_of(network: &str) -> u32 {
    let [a, b, c, d, ..]: [u8; 32] = Sha256::digest(network).into();
    u32::from_be_bytes([a & 0x7f, b, c, d]).max(1)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::link;

    fn identity(network: &str, container_id: &str, ifname: &str) -> Identity {
        Identity::of(&Attachment {
            network: network.into(),
            container_id: container_id.into(),
            ifname: ifname.into(),
        })
    }

    #[test]
    fn a_name_fits_an_interface_and_is_stable() {
        let first = identity("mynet", "cont1", "eth0");
        assert_eq!(first, identity("mynet", "cont1", "eth0"));
        assert_eq!(first.name.len(), 15);
        assert!(first.name.starts_with("veth"));
        assert_eq!(first.alias, "mynet/cont1/eth0");
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
    fn a_mac_is_unicast_and_locally_administered() {
        for id in 0..64 {
            let Mac([first, ..]) = identity("n", &format!("c{id}"), "eth0").mac;
            assert_eq!(first & 0x03, 0x02);
        }
    }

    #[test]
    fn a_group_is_the_network_s_and_never_zero() {
        let group = identity("n", "a", "eth0").group;
        assert_eq!(group, identity("n", "b", "net1").group);
        assert_ne!(group, identity("m", "a", "eth0").group);
        assert_ne!(group, 0);
    }

    #[test]
    fn a_long_alias_becomes_a_hash_of_its_own() {
        let alias = |id: &str| identity("n", id, "eth0").alias;
        let longest = "c".repeat(ALIAS_MAX - "n//eth0".len());
        assert_eq!(alias(&longest).len(), ALIAS_MAX);
        let (one, other) = (alias(&format!("{longest}1")), alias(&format!("{longest}2")));
        assert!(one.len() <= ALIAS_MAX);
        assert_ne!(one, other);
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
            mac: Some(ours.mac),
            ..link("veth")
        };
        assert!(ours.owns(&by_mac));
        let by_alias = Link {
            alias: ours.alias.clone(),
            ..link("veth")
        };
        assert!(ours.owns(&by_alias));
        let by_group = Link {
            group: ours.group,
            ..named
        };
        assert!(ours.owns(&by_group));
        let dummy = Link {
            kind: "dummy".into(),
            ..by_group
        };
        assert!(!ours.owns(&dummy));
        let other_of_the_network = Link {
            group: ours.group,
            ..link("veth")
        };
        assert!(!ours.owns(&other_of_the_network));
    }
}
