//! No route to another node's pods.

use net::route::{Entry, Kind as RouteKind};

use crate::case::Case;
use crate::finding::{Finding, Fix, Kind};
use crate::routes::{Change, compare, words};
use crate::site::Planned;

pub const KIND: Kind = Kind {
    id: "range-unrouted",
    means: "There is no route to another node's pods, or only one that drops packets or leads to this \
            node's own bridge: they go by the default route, where nobody knows them.",
    mend: "add the route: `podnet routes apply`. (Where the network itself knows the routes, as a cloud's \
           can, there is nothing to mend.)",
    needs_plan: true,
    look,
};

fn look(case: &Case) -> Vec<Finding> {
    let Some(site) = case.site else {
        return Vec::new();
    };
    let change = Change::to_plan(case.node, site, &compare(case.node, site));
    let missing = change
        .add
        .iter()
        .filter(|addition| !leads_on(case, &addition.planned));
    missing
        .map(|addition| {
            let Planned { range, to, .. } = &addition.planned;
            let breaks = format!("this node and its pods do not reach the pods of {to} ({range})");
            let way = case.node.way_to_range(*range);
            let way = way.map_or("no route at all".to_owned(), |way| words(case.node, way));
            Finding::error(&KIND, breaks)
                .by(format!("the way to {range} is: {way}"))
                .fixed_by(case.node, Fix::AddRoute(addition.route.clone()))
        })
        .collect()
}

/// Whether some route leads there by another hop: a router's to all pods is as good.
fn leads_on(case: &Case, planned: &Planned) -> bool {
    let leads = |way: &&Entry| {
        let is_default = way.route.dst.prefix_len() == 0;
        let by_bridge = is_bridge(case, way.route.index);
        !is_default && way.kind == RouteKind::Unicast && !by_bridge
    };
    case.node
        .way_to_range(planned.range)
        .as_ref()
        .is_some_and(leads)
}

fn is_bridge(case: &Case, index: u32) -> bool {
    let mut bridges = case.bridges().into_iter();
    bridges.any(|bridge| bridge.link.is_some_and(|link| link.index == index))
}

#[cfg(test)]
mod tests {
    use net::route::Kind;

    use crate::findings::tests::{Fixture, ids};
    use crate::fixture::route;

    #[test]
    fn a_route_that_is_gone() {
        let mut fixture = Fixture::healthy();
        let place = fixture.position("10.1.2.0/24");
        fixture.node.routes.remove(place);
        let found = fixture.look();
        assert_eq!(ids(&found), ["range-unrouted"]);
        assert_eq!(
            found[0].mend,
            ["ip route add 10.1.2.0/24 via 192.0.2.12 dev eth0 proto 145"]
        );
        assert_eq!(found[0].fixes.len(), 1);
        assert!(found[0].breaks.contains("the pods of c"), "{found:?}");
        assert!(
            found[0].evidence[0].contains("default via 192.0.2.1"),
            "{found:?}"
        );
        assert_eq!(ids(&fixture.without_plan().look()), [""; 0]);
    }

    #[test]
    fn a_wider_route_by_a_router_is_as_good_and_by_the_own_bridge_is_none() {
        let mut fixture = Fixture::healthy();
        let place = fixture.position("10.1.2.0/24");
        fixture.node.routes.remove(place);
        fixture
            .node
            .routes
            .push(route("10.1.0.0/16", Some("192.0.2.1"), 2));
        assert_eq!(ids(&fixture.look()), [""; 0]);
        fixture.node.routes.pop();
        fixture.node.routes.push(route("10.1.0.0/16", None, 3));
        assert_eq!(ids(&fixture.look()), ["range-unrouted"]);
        let mut hole = route("10.1.0.0/16", None, 0);
        hole.kind = Kind::Blackhole;
        fixture.node.routes.pop();
        fixture.node.routes.push(hole);
        assert_eq!(ids(&fixture.look()), ["range-unrouted"]);
    }
}
