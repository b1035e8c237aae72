//! Whole paths: of a pod, of another node's, and to a destination.

use std::net::IpAddr;

use firewall::hostport::Protocol;
use firewall::view::Forwarding;
use net::route::{Entry, Kind};

use super::hop::{Hop, Way};
use super::{Destination, Pod, Sender, Walk, outside};
use crate::node::{Listener, Node};

impl Walk<'_> {
    /// Out of a pod and back into it.
    pub(super) fn pod(&mut self, pod: &Pod) {
        let addresses = self.addresses(pod);
        let inputs = self.input_of(pod);
        self.pod_link(Way::Out, pod);
        for address in &addresses {
            self.pod_route(pod, outside(*address));
        }
        self.veth(Way::Out, pod);
        for address in &addresses {
            let (input, source) = (inputs.clone(), *address);
            self.leave_node(&Sender { input, source });
        }
        self.host_ports(&addresses);
        for address in &addresses {
            self.come_back(*address, &inputs);
        }
        self.veth(Way::In, pod);
        self.pod_link(Way::In, pod);
    }

    /// Out of the node to the outside, or where no route leads there to another node's pod.
    fn leave_node(&mut self, from: &Sender) {
        let node = self.case.node;
        let outside = outside(from.source);
        let planned = self.case.site.into_iter().flat_map(|site| &site.planned);
        let mut peers = planned.map(|planned| plan::range::nth(planned.range, 2));
        let peer =
            peers.find(|peer| peer.is_ipv4() == outside.is_ipv4() && node.way_to(*peer).is_some());
        let to = match node.way_to(outside) {
            Some(_) => outside,
            None => peer.unwrap_or(outside),
        };
        self.forward(from, to, None);
    }

    /// From the outside into a pod, up to its bridge.
    fn come_back(&mut self, address: IpAddr, bridge: &str) {
        let node = self.case.node;
        let Some(entry) = self.route(Way::In, address) else {
            return;
        };
        let device = node.name_of(entry.route.index);
        let elsewhere = device != bridge;
        if let Some(hop) = self.hops.last_mut().filter(|_| elsewhere) {
            hop.fault = Some(format!("it leads to {device}, and the pod is at {bridge}"));
        }
        if let Some(way) = node.way_to(outside(address)) {
            let from = Sender::outside(node.name_of(way.route.index), address);
            // An answer comes to the node's address, where that is what was sent.
            self.filter(Way::In, &from.packet(device, address), true);
        }
    }

    /// From a pod to a destination.
    pub(super) fn send_from_pod(&mut self, pod: &Pod, to: Destination) {
        let node = self.case.node;
        let mut own = self.addresses(pod).into_iter();
        let own = own.find(|own| own.is_ipv4() == to.address.is_ipv4());
        self.pod_link(Way::Out, pod);
        let inside = matches!(pod.inside, Some(Ok(_)));
        let route = self.pod_route(pod, to.address);
        if inside && route.is_none() {
            return;
        }
        if let (true, Some(Ok(inside))) = (route.is_some_and(is_local), &pod.inside) {
            return self.push(local(inside, IN_POD, to));
        }
        self.veth(Way::Out, pod);
        let Some(source) = own else {
            let hop = Hop::new(Way::Out, "source", "none").fact("to", to.address);
            self.push(hop.fault_if(true, "the pod has no address of this family"));
            return;
        };
        let input = self.input_of(pod);
        let direct = route.is_some_and(|entry| entry.route.gateway.is_none());
        let from = Sender { input, source };
        if direct && !node.has(to.address) && !self.is_for_all(to.address) {
            self.across(&from, pod, to.address);
        } else {
            self.deliver(&from, to);
        }
    }

    /// Over the bridge alone, to another of its pods.
    fn across(&mut self, from: &Sender, pod: &Pod, to: IpAddr) {
        if self.is_bridged_filtered(to) {
            let packet = from.packet(from.input.clone(), to);
            self.filter(Way::Out, &packet, false);
        }
        let isolated = |index: Option<u32>| {
            let link = index.and_then(|index| self.case.node.link_by_index(index));
            link.and_then(|link| link.port)
                .is_some_and(|port| port.isolated)
        };
        let other = self.case.node.pod_with(to).and_then(|other| other.veth);
        let apart = isolated(pod.veth) && isolated(other);
        let why = "no frame passes between two isolated ports";
        if apart {
            let hop = Hop::new(Way::Out, "bridge", &from.input);
            self.push(hop.fault_if(true, why));
        }
        self.enter_pod(to);
    }

    /// To an address, of the node or beyond it.
    pub(super) fn deliver(&mut self, from: &Sender, to: Destination) {
        let node = self.case.node;
        if self.is_for_all(to.address) {
            let hop = Hop::new(Way::Out, "for-all", to.address);
            let why =
                "no node forwards a broadcast or multicast: it reaches what is on the link alone";
            return self.push(hop.fault_if(true, why));
        }
        if !node.has(to.address) {
            if node.rules.services {
                let hop = Hop::new(Way::Out, "services", "kube-proxy");
                self.push(hop.fact("note", "an address of a Service is translated here"));
            }
            return self.forward(from, to.address, None);
        }
        let mut ports = node.rules.ports.iter();
        let port = to.port;
        let taken =
            ports.find(|it| port.is_some_and(|port| it.takes(to.address, port, to.protocol)));
        match taken {
            Some(taken) => {
                self.host_port(taken);
                self.forward(from, taken.target, Some(taken));
            }
            None => self.push(local(node, IN_NODE, to)),
        }
    }

    /// Whether it is no host's address, but a group's or everybody's on a link.
    fn is_for_all(&self, to: IpAddr) -> bool {
        let everybody = to.is_ipv4() && to == IpAddr::V4(std::net::Ipv4Addr::BROADCAST);
        let of_link = self.case.node.way_to(to);
        to.is_multicast() || everybody || of_link.is_some_and(|it| it.kind == Kind::Broadcast)
    }

    /// Through the node.
    fn forward(&mut self, from: &Sender, to: IpAddr, by: Option<&Forwarding>) {
        self.forwarding(Way::Out, &from.input, to);
        let Some(entry) = self.route(Way::Out, to) else {
            return;
        };
        let output = self.case.node.name_of(entry.route.index);
        let packet = from.packet(output, to);
        self.filter(Way::Out, &packet, by.is_some());
        self.masquerade(&packet, by);
        let own = self.case.own_ranges();
        let is_own =
            entry.route.gateway.is_none() && own.iter().any(|(range, _)| range.contains(&to));
        if is_own || self.case.node.pod_with(to).is_some() {
            self.enter_pod(to);
        } else {
            self.leave(to, entry);
        }
    }

    /// Into the pod that has an address.
    fn enter_pod(&mut self, address: IpAddr) {
        let Some(pod) = self.case.node.pod_with(address) else {
            let hop = Hop::new(Way::In, "pod", address);
            return self.push(hop.fault_if(true, "no pod of this node has the address"));
        };
        let name = pod.attachment.as_ref().map(ToString::to_string);
        let hop = Hop::new(Way::In, "pod", name.unwrap_or_default()).fact("address", address);
        self.push(hop);
        self.veth(Way::In, &pod);
        self.pod_link(Way::In, &pod);
    }

    /// To another node, or a pod there.
    pub(super) fn elsewhere(&mut self, address: IpAddr, name: &str) {
        self.push(Hop::new(Way::Out, "node", name).fact("address", address));
        if let Some(entry) = self.route(Way::Out, address) {
            self.leave(address, entry);
        }
    }

    /// From another node, or a pod there, to a destination.
    pub(super) fn send_from_elsewhere(&mut self, source: IpAddr, to: Destination) {
        let way = self.case.node.way_to(source);
        let input = way.map(|way| self.case.node.name_of(way.route.index));
        let input = input.unwrap_or_default();
        self.deliver(&Sender { input, source }, to);
    }

    /// The addresses of a pod, the first of each family.
    fn addresses(&self, pod: &Pod) -> Vec<IpAddr> {
        let mut all: Vec<IpAddr> = match &pod.inside {
            Some(Ok(inside)) => {
                let link = inside.link(&pod.ifname).map(|link| link.index);
                let addresses = link
                    .into_iter()
                    .flat_map(|index| inside.addresses_of(index));
                addresses
                    .filter(|it| it.global)
                    .map(|it| it.net.addr())
                    .collect()
            }
            _ => self.reserved(pod),
        };
        let mut families = Vec::new();
        all.retain(|address| {
            let new = !families.contains(&address.is_ipv4());
            families.push(address.is_ipv4());
            new
        });
        all
    }

    /// What is reserved for a pod that nobody can look into.
    fn reserved(&self, pod: &Pod) -> Vec<IpAddr> {
        let Some(attachment) = &pod.attachment else {
            return Vec::new();
        };
        let networks = self.case.node.networks.iter();
        let networks = networks.filter(|network| network.name == attachment.network);
        let reserved = networks.flat_map(|network| network.reservations.iter().flatten());
        let own = reserved.filter(|one| {
            let ifname = one.ifname.as_ref();
            one.container_id == attachment.container_id
                && ifname.is_none_or(|ifname| *ifname == attachment.ifname)
        });
        own.map(|one| one.address).collect()
    }

    /// The link by which a pod's packets come into the node: its bridge, or its own where it is no port.
    fn input_of(&self, pod: &Pod) -> String {
        let node = self.case.node;
        let link = pod.veth.and_then(|index| node.link_by_index(index));
        let index = link.and_then(|link| link.master.or(Some(link.index)));
        index.map(|index| node.name_of(index)).unwrap_or_default()
    }
}

