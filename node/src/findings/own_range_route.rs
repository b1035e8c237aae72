//! A route to the node's own pods that does not lead to their bridge.

use ipnet::IpNet;
use net::route::{Entry, Kind as RouteKind};

use crate::case::Case;
use crate::finding::{Finding, Fix, Kind};
use crate::node::Node;
use crate::routes::words;
use crate::way::{BY_KERNEL, LOCAL};

pub const KIND: Kind = Kind {
    id: "own-range-route",
    means: "A route to this node's own pod range, or to a part of it, leads elsewhere than to its bridge: \
            packets for its pods leave the node. Other nodes are fine. It may be there before the bridge \
            is, and then comes before the bridge's own. Or the range is local, so that the node takes its \
            pods' packets for its own.",
    mend: "delete the route",
    needs_plan: false,
    look,
};

fn look(case: &Case) -> Vec<Finding> {
    let ranges = case.own_ranges();
    let found = ranges.iter().flat_map(|(range, bridge)| {
        let routes = case.node.main_routes();
        let elsewhere = routes.filter(move |entry| is_elsewhere(case, entry, *range, bridge));
        let elsewhere = elsewhere.chain(swallowing(case.node, *range));
        elsewhere.map(move |entry| finding(case, entry, *range, bridge))
    });
    let mut found: Vec<Finding> = found.collect();
    // Of several ways of one route all go by one command.
    found.dedup_by(|one, other| one.mend == other.mend);
    found
}

fn is_elsewhere(case: &Case, entry: &Entry, range: IpNet, bridge: &str) -> bool {
    let by_bridge = case.node.name_of(entry.route.index) == bridge && entry.route.gateway.is_none();
    range.contains(&entry.route.dst) && !(entry.kind == RouteKind::Unicast && by_bridge)
}

/// Routes of table local to addresses that are none of the node's. The kernel makes such a one, too, for
/// an address of lo with a whole network.
fn swallowing(node: &Node, range: IpNet) -> impl Iterator<Item = &Entry> {
    node.routes_of(LOCAL).filter(move |entry| {
        let dst = entry.route.dst;
        let own = dst.prefix_len() == dst.max_prefix_len() && node.has(dst.addr());
        entry.kind == RouteKind::Local && range.contains(&dst) && !own
    })
}

