//! A pod's port that passes no frames.

use cni::Attachment;
use firewall::view::quote;
use net::{Link, PortState};

use crate::case::Case;
use crate::finding::{Finding, Fix, Kind};

pub const KIND: Kind = Kind {
    id: "port-not-forwarding",
    means: "A port of the bridge passes no frames: it is down, its other end in the pod is, the spanning \
            tree blocks it, or a pod's link is no port of the bridge any more.",
    mend: "set the link or its other end up, set the port's state, or make it a port again",
    needs_plan: false,
    look,
};

fn look(case: &Case) -> Vec<Finding> {
    let mut found = Vec::new();
    for bridge in case.bridges() {
        let bridged = bridge
            .networks
            .iter()
            .filter_map(|network| network.bridged.as_ref());
        // Such pods' links are down on purpose.
        if bridged.clone().any(|bridged| bridged.is_disabled) {
            continue;
        }
        let Some(link) = bridge.link.filter(|link| link.kind == "bridge" && link.up) else {
            continue;
        };
        found.extend(
            case.node
                .ports_of(link.index)
                .filter_map(|port| of_port(case, port)),
        );
        let names: Vec<&str> = bridge
            .networks
            .iter()
            .map(|network| network.name.as_str())
            .collect();
        let loose = case.node.links.iter().filter(|port| is_loose(port, &names));
        found.extend(loose.map(|port| of_loose(port, link)));
    }
    found
}

fn of_port(case: &Case, port: &Link) -> Option<Finding> {
    let name = &port.name;
    let state = port
        .port_state
        .filter(|state| *state != PortState::Forwarding)?;
    let finding = Finding::error(&KIND, format!("{} is cut off from the bridge", whose(port)));
    let finding = finding.by(format!("port {name} is in state {state}"));
    Some(match (port.up, state) {
        (false, _) => finding
            .by(format!("{name} is down"))
            .fixed_by(case.node, Fix::SetUp(port.index)),
        (true, PortState::Disabled) => {
            let finding = finding.by(format!(
                "{name} is up, and has no carrier: its other end is down"
            ));
            other_end(case, finding, port)
        }
        _ => finding.mended_by(format!("ip link set dev {name} type bridge_slave state 3")),
    })
}

/// What sets a port's other end up, in the pod.
fn other_end(case: &Case, finding: Finding, port: &Link) -> Finding {
    let words: Vec<&str> = port.alias.split('/').collect();
    let known = match words[..] {
        [network, id, ifname] => {
            let attached = case.node.attached(&Attachment::new(network, id, ifname));
            let netns = attached.and_then(|attached| attached.known.netns.as_ref());
            netns.map(|netns| (netns.display().to_string(), ifname))
        }
        _ => None,
    };
    let Some((netns, ifname)) = known else {
        return finding.advised("set the interface up in the pod");
    };
    finding.mended_by(format!(
        "nsenter --net={} ip link set dev {} up",
        quote(&netns),
        quote(ifname)
    ))
}

/// Whether a pod's link of one of the networks has no bridge.
fn is_loose(link: &Link, networks: &[&str]) -> bool {
    let words: Vec<&str> = link.alias.split('/').collect();
    let ours = matches!(words[..], [network, _, _] if networks.contains(&network));
    ours && link.kind == "veth" && link.master.is_none()
}

fn of_loose(port: &Link, bridge: &Link) -> Finding {
    let (name, bridge) = (&port.name, &bridge.name);
    Finding::error(&KIND, format!("{} is cut off from the bridge", whose(port)))
        .by(format!("{name} is no port of {bridge}"))
        .mended_by(format!("ip link set dev {name} master {bridge}"))
}

fn whose(port: &Link) -> String {
    match port.alias.as_str() {
        "" => format!("what is behind {}", port.name),
        alias => format!("the pod {alias}"),
    }
}

#[cfg(test)]
mod tests {
    use net::PortState;

    use crate::findings::tests::{Fixture, VETH, ids};

    #[test]
    fn down_blocked_or_without_its_other_end() {
        for (up, state, mend) in [
            (
                false,
                PortState::Disabled,
                format!("ip link set dev {VETH} up"),
            ),
            (
                true,
                PortState::Disabled,
                "nsenter --net=/run/netns/pod ip link set dev eth0 up".to_owned(),
            ),
            (
                true,
                PortState::Listening,
                format!("ip link set dev {VETH} type bridge_slave state 3"),
            ),
        ] {
            let mut fixture = Fixture::healthy();
            let port = fixture.link(VETH);
            (port.up, port.port_state) = (up, Some(state));
            let found = fixture.look();
            assert_eq!(ids(&found), ["port-not-forwarding"], "{state}");
            assert_eq!(found[0].mend, [mend]);
            assert!(
                found[0].breaks.contains("the pod k8nd/pod/eth0"),
                "{found:?}"
            );
        }
    }

    #[test]
    fn no_port_any_more() {
        let mut fixture = Fixture::healthy();
        let port = fixture.link(VETH);
        (port.master, port.port, port.port_state) = (None, None, None);
        let found = fixture.look();
        assert_eq!(ids(&found), ["port-not-forwarding"]);
        assert_eq!(
            found[0].mend,
            [format!("ip link set dev {VETH} master cni0")]
        );
    }

    #[test]
    fn links_that_are_left_down_on_purpose() {
        let mut fixture = Fixture::healthy();
        fixture.link(VETH).port_state = Some(PortState::Disabled);
        fixture.node.networks[0]
            .bridged
            .as_mut()
            .unwrap()
            .is_disabled = true;
        assert_eq!(ids(&fixture.look()), [""; 0]);
    }
}