/// Where a packet ends, and what is said where nobody takes it.
type End = (&'static str, &'static str);
const IN_NODE: End = (
    "the node",
    "no host port and no process of the node takes it",
);
const IN_POD: End = ("the pod", "no process in the pod takes it");

fn is_local(entry: &Entry) -> bool {
    entry.kind == Kind::Local
}

/// To a namespace's own address.
fn local(node: &Node, (place, nobody): End, to: Destination) -> Hop {
    let hop = Hop::new(Way::Out, "local", to.address).fact("in", place);
    let Some(port) = to.port else {
        return hop;
    };
    let mut listeners = node.listeners.iter();
    let listener = listeners.find(|it| it.takes(to.address, port, to.protocol));
    let process = listener.and_then(|it| it.process.as_ref());
    let process = process.map(|(number, name)| format!("{name}({number})"));
    // Sockets of SCTP are not read.
    let none = listener.is_none() && to.protocol != Protocol::Sctp;
    hop.fact("port", format!("{}/{port}", to.protocol))
        .fact_of("process", process)
        .fault_if(none, nobody)
}

impl Listener {
    /// Whether a connection to an address and port reaches it.
    fn takes(&self, address: IpAddr, port: u16, protocol: Protocol) -> bool {
        let own = self.address;
        // One that waits at `::` takes IPv4 as well.
        let all = own.ip().is_unspecified() && (own.is_ipv6() || address.is_ipv4());
        (self.protocol, own.port()) == (protocol, port) && (all || own.ip() == address)
    }
}
