//! Rules that drop what pods send or get.

use std::net::IpAddr;

use firewall::view::{Dropped, Packet};
use ipnet::IpNet;
use net::Link;

use crate::case::Case;
use crate::finding::{Finding, Kind};

pub const KIND: Kind = Kind {
    id: "forward-dropped",
    means: "The policy or a rule of a chain that forwarded packets pass drops pods' packets: iptables' \
            FORWARD or PREROUTING, or a chain of nftables at the hooks `forward` and `prerouting`. Only what \
            is dropped for certain is found; tables of the families `bridge` and `netdev`, and sets of ipset, \
            are not looked at.",
    mend: "let the pod range pass, or remove the rule",
    needs_plan: false,
    look,
};

/// Hosts of nobody (RFC 5737 and RFC 3849), for what is outside.
const OUTSIDE: [&str; 2] = ["192.0.2.254", "2001:db8::fffe"];

/// A way that pods' packets go, in words, with what such a packet may look like.
struct Flow {
    name: String,
    packet: Packet,
    /// With the other node's address, where that node masquerades.
    masqueraded: Option<Packet>,
    /// It comes to the node's address, and gets the pod's by a host port.
    is_translated: bool,
}

fn look(case: &Case) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    for (bridge, link) in case.gateways() {
        for gateway in &bridge.gateways {
            let range = gateway.trunc();
            for flow in flows(case, link, range) {
                for dropped in drops(case, &flow, range) {
                    note(&mut found, &flow, dropped);
                }
            }
        }
    }
    found
}

fn drops(case: &Case, flow: &Flow, range: IpNet) -> Vec<Dropped> {
    let gates = case.node.rules.gates.iter();
    let gates = gates.filter(|gate| !(flow.is_translated && gate.is_early()));
    let certain = gates.filter(|gate| {
        let masqueraded = flow.masqueraded.as_ref();
        masqueraded.is_none_or(|packet| gate.drops(packet, range).is_some())
    });
    certain
        .filter_map(|gate| gate.drops(&flow.packet, range))
        .collect()
}

/// One finding for what one rule, or one policy, does to a family.
fn note(found: &mut Vec<Finding>, flow: &Flow, dropped: Dropped) {
    let same = found
        .iter_mut()
        .find(|finding| finding.mend == dropped.mend);
    let example = format!(
        "{}: {} to {} (in by {}, out by {})",
        flow.name,
        flow.packet.source,
        flow.packet.destination,
        flow.packet.input,
        flow.packet.output
    );
    match same {
        Some(finding) => {
            finding.breaks = format!("{}; {}", finding.breaks, flow.name);
            finding.evidence.push(example);
        }
        None => {
            let finding = Finding::error(&KIND, format!("dropped: {}", flow.name));
            let finding = finding.by(dropped.by).by(example);
            found.push(dropped.mend.into_iter().fold(finding, Finding::mended_by));
        }
    }
}

/// The ways that packets of the node's pods go, those of one family.
fn flows(case: &Case, bridge: &Link, range: IpNet) -> Vec<Flow> {
    let ipv4 = range.addr().is_ipv4();
    let pod = pod_of(case, range);
    let mut flows = Vec::new();
    let planned = case.site.into_iter().flat_map(|site| &site.planned);
    for planned in planned
        .filter(|planned| planned.range.addr().is_ipv4() == ipv4)
        .take(1)
    {
        let peer = plan::range::nth(planned.range, 2);
        if let Some(uplink) = link_to(case, peer) {
            let to = format!(
                "from this node's pods to those of other nodes, as {}",
                planned.to
            );
            flows.push(flow(to, (bridge, pod), (uplink, peer)));
            let from = format!(
                "from other nodes' pods, as those of {}, to this node's",
                planned.to
            );
            flows.push(Flow {
                masqueraded: Some(packet((uplink, planned.via), (bridge, pod))),
                ..flow(from, (uplink, peer), (bridge, pod))
            });
        }
    }
    let outside = OUTSIDE
        .into_iter()
        .filter_map(|text| text.parse::<IpAddr>().ok());
    let outside = outside.filter(|ip| ip.is_ipv4() == ipv4);
    for (outside, uplink) in outside.filter_map(|ip| Some((ip, link_to(case, ip)?))) {
        flows.push(flow(
            "from this node's pods to the outside".into(),
            (bridge, pod),
            (uplink, outside),
        ));
        let mut ports = case.node.rules.ports.iter();
        if let Some(port) = ports.find(|port| range.contains(&port.target)) {
            let name = format!(
                "from the outside to host ports of pods, as {}",
                port.mapping.host_port
            );
            flows.push(Flow {
                is_translated: true,
                ..flow(name, (uplink, outside), (bridge, port.target))
            });
        }
    }
    if is_bridged_filtered(case, ipv4) {
        let name = "between pods of this node (bridge-nf-call is on)".to_owned();
        let other = plan::range::nth(range, 3);
        flows.push(flow(name, (bridge, pod), (bridge, other)));
    }
    flows
}

fn flow(name: String, from: (&Link, IpAddr), to: (&Link, IpAddr)) -> Flow {
    Flow {
        name,
        packet: packet(from, to),
        masqueraded: None,
        is_translated: false,
    }
}

fn packet(from: (&Link, IpAddr), to: (&Link, IpAddr)) -> Packet {
    Packet {
        input: from.0.name.clone(),
        output: to.0.name.clone(),
        source: from.1,
        destination: to.1,
    }
}

