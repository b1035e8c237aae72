//! DEL: cleans by the attachment alone, whatever else is missing or wrong, and goes on after an
//! error.

use cni::{AddResult, Command, Context, Error, Interface, IpConfig, Request};
use firewall::masquerade;
use ipnet::IpNet;
use net::{Link, Mac, Netlink};

use crate::config::DelConfig;
use crate::identity::Identity;
use crate::place::pod_if_there;
use crate::{ipam, owner};

/// Unmakes the attachment. The address is released last, when nothing uses it any more, and also
/// where something else could not be removed.
pub fn del(request: &Request) -> Result<(), Error> {
    let config = DelConfig::read(request);
    let steps = [
        remove_rules(request, &config),
        remove_links(request, &config),
        release(request),
    ];
    Error::all(steps.into_iter().filter_map(Result::err).collect())
}

fn remove_rules(request: &Request, config: &DelConfig) -> Result<(), Error> {
    let attachment = request.attachment();
    let previous = request.config.prev_result().ok().flatten();
    let addresses = previous.map_or_else(Vec::new, |previous| told_addresses(&previous, request));
    let deleted = masquerade::delete(owner(&attachment), &addresses, config.ip_masq);
    deleted.context(format!(
        "masquerade rules of {attachment} may still be there"
    ))
}

/// The addresses of the pod's interface, by which what a reference plugin made is recognised.
fn told_addresses(previous: &AddResult, request: &Request) -> Vec<IpNet> {
    let on_interface = |ip: &&IpConfig| {
        let interface = previous.interface_of(ip);
        interface.is_none_or(|i| i.name == request.env.ifname && !i.sandbox.is_empty())
    };
    let ips = previous.ips.iter().filter(on_interface);
    ips.map(|ip| ip.address).collect()
}

fn release(request: &Request) -> Result<(), Error> {
    match ipam(request) {
        Ok(Some(ipam)) => ipam.call(Command::Del, request),
        Ok(None) => Ok(()),
        Err(mut error) => {
            let attachment = request.attachment();
            error.msg = format!("{}; the address of {attachment} is not released", error.msg);
            Err(error)
        }
    }
}

/// Deletes the veth pair by either end: the other goes with it.
fn remove_links(request: &Request, config: &DelConfig) -> Result<(), Error> {
    let attachment = request.attachment();
    let failed = format!("links of {attachment} may still be there");
    let node = Netlink::current().context(&failed)?;
    let identity = Identity::of(&attachment);
    let derived = node.link(&identity.name).context(&failed)?;
    if let Some(port) = derived.filter(|link| identity.owns(link)) {
        return node.delete_link(port.index).map(drop).context(&failed);
    }
    // What is left is a pair that was renamed, or that a reference plugin made.
    let previous = request.config.prev_result().ok().flatten();
    if let Some(port) = told(&node, &identity, previous.as_ref()).context(&failed)? {
        node.delete_link(port.index).map(drop).context(&failed)?;
    }
    let Some(pod) = pod_if_there(request) else {
        return Ok(());
    };
    let Some(inner) = pod.link(&attachment.ifname).context(&failed)? else {
        return Ok(());
    };
    let port = match inner.peer.filter(|_| inner.peer_elsewhere) {
        Some(peer) => node.link_by_index(peer).context(&failed)?,
        None => None,
    };
    let bridge = node.link(config.bridge()).context(&failed)?;
    let ours = port.is_some_and(|port| {
        is_pair(&inner, &port) && { identity.owns(&port) || unmarked_port(&port, bridge.as_ref()) }
    });
    if ours {
        // By the pod's end: no other pod can have that one, whatever the indexes say.
        pod.delete_link(inner.index).map(drop).context(&failed)?;
    }
    Ok(())
}

