//! Another node that cannot be a next hop.

use std::collections::BTreeSet;
use std::net::IpAddr;

use net::route::Kind as RouteKind;

use crate::case::Case;
use crate::finding::{Finding, Fix, Kind};
use crate::routes::words;
use crate::site::Planned;

pub const KIND: Kind = Kind {
    id: "next-hop-off-link",
    means: "Another node's address is in no network of this node's links, or its link is down or without \
            a carrier: no route to that node's pods can lead to it.",
    mend: "set the link up; or correct the node's address in the cluster file, or this node's addresses",
    needs_plan: true,
    look,
};

fn look(case: &Case) -> Vec<Finding> {
    let planned = case.site.into_iter().flat_map(|site| &site.planned);
    let mut seen = BTreeSet::new();
    let hops = planned.filter(|planned| seen.insert(planned.via));
    hops.filter_map(|planned| finding(case, planned)).collect()
}

fn finding(case: &Case, planned: &Planned) -> Option<Finding> {
    let node = case.node;
    let Planned { via, to, .. } = planned;
    let way = node.way_to(*via);
    let direct = node.on_link(*via);
    let told = node
        .main_routes()
        .any(|entry| entry.on_link && !entry.dead && entry.route.gateway == Some(*via));
    if told || (direct.is_some() && !way.is_some_and(|way| way.dead)) {
        return None;
    }
    let breaks = format!("this node and its pods do not reach the pods of {to}, by way of {via}");
    let finding = Finding::error(&KIND, breaks);
    let finding = match way {
        Some(way) => finding.by(format!("the way to {via} is: {}", words(node, way))),
        None => finding.by(format!("there is no way to {via}")),
    };
    Some(match direct {
        Some(index) => {
            let name = node.name_of(index);
            finding
                .by(format!("{name} has no carrier"))
                .advised(format!("see to the other end of {name}"))
        }
        None => mend(case, finding, *via),
    })
}

/// A link that is down has lost its routes, but not its address of IPv4.
fn mend(case: &Case, finding: Finding, via: IpAddr) -> Finding {
    let node = case.node;
    let down = node.addresses.iter().find_map(|(index, address)| {
        let link = node.link_by_index(*index).filter(|link| !link.up)?;
        address.net.contains(&via).then_some(link)
    });
    if let Some(link) = down {
        return finding
            .by(format!("{} is down", link.name))
            .fixed_by(node, Fix::SetUp(link.index));
    }
    let connected = node.main_routes().filter(|entry| {
        let same = entry.route.dst.addr().is_ipv4() == via.is_ipv4();
        same && entry.route.gateway.is_none() && entry.kind == RouteKind::Unicast
    });
    let mut nets: Vec<_> = connected.map(|entry| entry.route.dst.to_string()).collect();
    nets.retain(|net| !net.starts_with("fe80:"));
    finding.by(format!("networks of this node's links: {}", nets.join(", "))).advised(format!(
            "correct the address {via} in the cluster file, or give a link of this node an address of its \
         network: ip address add ADDRESS/PREFIX dev LINK"
    ))
}

#[cfg(test)]
mod tests {
    use crate::findings::tests::{Fixture, ids};
    use crate::fixture::ip;

    #[test]
    fn an_address_of_no_network_of_ours() {
        let mut fixture = Fixture::healthy();
        let place = fixture.position("10.1.2.0/24");
        fixture.node.routes.remove(place);
        let site = fixture.site.as_mut().unwrap();
        let planned = site
            .planned
            .iter_mut()
            .find(|planned| planned.to == "c")
            .unwrap();
        planned.via = ip("198.51.100.12");
        let found = fixture.look();
        assert_eq!(ids(&found), ["next-hop-off-link"]);
        assert!(
            found[0].evidence[0].contains("default via 192.0.2.1"),
            "{found:?}"
        );
        assert!(found[0].evidence[1].contains("192.0.2.0/24"), "{found:?}");
    }

    #[test]
    fn a_route_that_says_that_it_is_on_link() {
        let mut fixture = Fixture::healthy();
        let place = fixture.position("10.1.2.0/24");
        let route = &mut fixture.node.routes[place];
        (route.on_link, route.route.gateway) = (true, Some(ip("198.51.100.12")));
        let site = fixture.site.as_mut().unwrap();
        let planned = site
            .planned
            .iter_mut()
            .find(|planned| planned.to == "c")
            .unwrap();
        planned.via = ip("198.51.100.12");
        let peer = site.peers.iter_mut().find(|peer| peer.name == "c").unwrap();
        peer.addresses.push(ip("198.51.100.12"));
        assert_eq!(ids(&fixture.look()), [""; 0]);
    }

    #[test]
    fn a_link_that_is_down_or_has_no_carrier() {
        let mut fixture = Fixture::healthy();
        let place = fixture.position("192.0.2.0/24");
        fixture.node.routes[place].dead = true;
        let found = fixture.look();
        assert_eq!(ids(&found), ["next-hop-off-link"; 2]);
        assert!(
            found[0].evidence[1].contains("eth0 has no carrier"),
            "{found:?}"
        );
        fixture
            .node
            .routes
            .retain(|entry| entry.route.index != 2 || entry.route.dst.addr().is_ipv6());
        let eth0 = fixture.link("eth0");
        eth0.up = false;
        let found = fixture.look();
        assert_eq!(ids(&found), ["next-hop-off-link"; 2]);
        assert_eq!(found[0].mend, ["ip link set dev eth0 up"]);
    }
}