/// A pod's address of the range, or one that a pod could have.
fn pod_of(case: &Case, range: IpNet) -> IpAddr {
    let networks = case.node.networks.iter();
    let mut reserved = networks.flat_map(|network| network.reservations.iter().flatten());
    let reserved = reserved.find(|one| range.contains(&one.address));
    reserved.map_or_else(|| plan::range::nth(range, 2), |one| one.address)
}

fn link_to<'a>(case: &Case<'a>, address: IpAddr) -> Option<&'a Link> {
    let way = case.node.way_to(address)?;
    case.node.link_by_index(way.route.index)
}

/// Whether frames between ports of a bridge pass the rules of their packets.
fn is_bridged_filtered(case: &Case, ipv4: bool) -> bool {
    let family = if ipv4 { "iptables" } else { "ip6tables" };
    case.node
        .sysctl(&format!("net/bridge/bridge-nf-call-{family}"))
        == Some("1")
}

#[cfg(test)]
mod tests {
    use firewall::Family;

    use crate::findings::tests::{Fixture, forwarding, ids};

    fn with_rules(family: Family, text: &str) -> Fixture {
        let mut fixture = Fixture::healthy();
        let rules = std::mem::take(&mut fixture.node.rules);
        fixture.node.rules = rules.with_table(family, "iptables", "filter", text);
        fixture
    }

    #[test]
    fn a_policy_that_drops() {
        let fixture = with_rules(Family::V4, "-P FORWARD DROP\n");
        let found = fixture.look();
        assert_eq!(ids(&found), ["forward-dropped"]);
        assert_eq!(
            found[0].mend,
            [
                "iptables -t filter -I FORWARD -s 10.1.1.0/24 -j ACCEPT",
                "iptables -t filter -I FORWARD -d 10.1.1.0/24 -j ACCEPT"
            ]
        );
        assert!(found[0].breaks.contains("to the outside"), "{found:?}");
        assert!(
            found[0].breaks.contains("to those of other nodes, as a"),
            "{found:?}"
        );
        assert!(!found[0].breaks.contains("between pods"), "{found:?}");
        let v6 = with_rules(Family::V6, "-P FORWARD DROP\n").look();
        assert!(v6[0].mend[0].contains("fd00:0:0:1::/64"), "{v6:?}");
    }

    #[test]
    fn frames_between_pods_pass_it_where_the_bridge_calls() {
        let mut fixture = with_rules(Family::V4, "-P FORWARD DROP\n");
        fixture.set("net/bridge/bridge-nf-call-iptables", "1");
        assert!(
            fixture.look()[0]
                .breaks
                .contains("between pods of this node")
        );
    }

    #[test]
    fn a_rule_for_one_direction() {
        let fixture = with_rules(
            Family::V4,
            "-P FORWARD ACCEPT\n-A FORWARD -i eth0 -o cni0 -j REJECT\n",
        );
        let found = fixture.look();
        assert_eq!(ids(&found), ["forward-dropped"]);
        assert_eq!(
            found[0].mend,
            ["iptables -t filter -D FORWARD -i eth0 -o cni0 -j REJECT"]
        );
        assert!(
            found[0]
                .breaks
                .starts_with("dropped: from other nodes' pods"),
            "{found:?}"
        );
    }

    #[test]
    fn what_lets_pods_pass_is_fine() {
        for rules in [
            "-P FORWARD ACCEPT\n",
            "-P FORWARD DROP\n-A FORWARD -s 10.1.0.0/16 -j ACCEPT\n-A FORWARD -d 10.1.0.0/16 -j ACCEPT\n",
            "-P FORWARD DROP\n-A FORWARD -i cni0 -j ACCEPT\n-A FORWARD -o cni0 -j ACCEPT\n",
            "-P FORWARD DROP\n-A FORWARD -s 10.1.1.0/24 -j ACCEPT\n-A FORWARD -s 192.0.2.0/24 -j ACCEPT\n",
            "-P FORWARD DROP\n-A FORWARD -m mark --mark 1 -j ACCEPT\n",
        ] {
            assert_eq!(
                ids(&with_rules(Family::V4, rules).look()),
                [""; 0],
                "{rules}"
            );
        }
    }

    #[test]
    fn before_it_is_known_where_they_go() {
        let with = |rule: &str| {
            let mut fixture = with_rules(Family::V4, "-P FORWARD ACCEPT\n");
            let rules = std::mem::take(&mut fixture.node.rules);
            let text = format!("-P PREROUTING ACCEPT\n-A PREROUTING {rule}\n");
            fixture.node.rules = rules.with_table(Family::V4, "iptables", "raw", &text);
            fixture
                .node
                .rules
                .ports
                .push(forwarding(8080, "10.1.1.2", None));
            fixture.look()
        };
        let found = with("-i cni0 -j DROP");
        assert_eq!(ids(&found), ["forward-dropped"]);
        let mend = "iptables -t raw -D PREROUTING -i cni0 -j DROP";
        assert_eq!(found[0].mend, [mend]);
        assert_eq!(ids(&with("-i cni1 -j DROP")), [""; 0]);
        // A packet to a host port has the node's address there.
        let found = with("! -s 10.1.0.0/16 -d 10.1.1.2/32 -j DROP");
        assert!(found.is_empty(), "{found:?}");
    }
}
