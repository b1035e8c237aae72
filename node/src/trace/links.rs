//! Links, their qdiscs, and the bridge.

use net::{Address, Link, PortState};

use super::hop::{Hop, Way};
use super::{Pod, Walk};
use crate::Node;

/// `TC_H_ROOT` of linux/pkt_sched.h.
const ROOT: u32 = 0xffff_ffff;

/// A link as `ip link` names it, with the index of its other end in another namespace.
fn name_of(link: &Link) -> String {
    match link.peer.filter(|_| link.peer_elsewhere) {
        Some(peer) => format!("{}@if{peer}", link.name),
        None => link.name.clone(),
    }
}

fn of_link(way: Way, kind: &'static str, link: &Link) -> Hop {
    let state = if link.up { "up" } else { "down" };
    let hop = Hop::new(way, kind, name_of(link)).fact("state", state);
    hop.fact("mtu", link.mtu).fact_of("mac", link.mac)
}

/// A pod's interface, in its namespace.
fn inner(way: Way, ifname: &str, link: Option<&Link>, addresses: &[&Address]) -> Hop {
    let Some(link) = link else {
        let hop = Hop::new(way, "pod-link", ifname);
        return hop.fault_if(true, "the pod has no such interface");
    };
    let none = addresses.iter().all(|address| !address.global);
    let hop = of_link(way, "pod-link", link);
    hop.list("address", addresses.iter().map(|address| address.net))
        .fault_if(!link.up, "it is down")
        .fault_if(none, "it has no address")
}

