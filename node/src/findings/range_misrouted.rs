//! A route to another node's pods that leads to someone else.

use net::Route;
use net::route::{Entry, Kind as RouteKind};

use crate::case::Case;
use crate::finding::{Finding, Fix, Kind};
use crate::routes::words;
use crate::site::{Planned, Site};

pub const KIND: Kind = Kind {
    id: "range-misrouted",
    means: "The route to another node's pods, or to a part of them, leads to an address that is not that \
            node's.",
    mend: "delete the route and run `podnet routes apply`; or correct the node's address in the cluster \
           file",
    needs_plan: true,
    look,
};

fn look(case: &Case) -> Vec<Finding> {
    let planned = case.site.into_iter().flat_map(|site| {
        let planned = site.planned.iter();
        planned.map(move |planned| (site, planned))
    });
    planned
        .flat_map(|(site, planned)| wrong(case, site, planned))
        .collect()
}

fn wrong(case: &Case, site: &Site, planned: &Planned) -> Vec<Finding> {
    let within = case.node.main_routes().filter(|entry| {
        let taken = case.node.way_to_range(entry.route.dst) == Some(entry);
        planned.range.contains(&entry.route.dst) && taken
    });
    let wrong = within.filter(|entry| !leads_to(entry, site, planned));
    wrong.map(|entry| finding(case, planned, entry)).collect()
}

fn leads_to(way: &Entry, site: &Site, planned: &Planned) -> bool {
    let mut peers = site.peers.iter().filter(|peer| peer.name == planned.to);
    let of_node = |gateway| peers.any(|peer| peer.addresses.contains(&gateway));
    way.kind == RouteKind::Unicast && way.route.gateway.is_some_and(of_node)
}

fn finding(case: &Case, planned: &Planned, way: &Entry) -> Finding {
    let Planned { range, via, to } = planned;
    let dst = way.route.dst;
    let breaks = format!("packets to the pods of {to} ({dst}) do not go to {to}");
    let finding = Finding::error(&KIND, breaks)
        .by(words(case.node, way))
        .by(format!("{to} is {via} in the plan"))
        .mended_by(format!("ip route del {}", words(case.node, way)));
    match case.node.on_link(*via) {
        // Without it the whole range's route takes the packets to a part.
        _ if dst != *range => finding,
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
    use crate::fixture::{ip, route};

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
    fn a_part_of_the_range() {
        for (dst, via, counts) in [
            ("10.1.2.2/32", "192.0.2.1", true),
            ("10.1.2.128/25", "192.0.2.1", true),
            ("10.1.2.128/25", "192.0.2.12", false),
            ("10.1.0.0/17", "192.0.2.1", false),
        ] {
            let mut fixture = Fixture::healthy();
            fixture.node.routes.push(route(dst, Some(via), 2));
            let found = fixture.look();
            assert_eq!(!found.is_empty(), counts, "{dst} {via}: {found:?}");
            if counts {
                assert_eq!(ids(&found), ["range-misrouted"]);
                let mend = format!("ip route del {dst} via {via} dev eth0 proto static");
                assert_eq!(found[0].mend, [mend]);
            }
        }
    }

    #[test]
    fn no_next_hop_at_all() {
        let mut fixture = Fixture::healthy();
        let place = fixture.position("10.1.2.0/24");
        fixture.node.routes[place].route.gateway = None;
        assert_eq!(ids(&fixture.look()), ["range-misrouted"]);
    }
}
