//! Where an attachment's traffic passes on the node: the host's end of the pod's veth pair.

use attached::marks::is_unmarked;
use attached::netns;
use attached::pair::{self, Pair, is_pair};
use cni::{AddResult, Attachment, Context, Error, Request};
use net::{Link, Netlink};

use crate::identity::{Identity, reference_name};

/// The node's socket and the host's end of the pair, found by its index from inside the pod.
#[derive(Debug)]
pub struct Place {
    /// A socket in the node's namespace.
    pub node: Netlink,
    /// The host's end.
    pub host: Link,
    /// MTU of the pod's end, in bytes.
    pub pod_mtu: u32,
}

impl Place {
    /// Finds it, for ADD and CHECK.
    ///
    /// # Errors
    /// Code 4 where `CNI_NETNS` is no namespace, or our own; 100 where the pod's interface is not
    /// one end of a veth pair whose other end is here and in the previous result.
    pub fn find(request: &Request, previous: &AddResult) -> Result<Place, Error> {
        let netns = netns::open(request)?;
        if previous.interfaces.is_empty() {
            return Err(Error::config("no interfaces provided"));
        }
        let ifname = &request.env.ifname;
        let pod = Netlink::in_netns(&netns).context("failed to enter the pod's netns")?;
        let inner = pod
            .link(ifname)
            .context(format!("failed to look up {ifname:?}"))?;
        let index = peer_index(ifname, inner.as_ref())?;
        let node = Netlink::current().context("failed to open a netlink socket")?;
        let outer = node.link_by_index(index);
        let outer = outer.context(format!("failed to look up link {index}"))?;
        let (inner, host) = inner
            .zip(outer)
            .filter(|(inner, outer)| is_pair(inner, outer))
            .ok_or_else(|| {
                Error::system(format!("veth peer with index {index} is not in host ns"))
            })?;
        if !is_named(previous, &host.name) {
            let msg = "no veth peer of container interface found in host ns";
            return Err(Error::system(msg)
                .details(format!("{:?} is not in the previous result", host.name)));
        }
        Ok(Place {
            node,
            host,
            pod_mtu: inner.mtu,
        })
    }
}

/// The host's end for DEL: from the pod where that is still there, else as the previous result
/// tells it. Both may speak of another pod by now.
pub fn host_if_there(
    request: &Request,
    node: &Netlink,
    previous: Option<&AddResult>,
) -> net::Result<Option<Link>> {
    let alias = Identity::of(&request.attachment()).marks.alias;
    let ours = |host: &Link| may_be_ours(host, &alias, previous);
    match Pair::if_there(request, node)? {
        Some(pair) if ours(&pair.outer) => Ok(Some(pair.outer)),
        _ => pair::told(node, previous, ours),
    }
}

/// The attachment's ifbs: its own, and for an interface other than `eth0` also the one that a
/// reference plugin made, whose name says nothing of the interface: only the previous result does.
pub fn ifbs(
    node: &Netlink,
    attachment: &Attachment,
    previous: Option<&AddResult>,
) -> net::Result<Vec<Link>> {
    let identity = Identity::of(attachment);
    let own = node.link(&identity.name)?;
    let mut found: Vec<Link> = own.filter(|link| identity.owns(link)).into_iter().collect();
    let name = reference_name(attachment);
    let is_told = previous.is_some_and(|previous| is_named(previous, &name));
    if name != identity.name && is_told {
        let link = node.link(&name)?;
        found.extend(link.filter(|link| link.kind == "ifb" && is_unmarked(link)));
    }
    Ok(found)
}

/// Whether the result names this interface of the node.
fn is_named(result: &AddResult, name: &str) -> bool {
    result.on_node().any(|interface| interface.name == name)
}

/// Whether a host's end carries the attachment's alias, or, as a reference plugin makes it, no mark
/// at all; then a previous result must not tell of others only.
fn may_be_ours(host: &Link, alias: &str, previous: Option<&AddResult>) -> bool {
    let is_told = |previous: &AddResult| is_named(previous, &host.name);
    host.alias == alias || (is_unmarked(host) && previous.is_none_or(is_told))
}

fn peer_index(ifname: &str, inner: Option<&Link>) -> Result<u32, Error> {
    let reason = match inner {
        None => "there is no such interface".to_string(),
        Some(link) if link.kind != "veth" => format!("it is of kind {:?}", link.kind),
        Some(link) => match link.peer {
            Some(index) => return Ok(index),
            None => "its other end is gone".to_string(),
        },
    };
    Err(Error::system(format!(
        "container interface {ifname} has no veth peer: {reason}"
    )))
}

#[cfg(test)]
mod tests {
    use cni::Interface;

    use super::*;

    fn veth(index: u32, peer: u32) -> Link {
        Link {
            index,
            peer: Some(peer),
            peer_elsewhere: true,
            kind: "veth".to_string(),
            ..Link::default()
        }
    }

    #[test]
    fn the_pod_s_end_may_lead_to_another_pod() {
        let host = |alias: &str, group: u32| Link {
            name: "veth0".to_string(),
            alias: alias.to_string(),
            group,
            ..veth(7, 2)
        };
        let previous = |name: &str| AddResult {
            interfaces: vec![Interface {
                name: name.to_string(),
                ..Interface::default()
            }],
            ..AddResult::default()
        };
        for (host, previous, expected) in [
            (host("n/c/eth0", 5), Some(previous("other")), true),
            (host("n/other/eth0", 5), None, false),
            (host("", 5), None, false),
            (host("", 0), None, true),
            (host("", 0), Some(previous("veth0")), true),
            (host("", 0), Some(previous("other")), false),
        ] {
            let ours = may_be_ours(&host, "n/c/eth0", previous.as_ref());
            assert_eq!(ours, expected, "{host:?} {previous:?}");
        }
    }

    #[test]
    fn only_a_veth_has_a_peer() {
        assert_eq!(peer_index("eth0", Some(&veth(2, 7))), Ok(7));
        let macvlan = Link {
            kind: "macvlan".to_string(),
            ..veth(2, 7)
        };
        let alone = Link {
            peer: None,
            ..veth(2, 7)
        };
        for (link, reason) in [
            (None, "there is no such interface"),
            (Some(&macvlan), "it is of kind \"macvlan\""),
            (Some(&alone), "its other end is gone"),
        ] {
            let error = peer_index("eth0", link).unwrap_err();
            assert_eq!(
                error.msg,
                format!("container interface eth0 has no veth peer: {reason}")
            );
        }
    }
}