impl Walk<'_> {
    /// A pod's interface as it is inside.
    pub(super) fn pod_link(&mut self, way: Way, pod: &Pod) {
        let hop = match &pod.inside {
            Some(Ok(inside)) => {
                let link = inside.link(&pod.ifname);
                let addresses = link.map(|link| inside.addresses_of(link.index).collect());
                inner(way, &pod.ifname, link, &addresses.unwrap_or_else(Vec::new))
            }
            Some(Err(why)) => {
                let text = format!("nobody can look into the pod: {why}");
                Hop::new(way, "pod-link", &pod.ifname).fault_if(true, text)
            }
            None => self.cached_link(way, pod),
        };
        self.push(hop);
    }

    /// The same by what was read with the cache.
    fn cached_link(&self, way: Way, pod: &Pod) -> Hop {
        let attached = pod.attachment.as_ref();
        let attached = attached.and_then(|attachment| self.case.node.attached(attachment));
        match attached.map(|attached| &attached.netns) {
            Some(crate::Netns::Open { link, addresses }) => {
                let addresses: Vec<&Address> = addresses.iter().collect();
                inner(way, &pod.ifname, link.as_ref(), &addresses)
            }
            Some(crate::Netns::Gone) => {
                Hop::new(way, "pod-link", &pod.ifname).fault_if(true, "its namespace is no more")
            }
            _ => Hop::new(way, "pod-link", &pod.ifname).fact("inside", "unknown"),
        }
    }

    /// The node's end of a pod's pair: out of the pod what comes in there passes its ingress, into
    /// it what leaves there its root.
    pub(super) fn veth(&mut self, way: Way, pod: &Pod) {
        let node = self.case.node;
        let Some(link) = pod.veth.and_then(|index| node.link_by_index(index)) else {
            let name = pod.attachment.as_ref().map(ToString::to_string);
            let hop = Hop::new(way, "veth", name.unwrap_or_else(|| pod.ifname.clone()));
            self.push(hop.fault_if(true, "the node has no link of this pod"));
            return;
        };
        let alias = Some(&link.alias).filter(|alias| !alias.is_empty());
        let veth = of_link(way, "veth", link)
            .fact_of("alias", alias)
            .fault_if(!link.up, "it is down")
            .fault_if(
                !link.oper_up,
                "it has no carrier: its other end, in the pod, is down",
            );
        match way {
            Way::Out => {
                self.push(veth);
                self.push(self.shaped_out(link));
                self.port(way, link);
            }
            Way::In => {
                self.port(way, link);
                self.push(shaped(self.case.node, way, link));
                self.push(veth);
            }
        }
    }

    /// What limits a pod's egress: what comes in by the link is redirected to an ifb.
    fn shaped_out(&self, link: &Link) -> Hop {
        let node = self.case.node;
        let mut redirects = node.redirects.iter();
        let Some((_, target)) = redirects.find(|(from, _)| *from == link.index) else {
            return Hop::new(Way::Out, "qdisc", &link.name).fact("rate", "unlimited");
        };
        match node.link_by_index(*target) {
            None => Hop::new(Way::Out, "qdisc", &link.name).fault_if(
                true,
                "what the pod sends is redirected to an ifb that is gone",
            ),
            Some(ifb) => shaped(node, Way::Out, ifb).fault_if(!ifb.up, "the ifb is down"),
        }
    }

    /// The bridge, and what it does with frames of the port; in the order of the way.
    fn port(&mut self, way: Way, link: &Link) {
        let state = link.port_state;
        let flag = |on: bool| if on { "on" } else { "off" };
        let bridge = link.master.map(|master| self.case.node.name_of(master));
        let port = Hop::new(way, "port", &link.name)
            .fact_of("bridge", bridge.as_ref())
            .fact_of("state", state)
            .fact_of("hairpin", link.port.map(|port| flag(port.hairpin)))
            .fact_of("isolated", link.port.map(|port| flag(port.isolated)))
            .fault_if(bridge.is_none(), "it is no port of a bridge")
            .fault_if(
                state.is_some_and(|state| state != PortState::Forwarding),
                "the port does not forward",
            );
        let bridge = link
            .master
            .and_then(|index| self.case.node.link_by_index(index));
        let bridge = bridge.map(|bridge| self.bridge(way, bridge));
        match way {
            Way::Out => self.hops.extend([port].into_iter().chain(bridge)),
            Way::In => self.hops.extend(bridge.into_iter().chain([port])),
        }
    }

    fn bridge(&self, way: Way, bridge: &Link) -> Hop {
        let addresses = self.case.node.addresses_of(bridge.index);
        of_link(way, "bridge", bridge)
            .list("address", addresses.map(|address| address.net))
            .fault_if(!bridge.up, "it is down")
    }

    /// A link by which packets leave the node, once for each way.
    pub(super) fn uplink(&mut self, way: Way, index: u32) {
        let Some(link) = self.case.node.link_by_index(index) else {
            return;
        };
        let hop = of_link(way, "uplink", link).fault_if(!link.up, "it is down");
        if !self.hops.contains(&hop) {
            self.push(hop);
        }
    }

    /// A link that is no pod's: itself, its ports, and the routes that lead out by it.
    pub(super) fn link(&mut self, index: u32) {
        let node = self.case.node;
        let Some(link) = node.link_by_index(index) else {
            return;
        };
        let addresses = node.addresses_of(index).map(|address| address.net);
        let hop = of_link(Way::Out, "link", link).list("address", addresses);
        self.push(hop.fault_if(!link.up, "it is down"));
        self.push(shaped(node, Way::Out, link));
        for entry in node
            .main_routes()
            .filter(|entry| entry.route.index == index)
        {
            self.push(super::routes::listed(node, entry));
        }
        for port in node.ports_of(index) {
            let alias = Some(&port.alias).filter(|alias| !alias.is_empty());
            let forwards = port.port_state.is_none_or(|it| it == PortState::Forwarding);
            let hop = Hop::new(Way::In, "port", name_of(port))
                .fact("bridge", &link.name)
                .fact_of("state", port.port_state)
                .fact_of("alias", alias);
            self.push(hop.fault_if(!forwards, "the port does not forward"));
        }
    }
}

/// The root qdisc of a link. The rate is in bits per second.
fn shaped(node: &Node, way: Way, link: &Link) -> Hop {
    let mut qdiscs = node.qdiscs.iter();
    let root = qdiscs.find(|(index, qdisc)| *index == link.index && qdisc.parent == ROOT);
    let root = root.map(|(_, qdisc)| qdisc);
    let hop = Hop::new(way, "qdisc", &link.name).fact_of("kind", root.map(|qdisc| &qdisc.kind));
    match root.and_then(|qdisc| qdisc.tbf) {
        Some(tbf) => {
            let bits = tbf.rate.saturating_mul(8);
            hop.fact("rate", format!("{bits}bit"))
                .fact("limit", format!("{}b", tbf.limit))
        }
        None => hop.fact("rate", "unlimited"),
    }
}
