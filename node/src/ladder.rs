//! The ladder that people climb by hand to find where a pod's packets end: rung by rung, from inside the
//! pod and from its node.

use std::net::IpAddr;

use crate::case::Case;
use crate::node::Netns;
use crate::site::Peer;

/// How many addresses are tried where nobody named a pod of another node: the first that host-local
/// gives.
const GUESSES: u128 = 6;

/// A pod that climbs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Climber {
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// The next hops of its default routes.
    pub gateways: Vec<IpAddr>,
}

/// What is asked for beside the pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Targets {
    /// The other node; the plan's first where none is named.
    pub peer: Option<String>,
    /// Pods on it.
    pub peer_pods: Vec<IpAddr>,
    /// Hosts outside; the node's own routers where none is named.
    pub outside: Vec<IpAddr>,
}

/// A step of the ladder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The pod's own address.
    Itself,
    /// Its gateway, the bridge.
    Gateway,
    /// Another pod of this node.
    PodHere,
    /// Another node.
    AnotherNode,
    /// That node's bridge.
    BridgeThere,
    /// A pod of that node.
    PodThere,
    /// A host outside.
    Outside,
}

impl Step {
    /// As it is printed.
    pub fn as_str(self) -> &'static str {
        match self {
            Step::Itself => "itself",
            Step::Gateway => "gateway",
            Step::PodHere => "pod-here",
            Step::AnotherNode => "another-node",
            Step::BridgeThere => "bridge-there",
            Step::PodThere => "pod-there",
            Step::Outside => "outside",
        }
    }

    /// What it means that this step is the first without an answer: from the pod, while the node has
    /// one or not.
    pub fn meaning(self, node_answered: bool) -> &'static str {
        match (self, node_answered) {
            (Step::Itself, true) => {
                "the pod does not reach its own address: its loopback or its interface is down"
            }
            (Step::Itself, false) => {
                "the node does not reach the pod: its port of the bridge, the bridge, or a route that \
                 takes the node's own range elsewhere (port-not-forwarding, bridge-down, own-range-route)"
            }
            (Step::Gateway, _) => {
                "nothing passes between the pod and its bridge (port-not-forwarding, bridge-down, \
                 bridge-no-gateway)"
            }
            (Step::PodHere, true) => {
                "nothing passes between two ports of the bridge: ports are isolated, or rules drop frames \
                 (forward-dropped)"
            }
            (Step::PodHere, false) => "the other pod is dark itself: probe that one",
            (Step::AnotherNode, true) => {
                "this node does not forward the pod's packets, or the other node has no way back to its \
                 pods (forwarding-off, forward-dropped, rp-filter; `podnet doctor` there)"
            }
            (Step::AnotherNode, false) => {
                "the other node is down, or is not on a network of this one (next-hop-off-link)"
            }
            (Step::BridgeThere, true) => {
                "the other node has no way back to this node's pods: `podnet doctor` there"
            }
            (Step::BridgeThere, false) => {
                "no route leads to the other node's pods, or it has no bridge: before its first pod there \
                 is none (range-unrouted, range-misrouted; `podnet doctor` there)"
            }
            (Step::PodThere, true) => {
                "the other node has no way back to this node's pods: `podnet doctor` there"
            }
            (Step::PodThere, false) => {
                "the other node does not lead packets on to its pod: `podnet doctor` there \
                 (own-range-route, forwarding-off, forward-dropped)"
            }
            (Step::Outside, true) => {
                "nothing outside knows the pod's address: what leaves must be masqueraded (ipMasq), or \
                 rules drop it (forward-dropped)"
            }
            (Step::Outside, false) => "the node itself has no way to the outside",
        }
    }
}

/// One step for one family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rung {
    /// Which.
    pub step: Step,
    /// Whether it is about IPv4.
    pub ipv4: bool,
    /// Whom to ask; the first that answers is enough.
    pub targets: Vec<IpAddr>,
    /// Whether the targets are guesses, of which none need be there.
    pub guessed: bool,
    /// Why there is nobody to ask; empty where there is.
    pub skipped: String,
}

