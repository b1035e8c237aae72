//! How an attachment's ifb is named and recognised, with nothing but the attachment at hand.

use cni::Attachment;
use net::{Link, Mac};
use sha2::{Digest, Sha256, Sha512};

/// What an interface's name holds at most, in bytes (linux/if.h: `IFNAMSIZ` less its final NUL).
const NAME_MAX: usize = 15;
/// What IFLA_IFALIAS holds at most, in bytes (linux/if.h: `IFALIASZ` less its final NUL).
const ALIAS_MAX: usize = 255;

/// Name and marks of an attachment's ifb, all derived from the attachment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// `bwp` and 12 hex digits.
    pub name: String,
    /// Locally administered, unicast.
    pub mac: Mac,
    /// Link group of the network; not 0, which is every other link's group.
    pub group: u32,
    /// `network/id/interface`, or a hash where that is too long for an alias.
    pub alias: String,
}

impl Identity {
    /// Derives the marks. For `eth0` the name is the reference plugin's; for any other interface
    /// that is hashed in, so that two interfaces of one container in one network have an ifb each.
    pub fn of(attachment: &Attachment) -> Identity {
        let text = attachment.to_string();
        let name = match attachment.ifname.as_str() {
            "eth0" => reference_name(attachment),
            _ => name_of(&text),
        };
        // Neither part can hold a `/`: no attachment's text begins so.
        let [a, b, c, d, e, f, ..]: [u8; 32] = Sha256::digest(format!("/ifb/{text}")).into();
        let alias = if text.len() <= ALIAS_MAX {
            text
        } else {
            format!("sha256:{}", hex(&Sha256::digest(&text)))
        };
        Identity {
            name,
            mac: Mac([(a & 0xfc) | 0x02, b, c, d, e, f]),
            group: group_of(&attachment.network),
            alias,
        }
    }

    /// Whether a link of this name is this attachment's ifb, or one without any marks, as the
    /// reference plugin makes them.
    pub fn owns(&self, link: &Link) -> bool {
        let ours = link.mac == Some(self.mac) || link.alias == self.alias;
        link.kind == "ifb" && (ours || is_unmarked(link))
    }
}

/// The name that the reference plugin gives: one for all interfaces that the container has in the
/// network.
pub fn reference_name(attachment: &Attachment) -> String {
    name_of(&format!(
        "{}{}",
        attachment.network, attachment.container_id
    ))
}

/// Whether the link carries none of the marks that this plugin gives.
pub fn is_unmarked(link: &Link) -> bool {
    link.alias.is_empty() && link.group == 0
}

fn name_of(text: &str) -> String {
    let mut name = format!("bwp{}", hex(&Sha512::digest(text)));
    name.truncate(NAME_MAX);
    name
}

/// The link group that all links of a network share. Of 31 bits: `ip link show group` takes no more.
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

    fn attachment(network: &str, container_id: &str, ifname: &str) -> Attachment {
        Attachment {
            network: network.into(),
            container_id: container_id.into(),
            ifname: ifname.into(),
        }
    }

    fn identity(network: &str, container_id: &str, ifname: &str) -> Identity {
        Identity::of(&attachment(network, container_id, ifname))
    }

    #[test]
    fn the_name_of_eth0_is_the_reference_plugins() {
        let ours = identity("cni-plugin-bandwidth-test", "dummy", "eth0");
        assert_eq!(ours.name, "bwpa8eda89404b7");
    }

    #[test]
    fn every_interface_has_its_own() {
        let names = [
            identity("net", "id", "eth0").name,
            identity("net", "id", "eth1").name,
            identity("net", "i", "deth1").name,
            identity("ne", "tid", "eth1").name,
        ];
        for (i, name) in names.iter().enumerate() {
            assert!(!names[i + 1..].contains(name), "{names:?}");
            assert_eq!(name.len(), NAME_MAX);
        }
    }

    #[test]
    fn marks() {
        let ours = identity("net", "id", "eth0");
        assert_eq!(ours.mac.0[0] & 3, 2);
        assert_ne!(ours.mac, identity("net", "id", "eth1").mac);
        assert_eq!(ours.group, identity("net", "other", "eth1").group);
        assert_ne!(ours.group, identity("other", "id", "eth0").group);
        assert_eq!(ours.alias, "net/id/eth0");
        let long = identity("net", &"i".repeat(300), "eth0");
        assert_eq!(long.alias.len(), "sha256:".len() + 64);
    }

    #[test]
    fn whose_an_ifb_is() {
        let ours = identity("net", "id", "eth0");
        let ifb = |mac: Option<Mac>, group: u32, alias: &str| Link {
            name: ours.name.clone(),
            kind: "ifb".to_string(),
            mac,
            group,
            alias: alias.to_string(),
            ..Link::default()
        };
        let other = Some(Mac([2, 0, 0, 0, 0, 1]));
        assert!(ours.owns(&ifb(Some(ours.mac), ours.group, "")));
        assert!(ours.owns(&ifb(other, 0, "net/id/eth0")));
        assert!(ours.owns(&ifb(other, 0, "")));
        assert!(!ours.owns(&ifb(other, ours.group, "net/other/eth0")));
        let bridge = Link {
            kind: "bridge".to_string(),
            ..ifb(Some(ours.mac), ours.group, "net/id/eth0")
        };
        assert!(!ours.owns(&bridge));
    }
}
