//! Where an attachment's traffic passes on the node: the host's end of the pod's veth pair.

use std::path::Path;

use cni::{AddResult, Attachment, Context, Error, Interface, Request, code};
use net::{Link, Mac, Netlink, Netns};

use crate::identity::{Identity, is_unmarked, reference_name};

/// The node's socket and the host's end of the pair, found by its index from inside the pod.
#[derive(Debug)]
pub struct Place {
    /// A socket in the node's namespace.
    pub node: Netlink,
    /// The host's end.
    pub host: Link,
}

impl Place {
    /// Finds it, for ADD and CHECK.
    ///
    /// # Errors
    /// Code 4 where `CNI_NETNS` is no namespace, or our own; 100 where the pod's interface is not
    /// one end of a veth pair whose other end is here and in the previous result.
    pub fn find(request: &Request, previous: &AddResult) -> Result<Place, Error> {
        let netns = open_netns(request)?;
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
        let host = outer
            .filter(|outer| is_pair(inner.as_ref(), outer))
            .ok_or_else(|| {
                Error::system(format!("veth peer with index {index} is not in host ns"))
            })?;
        if !told(previous, |interface| interface.name == host.name) {
            let msg = "no veth peer of container interface found in host ns";
            return Err(Error::system(msg)
                .details(format!("{:?} is not in the previous result", host.name)));
        }
        Ok(Place { node, host })
    }
}

/// The host's end for DEL: from the pod where that is still there, else as the previous result
/// tells it. Both may speak of another pod by now.
pub fn host_if_there(
    request: &Request,
    node: &Netlink,
    previous: Option<&AddResult>,
) -> net::Result<Option<Link>> {
    let alias = Identity::of(&request.attachment()).alias;
    let ours = |host: &Link| may_be_ours(host, &alias, previous);
    if let Some(host) = peer_of_pod(request, node)?.filter(ours) {
        return Ok(Some(host));
    }
    for interface in previous.iter().flat_map(|previous| &previous.interfaces) {
        let link = node.link(&interface.name)?;
        if let Some(link) = link.filter(|link| is_told(link, interface) && ours(link)) {
            return Ok(Some(link));
        }
    }
    Ok(None)
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
    let is_told = previous.is_some_and(|previous| told(previous, |one| one.name == name));
    if name != identity.name && is_told {
        let link = node.link(&name)?;
        found.extend(link.filter(|link| link.kind == "ifb" && is_unmarked(link)));
    }
    Ok(found)
}

/// Whether an interface of the node is in a result.
pub fn told(result: &AddResult, is_it: impl Fn(&Interface) -> bool) -> bool {
    let mut on_node = result.interfaces.iter().filter(|i| i.sandbox.is_empty());
    on_node.any(is_it)
}

fn open_netns(request: &Request) -> Result<Netns, Error> {
    let path = request.env.netns.as_deref().unwrap_or(Path::new(""));
    let invalid = |msg: String| {
        Error::new(code::INVALID_ENVIRONMENT, msg).details(format!("CNI_NETNS={}", path.display()))
    };
    let netns = Netns::open(path).map_err(|error| invalid(error.to_string()))?;
    if is_our_own(&netns).context("failed to compare namespaces")? && !request.env.netns_override {
        return Err(invalid(
            "plugin's netns and netns from CNI_NETNS should not be the same".into(),
        ));
    }
    Ok(netns)
}

fn is_our_own(netns: &Netns) -> net::Result<bool> {
    Netns::current()?.same_as(netns)
}

fn peer_of_pod(request: &Request, node: &Netlink) -> net::Result<Option<Link>> {
    let Some(pod) = pod_if_there(request) else {
        return Ok(None);
    };
    let inner = pod.link(&request.env.ifname)?;
    let Some(index) = inner.as_ref().and_then(|inner| inner.peer) else {
        return Ok(None);
    };
    let outer = node.link_by_index(index)?;
    Ok(outer.filter(|outer| is_pair(inner.as_ref(), outer)))
}

/// `None` also where the namespace is our own, whose interfaces are no pod's.
fn pod_if_there(request: &Request) -> Option<Netlink> {
    let netns = Netns::open(request.env.netns.as_deref()?).ok()?;
    match is_our_own(&netns) {
        Ok(false) => Netlink::in_netns(&netns).ok(),
        _ => None,
    }
}

/// Whether a host's end carries the attachment's alias, or, as a reference plugin makes it, no mark
/// at all; then a previous result must not tell of others only.
fn may_be_ours(host: &Link, alias: &str, previous: Option<&AddResult>) -> bool {
    let is_told = |previous: &AddResult| told(previous, |one| one.name == host.name);
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

/// Whether two links of different namespaces are the ends of one pair.
fn is_pair(inner: Option<&Link>, outer: &Link) -> bool {
    inner.is_some_and(|inner| {
        let veths = inner.kind == "veth" && outer.kind == "veth";
        let elsewhere = inner.peer_elsewhere && outer.peer_elsewhere;
        veths && elsewhere && inner.peer == Some(outer.index) && outer.peer == Some(inner.index)
    })
}

/// Whether a link is the one of a result: the name may be another pod's by now, the MAC is not.
fn is_told(link: &Link, interface: &Interface) -> bool {
    let mac: Option<Mac> = interface.mac.parse().ok();
    let on_node = interface.sandbox.is_empty() && link.kind == "veth";
    on_node && mac.is_some() && link.mac == mac
}

#[cfg(test)]
mod tests {
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
    fn a_pair_refers_to_each_other() {
        let inner = veth(2, 7);
        assert!(is_pair(Some(&inner), &veth(7, 2)));
        assert!(!is_pair(None, &veth(7, 2)));
        assert!(!is_pair(Some(&inner), &veth(7, 3)));
        assert!(!is_pair(Some(&inner), &veth(8, 2)));
        let here = Link {
            peer_elsewhere: false,
            ..veth(7, 2)
        };
        assert!(!is_pair(Some(&inner), &here));
        let bridge = Link {
            kind: "bridge".to_string(),
            ..veth(7, 2)
        };
        assert!(!is_pair(Some(&inner), &bridge));
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

    #[test]
    fn a_told_link_is_a_veth_of_the_node_with_the_told_mac() {
        let mac = Mac([2, 0, 0, 0, 0, 9]);
        let link = Link {
            mac: Some(mac),
            ..veth(7, 2)
        };
        let interface = |mac: &str, sandbox: &str| Interface {
            name: "veth0".to_string(),
            mac: mac.to_string(),
            sandbox: sandbox.to_string(),
            ..Interface::default()
        };
        assert!(is_told(&link, &interface(&mac.to_string(), "")));
        assert!(!is_told(
            &link,
            &interface(&mac.to_string(), "/run/netns/x")
        ));
        assert!(!is_told(&link, &interface("02:00:00:00:00:0a", "")));
        assert!(!is_told(&link, &interface("", "")));
    }
}
