//! A link as the kernel has it, and as a result tells it.

use cni::{Context, Error, Interface, Version};
use net::{Link, Mac, Netlink};

/// A link that was just made, or seen.
///
/// # Errors
/// Code 100 where it is not there.
pub fn expect(netlink: &Netlink, name: &str) -> Result<Link, Error> {
    let link = netlink.link(name);
    link.context(format!("failed to look up {name:?}"))?
        .ok_or_else(|| Error::system(format!("link {name:?} vanished")))
}

/// What a result of that version tells of the link; `sandbox` is the path of its namespace, empty on
/// the node. An MTU is told from 1.1.0 on, whose specification brought it.
pub fn interface(link: &Link, sandbox: &str, version: Version) -> Interface {
    Interface {
        mtu: (version >= Version::V1_1_0).then_some(link.mtu),
        name: link.name.clone(),
        mac: link.mac.map(|mac| mac.to_string()).unwrap_or_default(),
        sandbox: sandbox.to_owned(),
        ..Interface::default()
    }
}

/// Whether a veth of the node is the one of a result: the name may be another pod's by now, the MAC
/// is not.
pub fn is_told(link: &Link, interface: &Interface) -> bool {
    let mac: Option<Mac> = interface.mac.parse().ok();
    let on_node = interface.sandbox.is_empty() && link.kind == "veth";
    on_node && mac.is_some() && link.mac == mac
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_told_link_is_a_veth_of_the_node_with_the_told_mac() {
        let mac = Mac([2, 0, 0, 0, 0, 9]);
        let veth = Link {
            mac: Some(mac),
            kind: "veth".to_owned(),
            ..Link::default()
        };
        let told = |mac: &str, sandbox: &str| Interface {
            name: "veth0".to_owned(),
            mac: mac.to_owned(),
            sandbox: sandbox.to_owned(),
            ..Interface::default()
        };
        let same = told(&mac.to_string(), "");
        assert!(is_told(&veth, &same));
        assert!(!is_told(&veth, &told(&mac.to_string(), "/run/netns/x")));
        assert!(!is_told(&veth, &told("02:00:00:00:00:0a", "")));
        assert!(!is_told(&veth, &told("", "")));
        let bridge = Link {
            kind: "bridge".to_owned(),
            ..veth
        };
        assert!(!is_told(&bridge, &same));
    }

    #[test]
    fn what_is_told_of_a_link_is_told() {
        let veth = Link {
            name: "veth0".to_owned(),
            mac: Some(Mac([2, 0, 0, 0, 0, 9])),
            mtu: 1400,
            kind: "veth".to_owned(),
            ..Link::default()
        };
        let told = interface(&veth, "", Version::V1_0_0);
        assert_eq!(told.mtu, None);
        assert_eq!(interface(&veth, "", Version::V1_1_0).mtu, Some(1400));
        assert_eq!(
            (told.name.as_str(), told.mac.as_str()),
            ("veth0", "02:00:00:00:00:09")
        );
        assert!(is_told(&veth, &told));
        assert_eq!(
            interface(&veth, "/run/netns/x", Version::V1_0_0).sandbox,
            "/run/netns/x"
        );
    }
}