/// The ladder of each family that the pod has an address of, from the bottom.
///
/// # Errors
/// There is no node of the name that is asked for.
pub fn ladder(case: &Case, climber: &Climber, asked: &Targets) -> Result<Vec<Rung>, String> {
    let peer = peer(case, asked)?;
    let families = [true, false].into_iter();
    let used = families.filter(|ipv4| climber.addresses.iter().any(|ip| ip.is_ipv4() == *ipv4));
    Ok(used
        .flat_map(|ipv4| of_family(case, climber, asked, peer, ipv4))
        .collect())
}

fn peer<'a>(case: &Case<'a>, asked: &Targets) -> Result<Option<&'a Peer>, String> {
    let mut peers = case.site.into_iter().flat_map(|site| &site.peers);
    let Some(name) = &asked.peer else {
        return Ok(peers.next());
    };
    let found = peers.find(|peer| peer.name == *name);
    found.map(Some).ok_or_else(|| {
        let peers = case.site.into_iter().flat_map(|site| &site.peers);
        let names: Vec<_> = peers.map(|peer| peer.name.as_str()).collect();
        format!(
            "{name:?} is no other node of the plan: there are {:?}",
            names.join(", ")
        )
    })
}

fn of_family(
    case: &Case,
    climber: &Climber,
    asked: &Targets,
    peer: Option<&Peer>,
    ipv4: bool,
) -> Vec<Rung> {
    let of = |addresses: &[IpAddr]| -> Vec<IpAddr> {
        let addresses = addresses.iter().copied();
        addresses.filter(|ip| ip.is_ipv4() == ipv4).collect()
    };
    let rung = |step, targets: Vec<IpAddr>, why: &str| Rung {
        step,
        ipv4,
        guessed: false,
        skipped: if targets.is_empty() {
            why.to_owned()
        } else {
            String::new()
        },
        targets,
    };
    let no_peer = "no other node is known: name the cluster (-f)";
    let range = peer.and_then(|peer| {
        let mut ranges = peer.ranges.iter().copied();
        ranges.find(|range| range.addr().is_ipv4() == ipv4)
    });
    let bridge = range.map(plan::range::first_usable);
    let node = peer.map_or(Vec::new(), |peer| of(&peer.addresses));
    let node: Vec<IpAddr> = node.into_iter().take(1).collect();
    let mut there = rung(Step::PodThere, of(&asked.peer_pods), no_peer);
    if let Some(range) = range.filter(|_| there.targets.is_empty()) {
        there.guessed = true;
        there.skipped.clear();
        there.targets = (2..2 + GUESSES)
            .map(|place| plan::range::nth(range, place))
            .collect();
    }
    let outside = match of(&asked.outside) {
        none if none.is_empty() => routers(case, ipv4),
        named => named,
    };
    vec![
        rung(Step::Itself, of(&climber.addresses), ""),
        rung(
            Step::Gateway,
            of(&climber.gateways),
            "the pod has no default route",
        ),
        rung(
            Step::PodHere,
            others(case, climber, ipv4),
            "no other pod of this node is known",
        ),
        rung(Step::AnotherNode, node, no_peer),
        rung(Step::BridgeThere, bridge.into_iter().collect(), no_peer),
        there,
        rung(
            Step::Outside,
            outside,
            "this node has no default route: name a host (--outside)",
        ),
    ]
}

/// The next hops of the node's default routes.
fn routers(case: &Case, ipv4: bool) -> Vec<IpAddr> {
    let routes = case.node.main_routes();
    let default = routes.filter(|entry| entry.route.dst.prefix_len() == 0);
    let hops = default.filter_map(|entry| entry.route.gateway);
    hops.filter(|hop| hop.is_ipv4() == ipv4).take(1).collect()
}

