//! A filter of sources that takes answers for forgeries.

use net::Link;

use crate::case::Case;
use crate::finding::{Finding, Kind};
use crate::routes::words;
use crate::site::Planned;

pub const KIND: Kind = Kind {
    id: "rp-filter",
    means: "The strict reverse-path filter of a link (`rp_filter` 1) drops what comes in there while the \
            way back leaves by another link: packets of another node's pods, or of this node's own.",
    mend: "make the filter loose (2), or the way back the same",
    needs_plan: false,
    look,
};

/// `rp_filter` of the kernel's ip-sysctl: of the link's and that of all the higher one counts.
const STRICT: u8 = 1;
const LOOSE: u8 = 2;

fn look(case: &Case) -> Vec<Finding> {
    let planned = case.site.into_iter().flat_map(|site| &site.planned);
    let of_others = planned.filter_map(|planned| from_other(case, planned));
    let mut found: Vec<Finding> = of_others.collect();
    found.extend(case.gateways().filter_map(|(_, link)| from_own(case, link)));
    found
}

/// A node's packets come in by the link by which it is reached.
fn from_other(case: &Case, planned: &Planned) -> Option<Finding> {
    let Planned { range, via, to } = planned;
    let input = case.node.on_link(*via)?;
    let back = case.node.way_to_range(*range)?;
    let link = case.node.link_by_index(input)?;
    if !range.addr().is_ipv4() || back.route.index == input || !is_strict(case, link) {
        return None;
    }
    // Where nothing leads there at all, that is what is to be mended.
    if back.route.dst.prefix_len() == 0 {
        return None;
    }
    let name = &link.name;
    let breaks =
        format!("what the pods of {to} ({range}) send is dropped as it comes in by {name}");
    let finding =
        Finding::error(&KIND, breaks).by(format!("the way back is: {}", words(case.node, back)));
    Some(with_filter(case, finding, link))
}

/// Pods' packets come in by their bridge; where the way back is not known at all, that is another
/// finding.
fn from_own(case: &Case, bridge: &Link) -> Option<Finding> {
    let reservations = case.node.networks.iter().flat_map(|network| {
        let own = network
            .bridged
            .as_ref()
            .is_some_and(|bridged| bridged.bridge == bridge.name);
        network.reservations.iter().flatten().filter(move |_| own)
    });
    let mut addresses = reservations
        .map(|one| one.address)
        .filter(|ip| ip.is_ipv4());
    let own = case.own_ranges();
    let wrong = addresses.find(|address| {
        let inside = own.iter().any(|(range, _)| range.contains(address));
        let back = case.node.way_to(*address);
        !inside && back.is_none_or(|way| way.route.index != bridge.index)
    })?;
    if !is_strict(case, bridge) {
        return None;
    }
    let name = &bridge.name;
    let breaks = format!("what the pod {wrong} sends is dropped as it comes in by {name}");
    let finding = Finding::error(&KIND, breaks);
    let finding = match case.node.way_to(wrong) {
        Some(way) => finding.by(format!("the way back is: {}", words(case.node, way))),
        None => finding.by("there is no way back"),
    };
    Some(with_filter(case, finding, bridge))
}

fn with_filter(case: &Case, finding: Finding, link: &Link) -> Finding {
    let path = path(link);
    let value = |path: &str| case.node.sysctl(path).unwrap_or("0").to_owned();
    let (own, all) = (value(&path), value(ALL));
    finding
        .by(format!("{path} is {own}, {ALL} is {all}"))
        .mended_by(format!("sysctl -w {path}={LOOSE}"))
}

const ALL: &str = "net/ipv4/conf/all/rp_filter";

fn path(link: &Link) -> String {
    format!("net/ipv4/conf/{}/rp_filter", link.name)
}

fn is_strict(case: &Case, link: &Link) -> bool {
    let value = |path: &str| {
        case.node
            .sysctl(path)
            .and_then(|text| text.parse::<u8>().ok())
    };
    value(&path(link)).max(value(ALL)) == Some(STRICT)
}

#[cfg(test)]
mod tests {
    use crate::findings::tests::{Fixture, ids};
    use crate::fixture::{ip, route};

    /// The way to c's pods leaves by a second link, to another of its addresses.
    fn asymmetric() -> Fixture {
        let mut fixture = Fixture::healthy();
        fixture.add_link(9, "eth1");
        let mut connected = route("198.51.100.0/24", None, 9);
        connected.protocol = 2;
        fixture.node.routes.push(connected);
        let place = fixture.position("10.1.2.0/24");
        let way = &mut fixture.node.routes[place].route;
        (way.gateway, way.index) = (Some(ip("198.51.100.12")), 9);
        let site = fixture.site.as_mut().unwrap();
        let peer = site.peers.iter_mut().find(|peer| peer.name == "c").unwrap();
        peer.addresses.push(ip("198.51.100.12"));
        fixture
    }

    #[test]
    fn what_comes_in_by_another_link_than_the_way_back() {
        let mut fixture = asymmetric();
        assert_eq!(ids(&fixture.look()), [""; 0]);
        fixture.set("net/ipv4/conf/eth0/rp_filter", "1");
        let found = fixture.look();
        assert_eq!(ids(&found), ["rp-filter"]);
        assert_eq!(found[0].mend, ["sysctl -w net/ipv4/conf/eth0/rp_filter=2"]);
        assert!(
            found[0].evidence[0].contains("via 198.51.100.12 dev eth1"),
            "{found:?}"
        );
        // The higher of both counts, and 2 is loose.
        fixture.set("net/ipv4/conf/eth0/rp_filter", "0");
        fixture.set("net/ipv4/conf/all/rp_filter", "1");
        assert_eq!(ids(&fixture.look()), ["rp-filter"]);
        fixture.set("net/ipv4/conf/all/rp_filter", "2");
        assert_eq!(ids(&fixture.look()), [""; 0]);
    }

    #[test]
    fn a_strict_filter_alone_is_no_harm() {
        let mut fixture = Fixture::healthy();
        fixture.set("net/ipv4/conf/all/rp_filter", "1");
        assert_eq!(ids(&fixture.look()), [""; 0]);
    }

    #[test]
    fn a_pod_with_an_address_of_no_range() {
        let mut fixture = Fixture::healthy().without_plan();
        fixture.set("net/ipv4/conf/cni0/rp_filter", "1");
        fixture.reserve("172.31.0.9", "pod", "eth0");
        let found = fixture.look();
        assert_eq!(ids(&found), ["rp-filter"]);
        assert!(found[0].breaks.contains("172.31.0.9"), "{found:?}");
    }
}
