//! Routes and next hops.

use std::net::IpAddr;

use net::route::{Entry, Kind};

use super::hop::{Hop, Way};
use super::{Pod, Walk};
use crate::site::Peer;
use crate::{Node, Site};

impl Site {
    /// The other node that has an address, or a pod range with it.
    pub(super) fn peer_with(&self, address: IpAddr) -> Option<&Peer> {
        self.peers.iter().find(|peer| {
            let mut ranges = peer.ranges.iter();
            peer.addresses.contains(&address) || ranges.any(|range| range.contains(&address))
        })
    }
}

/// A route, without a word on what goes that way.
pub(super) fn listed(node: &Node, entry: &Entry) -> Hop {
    let route = &entry.route;
    let name = match route.dst.prefix_len() {
        0 => "default".to_owned(),
        _ => route.dst.to_string(),
    };
    let kind = Some(entry.kind).filter(|kind| *kind != Kind::Unicast);
    let device = Some(route.index).filter(|index| *index != 0);
    let metric = route.priority.filter(|metric| *metric != 0);
    Hop::new(Way::Out, "route", name)
        .fact_of("kind", kind)
        .fact_of("via", route.gateway)
        .fact_of("dev", device.map(|index| node.name_of(index)))
        .fact_of("metric", metric)
}

/// The route by which an address is reached.
fn route_to(node: &Node, kind: &'static str, to: IpAddr, entry: Option<&Entry>) -> Hop {
    let Some(entry) = entry else {
        let hop = Hop::new(Way::Out, kind, "none").fact("to", to);
        return hop.fault_if(true, format!("no route leads to {to}"));
    };
    let drops = matches!(
        entry.kind,
        Kind::Blackhole | Kind::Unreachable | Kind::Prohibit
    );
    let hop = listed(node, entry).fact("to", to);
    let hop = hop
        .fault_if(drops, format!("the route is of kind {}", entry.kind))
        .fault_if(entry.dead, "the link that it leads to is down");
    Hop { kind, ..hop }
}

impl<'a> Walk<'a> {
    /// The route in the pod; `None` where it leads nowhere, or cannot be known.
    pub(super) fn pod_route<'p>(&mut self, pod: &'p Pod, to: IpAddr) -> Option<&'p Entry> {
        let Some(Ok(inside)) = &pod.inside else {
            return None;
        };
        let entry = inside.way_to(to);
        let hop = route_to(inside, "pod-route", to, entry);
        let stops = hop.fault.is_some();
        self.push(hop);
        entry.filter(|_| !stops)
    }

    /// The node's route, by which the packet goes on; `None` where it leads nowhere.
    pub(super) fn route(&mut self, way: Way, to: IpAddr) -> Option<&'a Entry> {
        let entry = self.case.node.way_to(to);
        let hop = route_to(self.case.node, "route", to, entry);
        let stops = hop.fault.is_some();
        self.push(Hop { way, ..hop });
        entry.filter(|_| !stops)
    }

    /// Out by a link to the next hop, or to the address itself where there is none.
    pub(super) fn leave(&mut self, to: IpAddr, entry: &Entry) {
        let node = self.case.node;
        let index = entry.route.index;
        self.uplink(Way::Out, index);
        let hop = entry.route.gateway.unwrap_or(to);
        let off = entry.route.gateway.is_some_and(|gateway| {
            // Routers of IPv6 are known by addresses of the link itself.
            let local = matches!(gateway, IpAddr::V6(ip) if ip.is_unicast_link_local());
            !entry.on_link && !local && node.on_link(gateway) != Some(index)
        });
        let peer = self.case.site.and_then(|site| {
            let of_hop = site.peer_with(hop);
            of_hop.or_else(|| site.peer_with(to))
        });
        let hop = Hop::new(Way::Out, "next-hop", hop)
            .fact("dev", node.name_of(index))
            .fact_of("node", peer.map(|peer| &peer.name));
        self.push(hop.fault_if(off, "it is not on the link"));
    }

    /// Whether the node passes packets on that come in by a link.
    pub(super) fn forwarding(&mut self, way: Way, input: &str, like: IpAddr) {
        let (name, paths) = match like {
            IpAddr::V4(_) => (
                "ipv4",
                [
                    "net/ipv4/ip_forward".to_owned(),
                    format!("net/ipv4/conf/{input}/forwarding"),
                ],
            ),
            IpAddr::V6(_) => (
                "ipv6",
                ["net/ipv6/conf/all/forwarding".to_owned(), String::new()],
            ),
        };
        let off = paths
            .iter()
            .find(|path| self.case.node.sysctl(path) == Some("0"));
        let state = if off.is_some() { "off" } else { "on" };
        let why = format!("{} is 0", off.map_or("", |path| path));
        let hop = Hop::new(way, "forwarding", name).fact("state", state);
        self.push(hop.fault_if(off.is_some(), why));
    }
}