fn finding(case: &Case, entry: &Entry, range: IpNet, bridge: &str) -> Finding {
    let node = case.node;
    let dst = entry.route.dst;
    let way = match entry.kind {
        RouteKind::Unicast => format!("leave by {}", node.name_of(entry.route.index)),
        RouteKind::Local => "are taken for the node's own".to_owned(),
        kind => format!("are dropped ({kind})"),
    };
    let taken = entry.kind == RouteKind::Local || node.way_to_range(dst) == Some(entry);
    let finding = if taken {
        let when = match node.link(bridge) {
            Some(_) => "cannot be reached",
            None => "will be dark as soon as there are any",
        };
        let breaks = format!(
            "the pods of {dst} on this node {when}: packets to them {way}, not to {bridge}"
        );
        Finding::error(&KIND, breaks)
    } else {
        let breaks = format!(
            "nothing yet: the route to {dst} lies behind that of {bridge}; once {bridge} is made anew \
             with it there, packets to this node's pods {way}"
        );
        Finding::warning(&KIND, breaks)
    };
    let finding = finding.by(words(node, entry));
    let finding = match node.way_to_range(range).filter(|way| *way != entry) {
        Some(way) => finding.by(format!("beside {}", words(node, way))),
        None => finding,
    };
    if entry.protocol == BY_KERNEL {
        // It goes with the address that it was made for.
        let source = entry
            .source
            .map(|source| format!("{source}/{}", dst.prefix_len()));
        let device = node.name_of(entry.route.index);
        let net = source.unwrap_or_else(|| dst.to_string());
        return finding.mended_by(format!("ip address del {net} dev {device}"));
    }
    finding.fixed_by(node, Fix::RemoveRoute(entry.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::tests::{Fixture, ids};
    use crate::fixture::{ip, route};

    #[test]
    fn the_route_that_was_there_before_the_bridge() {
        let mut fixture = Fixture::healthy();
        let own = route("10.1.1.0/24", Some("192.0.2.11"), 2);
        let connected = fixture.position("10.1.1.0/24");
        fixture.node.routes.insert(connected, own.clone());
        let found = fixture.look();
        assert_eq!(ids(&found), ["own-range-route"]);
        assert!(
            found[0]
                .breaks
                .contains("cannot be reached: packets to them leave by eth0, not to cni0")
        );
        assert_eq!(
            found[0].mend,
            ["ip route del 10.1.1.0/24 via 192.0.2.11 dev eth0 proto static"]
        );
        assert_eq!(found[0].fixes, [Fix::RemoveRoute(own)]);
        // By the configurations alone as well.
        let node = fixture.without_plan();
        assert_eq!(ids(&node.look()), ["own-range-route"]);
    }

    #[test]
    fn behind_the_bridge_s_it_is_a_warning() {
        let mut fixture = Fixture::healthy();
        fixture
            .node
            .routes
            .push(route("10.1.1.0/24", Some("192.0.2.11"), 2));
        let found = fixture.look();
        assert_eq!(ids(&found), ["own-range-route"]);
        assert_eq!(found[0].severity.to_string(), "warning");
        assert!(found[0].evidence[1].contains("dev cni0"), "{found:?}");
        // IPv6 asks the cheaper one first.
        let mut fixture = Fixture::healthy();
        let connected = fixture.position("fd00:0:0:1::/64");
        fixture.node.routes[connected].route.priority = Some(256);
        let own = route("fd00:0:0:1::/64", Some("2001:db8::12"), 2);
        fixture.node.routes.insert(connected, own);
        assert_eq!(fixture.look()[0].severity.to_string(), "warning");
    }

    #[test]
    fn on_a_node_without_a_bridge() {
        let mut fixture = Fixture::fresh();
        fixture
            .node
            .routes
            .push(route("10.1.1.0/24", Some("192.0.2.11"), 2));
        let found = fixture.look();
        assert_eq!(ids(&found), ["own-range-route"]);
        assert!(
            found[0]
                .breaks
                .contains("will be dark as soon as there are any"),
            "{found:?}"
        );
        // Also where there is nothing but the plan.
        fixture.node.networks.clear();
        assert_eq!(ids(&fixture.look()), ["own-range-route"]);
    }

    #[test]
    fn parts_of_the_range_and_holes_count_and_what_is_wider_does_not() {
        for (dst, kind, counts) in [
            ("10.1.1.128/25", RouteKind::Unicast, true),
            ("10.1.1.2/32", RouteKind::Blackhole, true),
            ("10.1.1.0/24", RouteKind::Unreachable, true),
            ("10.0.0.0/8", RouteKind::Unicast, false),
        ] {
            let mut fixture = Fixture::healthy();
            let mut wrong = route(dst, Some("192.0.2.1"), 2);
            wrong.kind = kind;
            fixture.node.routes.insert(0, wrong);
            let found = fixture.look();
            assert_eq!(!found.is_empty(), counts, "{dst} {kind}: {found:?}");
        }
    }

    #[test]
    fn a_pod_s_own_route_by_the_bridge_is_fine_and_another_table_is_none_of_ours() {
        let mut fixture = Fixture::healthy();
        fixture.node.routes.push(route("10.1.1.2/32", None, 3));
        let mut other = route("10.1.1.0/24", Some("192.0.2.1"), 2);
        other.route.table = Some(100);
        fixture.node.routes.push(other);
        assert_eq!(ids(&fixture.look()), [""; 0]);
    }

    #[test]
    fn a_range_that_is_local() {
        let local = |dst: &str, protocol| {
            let mut entry = route(dst, None, 1);
            (entry.kind, entry.protocol) = (RouteKind::Local, protocol);
            entry.route.table = Some(LOCAL);
            entry
        };
        let mut fixture = Fixture::healthy();
        // The gateway's own.
        fixture.node.routes.push(local("10.1.1.1/32", BY_KERNEL));
        assert_eq!(ids(&fixture.look()), [""; 0]);
        for (dst, protocol, mend) in [
            (
                "10.1.1.0/24",
                3,
                "ip route del local 10.1.1.0/24 dev lo table 255 proto boot",
            ),
            (
                "10.1.1.9/32",
                3,
                "ip route del local 10.1.1.9/32 dev lo table 255 proto boot",
            ),
            (
                "10.1.1.0/24",
                BY_KERNEL,
                "ip address del 10.1.1.0/24 dev lo",
            ),
        ] {
            let mut fixture = fixture.clone();
            fixture.node.routes.push(local(dst, protocol));
            let found = fixture.look();
            assert_eq!(ids(&found), ["own-range-route"], "{dst}");
            assert!(
                found[0]
                    .breaks
                    .contains("are taken for the node's own, not")
            );
            assert_eq!(found[0].mend, [mend]);
        }
    }

    #[test]
    fn another_link_s_address_in_the_range() {
        let mut fixture = Fixture::healthy();
        let mut wrong = route("10.1.1.0/24", None, 2);
        wrong.protocol = BY_KERNEL;
        wrong.source = Some(ip("10.1.1.77"));
        fixture.node.routes.insert(0, wrong);
        let found = fixture.look();
        assert_eq!(ids(&found), ["own-range-route"]);
        assert_eq!(found[0].mend, ["ip address del 10.1.1.77/24 dev eth0"]);
        assert_eq!(found[0].fixes, []);
    }
}
