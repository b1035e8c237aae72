//! A route to another node's pods that leads to someone else.

use net::Route;
use net::route::{Entry, Kind as RouteKind};

use crate::case::Case;
use crate::finding::{Finding, Fix, Kind};
use crate::routes::words;
use crate::site::{Planned, Site};

pub const KIND: Kind = Kind {
    id: "range-misrouted",
    means: "The route to another node's pods leads to an address that is not that node's.",
    mend: "delete the route and run `podnet routes apply`; or correct the node's address in the cluster \
           file",
    needs_plan: true,
    look,
};

fn look(case: &Case) -> Vec<Finding> {
    let site = case.site.into_iter();
    let planned = site.flat_map(|site| site.planned.iter().map(move |planned| (site, planned)));
    let wrong = planned.filter_map(|(site, planned)| {
        let way = case.node.way_to_range(planned.range)?;
        (way.route.dst == planned.range && !leads_to(way, site, planned)).then_some((planned, way))
    });
    wrong
        .map(|(planned, way)| finding(case, planned, way))
        .collect()
}

fn leads_to(way: &Entry, site: &Site, planned: &Planned) -> bool {
    let mut peers = site.peers.iter().filter(|peer| peer.name == planned.to);
    let of_node = |gateway| peers.any(|peer| peer.addresses.contains(&gateway));
    way.kind == RouteKind::Unicast && way.route.gateway.is_some_and(of_node)
}

fn finding(case: &Case, planned: &Planned, way: &Entry) -> Finding {
    let Planned { range, via, to } = planned;
    let breaks = format!("packets to the pods of {to} ({range}) do not go to {to}");
    let finding = Finding::error(&KIND, breaks)
        .by(words(case.node, way))
        .by(format!("{to} is {via} in the plan"))
        .mended_by(format!("ip route del {}", words(case.node, way)));
    match case.node.on_link(*via) {
        Some(index) => {
            let right = Fix::AddRoute(Route::new(*range, Some(*via), index));
            finding.mended_by(right.command(case.node))
        }
        // That is another finding.
        None => finding,
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::tests::{Fixture, ids};
    use crate::fixture::ip;

    #[test]
    fn another_next_hop() {
        let mut fixture = Fixture::healthy();
        let place = fixture.position("10.1.2.0/24");
        fixture.node.routes[place].route.gateway = Some(ip("192.0.2.99"));
        let found = fixture.look();
        assert_eq!(ids(&found), ["range-misrouted"]);
        assert_eq!(
            found[0].evidence,
            [
                "10.1.2.0/24 via 192.0.2.99 dev eth0 proto static",
                "c is 192.0.2.12 in the plan"
            ]
        );
        assert_eq!(
            found[0].mend,
            [
                "ip route del 10.1.2.0/24 via 192.0.2.99 dev eth0 proto static",
                "ip route add 10.1.2.0/24 via 192.0.2.12 dev eth0 proto 145"
            ]
        );
        // Any address of the node is right.
        let site = fixture.site.as_mut().unwrap();
        let peer = site.peers.iter_mut().find(|peer| peer.name == "c").unwrap();
        peer.addresses.push(ip("192.0.2.99"));
        assert_eq!(ids(&fixture.look()), [""; 0]);
    }

    #[test]
    fn no_next_hop_at_all() {
        let mut fixture = Fixture::healthy();
        let place = fixture.position("10.1.2.0/24");
        fixture.node.routes[place].route.gateway = None;
        assert_eq!(ids(&fixture.look()), ["range-misrouted"]);
    }
}
