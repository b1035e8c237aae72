//! Rules: host ports, what is dropped, and what gets another source.

use std::net::{IpAddr, SocketAddr};

use firewall::view::{Exit, Forwarding, Packet, shadowed};
use ipnet::IpNet;

use super::hop::{Hop, Way};
use super::{Sender, Walk};

/// A host port as it is asked for: protocol, address where it has one, and port.
fn port_name(port: &Forwarding) -> String {
    let mapping = &port.mapping;
    match mapping.host_ip.filter(|ip| !ip.is_unspecified()) {
        Some(ip) => format!(
            "{}/{}",
            mapping.protocol,
            SocketAddr::new(ip, mapping.host_port)
        ),
        None => format!("{}/{}", mapping.protocol, mapping.host_port),
    }
}

fn port_hop(way: Way, port: &Forwarding) -> Hop {
    let to = SocketAddr::new(port.target, port.mapping.container_port);
    let comment = Some(&port.comment).filter(|comment| !comment.is_empty());
    let conditions = port.conditional.then_some("not judged");
    Hop::new(way, "host-port", port_name(port))
        .fact("to", to)
        .fact("backend", port.backend)
        .list("masquerades", &port.masquerades)
        .fact_of("conditions", conditions)
        .fact_of("rule", comment)
}

impl Walk<'_> {
    /// The host ports that lead to one of the addresses.
    pub(super) fn host_ports(&mut self, addresses: &[IpAddr]) {
        let ports = &self.case.node.rules.ports;
        let shadows = shadowed(ports);
        for port in ports.iter().filter(|port| addresses.contains(&port.target)) {
            let before = shadows.iter().find(|(_, late)| std::ptr::eq(*late, port));
            let before =
                before.map(|(early, _)| format!("a rule before it leads to {}", early.target));
            let hop = port_hop(Way::In, port);
            self.push(hop.fault_if(before.is_some(), before.unwrap_or_default()));
        }
    }

    /// The host port that takes a connection.
    pub(super) fn host_port(&mut self, port: &Forwarding) {
        self.push(port_hop(Way::Out, port));
    }

    /// Whether a packet is dropped on its way through the node.
    /// One whose address was translated on its way had another when the first chains were asked.
    pub(super) fn filter(&mut self, way: Way, packet: &Packet, is_translated: bool) {
        let range = IpNet::from(packet.source);
        let gates = self.case.node.rules.gates.iter();
        let mut gates = gates.filter(|gate| !(is_translated && gate.is_early()));
        let dropped = gates.find_map(|gate| gate.drops(packet, range));
        let verdict = if dropped.is_some() { "drop" } else { "no-drop" };
        let hop = Hop::new(way, "filter", "forward")
            .fact("from", packet.source)
            .fact("to", packet.destination)
            .fact("iif", &packet.input)
            .fact("oif", &packet.output)
            .fact("verdict", verdict);
        let why = dropped.as_ref().map_or("", |dropped| &dropped.by);
        self.push(hop.fault_if(dropped.is_some(), format!("dropped by {why}")));
    }

    /// Whether a packet that leaves gets the node's address. One that came by a host port may be
    /// marked for that.
    pub(super) fn masquerade(&mut self, packet: &Packet, by: Option<&Forwarding>) {
        let mut marked = by.iter().flat_map(|port| &port.masquerades);
        let from = marked.find(|net| net.contains(&packet.source));
        let (verdict, rule) = match (from, self.case.node.rules.exit(packet)) {
            (Some(net), _) => (
                "yes",
                Some(format!("marked by the host port, as it comes from {net}")),
            ),
            (None, Exit::Masqueraded(rule)) => ("yes", Some(rule)),
            (None, Exit::Kept(rule)) => ("no", rule),
            (None, Exit::Unsure(rule)) => ("unsure", Some(rule)),
        };
        let rule = rule.unwrap_or_else(|| "none is about it".to_owned());
        let hop = Hop::new(Way::Out, "masquerade", verdict).fact("source", packet.source);
        self.push(hop.fact("rule", rule));
    }

    /// Whether frames between the ports of a bridge pass the rules of their packets.
    pub(super) fn is_bridged_filtered(&self, like: IpAddr) -> bool {
        let family = if like.is_ipv4() {
            "iptables"
        } else {
            "ip6tables"
        };
        let path = format!("net/bridge/bridge-nf-call-{family}");
        self.case.node.sysctl(&path) == Some("1")
    }
}

impl Sender {
    /// The packet that leaves by a link.
    pub(super) fn packet(&self, output: String, destination: IpAddr) -> Packet {
        Packet {
            input: self.input.clone(),
            output,
            source: self.source,
            destination,
        }
    }
}