/// The host veth that a previous result tells, if it is still the same and no other attachment's.
fn told(
    node: &Netlink,
    identity: &Identity,
    previous: Option<&AddResult>,
) -> net::Result<Option<Link>> {
    let interfaces = previous.map_or(&[][..], |previous| &previous.interfaces);
    for interface in interfaces.iter().filter(|i| i.sandbox.is_empty()) {
        let link = node.link(&interface.name)?;
        let ours = |link: &Link| identity.owns(link) || is_unmarked(link);
        if let Some(link) = link.filter(|link| is_told(link, interface) && ours(link)) {
            return Ok(Some(link));
        }
    }
    Ok(None)
}

/// Its MAC says that it is the link of then: the name may be another pod's by now.
fn is_told(link: &Link, interface: &Interface) -> bool {
    let told: Option<Mac> = interface.mac.parse().ok();
    link.kind == "veth" && told.is_some() && link.mac == told
}

/// Whether two links of different namespaces are the ends of one pair.
fn is_pair(inner: &Link, port: &Link) -> bool {
    let veths = inner.kind == "veth" && port.kind == "veth";
    let elsewhere = inner.peer_elsewhere && port.peer_elsewhere;
    veths && elsewhere && inner.peer == Some(port.index) && port.peer == Some(inner.index)
}

/// Whether a veth is one that a reference plugin made for this bridge: its port, or nobody's where
/// the bridge is gone, and without the marks of another attachment.
fn unmarked_port(port: &Link, bridge: Option<&Link>) -> bool {
    port.master == bridge.map(|bridge| bridge.index) && is_unmarked(port)
}

/// Whether a link carries none of the marks that this plugin gives.
fn is_unmarked(link: &Link) -> bool {
    link.alias.is_empty() && link.group == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::link;

    fn pair() -> (Link, Link) {
        let inner = Link {
            index: 2,
            peer: Some(7),
            peer_elsewhere: true,
            ..link("veth")
        };
        let port = Link {
            index: 7,
            peer: Some(2),
            peer_elsewhere: true,
            master: Some(3),
            ..link("veth")
        };
        (inner, port)
    }

    #[test]
    fn a_pair_refers_to_each_other() {
        let (inner, port) = pair();
        assert!(is_pair(&inner, &port));
        let changed = |change: fn(&mut Link)| {
            let mut port = port.clone();
            change(&mut port);
            is_pair(&inner, &port)
        };
        assert!(!changed(|port| port.peer = Some(3)));
        assert!(!changed(|port| port.index = 8));
        assert!(!changed(|port| port.peer_elsewhere = false));
        assert!(!changed(|port| port.kind = "dummy".into()));
    }

    #[test]
    fn only_an_unmarked_port_of_the_bridge_is_a_reference_plugin_s() {
        let (_, port) = pair();
        let bridge = Link {
            index: 3,
            ..link("bridge")
        };
        assert!(unmarked_port(&port, Some(&bridge)));
        assert!(!unmarked_port(&port, None));
        let of_none = Link {
            master: None,
            ..port.clone()
        };
        assert!(unmarked_port(&of_none, None));
        assert!(!unmarked_port(&of_none, Some(&bridge)));
        let other_bridge = Link {
            index: 4,
            ..bridge.clone()
        };
        assert!(!unmarked_port(&port, Some(&other_bridge)));
        let another_s = Link {
            alias: "n/other/eth0".into(),
            ..port
        };
        assert!(!unmarked_port(&another_s, Some(&bridge)));
    }

    #[test]
    fn a_told_link_has_the_told_mac() {
        let mac = Mac([2, 0, 0, 0, 0, 9]);
        let veth = Link {
            mac: Some(mac),
            ..link("veth")
        };
        let interface = |mac: &str| Interface {
            name: "veth0".into(),
            mac: mac.into(),
            ..Interface::default()
        };
        assert!(is_told(&veth, &interface(&mac.to_string())));
        assert!(!is_told(&veth, &interface("02:00:00:00:00:0a")));
        assert!(!is_told(&veth, &interface("")));
        let bridge = Link {
            kind: "bridge".into(),
            ..veth
        };
        assert!(!is_told(&bridge, &interface(&mac.to_string())));
    }
}