/// An address of another pod that the cache knows, and whose interface is there.
fn others(case: &Case, climber: &Climber, ipv4: bool) -> Vec<IpAddr> {
    let attached = case.node.attachments.iter().flatten();
    let open = attached.filter_map(|attached| match &attached.netns {
        Netns::Open {
            link: Some(_),
            addresses,
        } => Some(addresses),
        _ => None,
    });
    let global = open.flatten().filter(|address| address.global);
    let addresses = global.map(|address| address.net.addr());
    let others = addresses.filter(|ip| ip.is_ipv4() == ipv4 && !climber.addresses.contains(ip));
    others.take(1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::tests::Fixture;
    use crate::fixture::ip;

    fn climber() -> Climber {
        Climber {
            addresses: vec![ip("10.1.1.2"), ip("fd00:0:0:1::2")],
            gateways: vec![ip("10.1.1.1"), ip("fd00:0:0:1::1")],
        }
    }

    /// Each rung with its first target, or with why there is none.
    fn told(fixture: &Fixture, asked: &Targets) -> Vec<String> {
        let case = Case {
            node: &fixture.node,
            site: fixture.site.as_ref(),
        };
        let rungs = ladder(&case, &climber(), asked).unwrap();
        let told = rungs.iter().map(|rung| {
            let target = rung.targets.first().map(ToString::to_string);
            format!(
                "{} {}",
                rung.step.as_str(),
                target.unwrap_or_else(|| rung.skipped.clone())
            )
        });
        told.collect()
    }

    #[test]
    fn from_the_pod_itself_to_the_outside() {
        let fixture = Fixture::healthy();
        let told = told(&fixture, &Targets::default());
        assert_eq!(
            told,
            [
                "itself 10.1.1.2",
                "gateway 10.1.1.1",
                "pod-here no other pod of this node is known",
                "another-node 192.0.2.10",
                "bridge-there 10.1.0.1",
                "pod-there 10.1.0.2",
                "outside 192.0.2.1",
                "itself fd00:0:0:1::2",
                "gateway fd00:0:0:1::1",
                "pod-here no other pod of this node is known",
                "another-node 2001:db8::10",
                "bridge-there fd00::1",
                "pod-there fd00::2",
                "outside 2001:db8::1",
            ]
        );
    }

    #[test]
    fn what_is_named_is_asked() {
        let fixture = Fixture::healthy();
        let asked = Targets {
            peer: Some("c".to_owned()),
            peer_pods: vec![ip("10.1.2.77")],
            outside: vec![ip("198.51.100.1")],
        };
        let told = told(&fixture, &asked);
        assert_eq!(
            told[3..7],
            [
                "another-node 192.0.2.12",
                "bridge-there 10.1.2.1",
                "pod-there 10.1.2.77",
                "outside 198.51.100.1"
            ]
        );
        assert_eq!(told[12], "pod-there fd00:0:0:2::2");
        let case = Case {
            node: &fixture.node,
            site: fixture.site.as_ref(),
        };
        let nobody = Targets {
            peer: Some("b".to_owned()),
            ..Targets::default()
        };
        let error = ladder(&case, &climber(), &nobody).unwrap_err();
        assert_eq!(
            error,
            "\"b\" is no other node of the plan: there are \"a, c\""
        );
    }

    #[test]
    fn without_a_plan_and_with_another_pod() {
        let mut fixture = Fixture::healthy().without_plan();
        fixture.attach("other", "10.1.1.9");
        let attachments = fixture.node.attachments.as_mut().unwrap();
        if let Netns::Open { addresses, .. } = &mut attachments[1].netns {
            addresses[0].net = "10.1.1.9/24".parse().unwrap();
        }
        let told = told(&fixture, &Targets::default());
        assert_eq!(told[2], "pod-here 10.1.1.9");
        assert_eq!(
            told[3],
            "another-node no other node is known: name the cluster (-f)"
        );
        assert_eq!(
            told[5],
            "pod-there no other node is known: name the cluster (-f)"
        );
    }
}
