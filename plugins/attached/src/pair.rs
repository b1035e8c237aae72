//! The veth pair that connects a pod: one end in its namespace, the other on the node.

use cni::{AddResult, Request};
use net::{Link, Netlink};

use crate::{link, netns};

/// Both ends, as they are found from inside the pod.
#[derive(Debug)]
pub struct Pair {
    /// A socket in the pod's namespace.
    pub pod: Netlink,
    /// The pod's end.
    pub inner: Link,
    /// The host's end.
    pub outer: Link,
}

impl Pair {
    /// Finds it for DEL: `None` where the pod, its interface or the other end is gone, or the ends
    /// are no pair across the two namespaces.
    ///
    /// # Errors
    /// The kernel's.
    pub fn if_there(request: &Request, node: &Netlink) -> net::Result<Option<Pair>> {
        let Some(pod) = netns::socket_if_there(request) else {
            return Ok(None);
        };
        let Some(inner) = pod.link(&request.env.ifname)? else {
            return Ok(None);
        };
        let Some(index) = inner.peer else {
            return Ok(None);
        };
        let outer = node.link_by_index(index)?;
        let outer = outer.filter(|outer| is_pair(&inner, outer));
        Ok(outer.map(|outer| Pair { pod, inner, outer }))
    }
}

/// Whether two links of different namespaces are the ends of one pair.
pub fn is_pair(inner: &Link, outer: &Link) -> bool {
    let veths = inner.kind == "veth" && outer.kind == "veth";
    let elsewhere = inner.peer_elsewhere && outer.peer_elsewhere;
    veths && elsewhere && inner.peer == Some(outer.index) && outer.peer == Some(inner.index)
}

/// The host's end as a previous result tells it, if it is still the same and `is_ours`: by now the
/// result may be another pod's. A pair with both ends on the node is told too, and no pod's: a VLAN's
/// gateway.
///
/// # Errors
/// The kernel's.
pub fn told(
    node: &Netlink,
    result: Option<&AddResult>,
    is_ours: impl Fn(&Link) -> bool,
) -> net::Result<Option<Link>> {
    for interface in result.into_iter().flat_map(AddResult::on_node) {
        let link = node.link(&interface.name)?;
        let same =
            |link: &Link| link.peer_elsewhere && link::is_told(link, interface) && is_ours(link);
        if let Some(link) = link.filter(same) {
            return Ok(Some(link));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn veth(index: u32, peer: u32) -> Link {
        Link {
            index,
            peer: Some(peer),
            peer_elsewhere: true,
            kind: "veth".to_owned(),
            ..Link::default()
        }
    }

    #[test]
    fn a_pair_refers_to_each_other() {
        let inner = veth(2, 7);
        assert!(is_pair(&inner, &veth(7, 2)));
        assert!(!is_pair(&inner, &veth(7, 3)));
        assert!(!is_pair(&inner, &veth(8, 2)));
        let here = Link {
            peer_elsewhere: false,
            ..veth(7, 2)
        };
        assert!(!is_pair(&inner, &here));
        let bridge = Link {
            kind: "bridge".to_owned(),
            ..veth(7, 2)
        };
        assert!(!is_pair(&inner, &bridge));
    }
}
