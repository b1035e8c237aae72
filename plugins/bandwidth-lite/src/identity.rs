//! How an attachment's ifb is named and recognised, with nothing but the attachment at hand.

use attached::marks::{self, Marks};
use cni::Attachment;
use net::Link;
use sha2::{Digest, Sha256, Sha512};

/// What every ifb's name begins with.
const PREFIX: &str = "bwp";

/// Name and marks of an attachment's ifb, all derived from the attachment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// `bwp` and 12 hex digits.
    pub name: String,
    /// What else says whose it is.
    pub marks: Marks,
}

impl Identity {
    /// Derives both. For `eth0` the name is the reference plugin's; for any other interface that is
    /// hashed in, so that two interfaces of one container in one network have an ifb each.
    pub fn of(attachment: &Attachment) -> Identity {
        let text = attachment.to_string();
        let name = match attachment.ifname.as_str() {
            "eth0" => reference_name(attachment),
            _ => name_of(&text),
        };
        // Neither part can hold a `/`: no attachment's text begins so.
        let [a, b, c, d, e, f, ..]: [u8; 32] = Sha256::digest(format!("/ifb/{text}")).into();
        Identity {
            name,
            marks: Marks::of(attachment, [a, b, c, d, e, f]),
        }
    }

    /// Whether a link of this name is this attachment's ifb, or one without any marks, as the
    /// reference plugin makes them.
    pub fn owns(&self, link: &Link) -> bool {
        link.kind == "ifb" && (self.marks.are_on(link) || marks::is_unmarked(link))
    }
}

/// Whether the link is an ifb as the reference plugin makes them: by its name, and without any marks.
pub fn is_reference_ifb(link: &Link) -> bool {
    let hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let hash = link.name.strip_prefix(PREFIX);
    link.kind == "ifb"
        && marks::is_unmarked(link)
        && link.name.len() == marks::NAME_MAX
        && hash.is_some_and(|hash| hash.bytes().all(hex))
}

/// The name that the reference plugin gives: one for all interfaces that the container has in the
/// network.
pub fn reference_name(attachment: &Attachment) -> String {
    name_of(&format!(
        "{}{}",
        attachment.network, attachment.container_id
    ))
}

fn name_of(text: &str) -> String {
    marks::name(PREFIX, &Sha512::digest(text))
}

#[cfg(test)]
mod tests {
    use net::Mac;

    use super::*;

    fn identity(network: &str, container_id: &str, ifname: &str) -> Identity {
        Identity::of(&Attachment::new(network, container_id, ifname))
    }

    #[test]
    fn the_name_of_eth0_is_the_reference_plugins() {
        let ours = identity("cni-plugin-bandwidth-test", "dummy", "eth0");
        assert_eq!(ours.name, "bwpa8eda89404b7");
    }

    /// Links of a node that runs are known by these: they must never change.
    #[test]
    fn an_attachment_gives_the_same_for_ever() {
        let ours = identity("net", "id", "eth1");
        assert_eq!(ours.name, "bwpc2215c3ddf97");
        assert_eq!(ours.marks.mac.to_string(), "6e:cc:72:8a:4c:a5");
        assert_eq!(ours.marks.group, 545_918_923);
        assert_eq!(ours.marks.alias, "net/id/eth1");
    }

    #[test]
    fn every_interface_has_its_own() {
        let identities = [
            identity("net", "id", "eth0"),
            identity("net", "id", "eth1"),
            identity("net", "i", "deth1"),
            identity("ne", "tid", "eth1"),
        ];
        for (i, one) in identities.iter().enumerate() {
            for other in &identities[i + 1..] {
                assert_ne!(one.name, other.name);
                assert_ne!(one.marks.mac, other.marks.mac);
            }
            assert_eq!(one.name.len(), marks::NAME_MAX);
        }
    }

    #[test]
    fn an_ifb_of_the_reference_plugin() {
        let theirs = Link {
            name: "bwpa8eda89404b7".to_string(),
            kind: "ifb".to_string(),
            ..Link::default()
        };
        assert!(is_reference_ifb(&theirs));
        for name in [
            "bwpa8eda89404b",
            "bwpa8eda89404B7",
            "bwqa8eda89404b7",
            "bwp-speed-test0",
        ] {
            let other = Link {
                name: name.to_string(),
                ..theirs.clone()
            };
            assert!(!is_reference_ifb(&other), "{name}");
        }
        let marked = Link {
            group: 1,
            ..theirs.clone()
        };
        let dummy = Link {
            kind: "dummy".to_string(),
            ..theirs
        };
        assert!(!is_reference_ifb(&marked) && !is_reference_ifb(&dummy));
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
        let (mac, group) = (Some(ours.marks.mac), ours.marks.group);
        let other = Some(Mac([2, 0, 0, 0, 0, 1]));
        assert!(ours.owns(&ifb(mac, group, "")));
        assert!(ours.owns(&ifb(other, 0, "net/id/eth0")));
        assert!(ours.owns(&ifb(other, 0, "")));
        assert!(!ours.owns(&ifb(other, group, "net/other/eth0")));
        let bridge = Link {
            kind: "bridge".to_string(),
            ..ifb(mac, group, "net/id/eth0")
        };
        assert!(!ours.owns(&bridge));
    }
}
