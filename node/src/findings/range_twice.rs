//! Two routes for one range.

use std::collections::BTreeMap;

use ipnet::IpNet;
use net::route::{Entry, Kind as RouteKind};

use crate::case::Case;
use crate::finding::{Finding, Kind};
use crate::routes::words;
use crate::way::BY_KERNEL;

pub const KIND: Kind = Kind {
    id: "range-twice",
    means: "Two routes lead to one range by different ways. One is asked and the other never, whichever \
            was meant; those of IPv6 with one metric share the packets.",
    mend: "delete the one that is not meant",
    needs_plan: false,
    look,
};

fn look(case: &Case) -> Vec<Finding> {
    let mut ranges: BTreeMap<(IpNet, Option<u32>), Vec<&Entry>> = BTreeMap::new();
    for entry in case.node.main_routes().filter(|entry| counts(case, entry)) {
        let key = (entry.route.dst, metric(case, entry));
        ranges.entry(key).or_default().push(entry);
    }
    let twice = ranges.into_iter().filter(|(_, entries)| entries.len() > 1);
    twice
        .map(|((range, _), entries)| finding(case, range, &entries))
        .collect()
}

/// The node's own ranges are another finding; and who has two ways out, or two links in one network,
/// means it.
fn counts(case: &Case, entry: &Entry) -> bool {
    let dst = entry.route.dst;
    let own = case.own_ranges();
    dst.prefix_len() > 0
        && entry.protocol != BY_KERNEL
        && entry.kind == RouteKind::Unicast
        && !own.iter().any(|(range, _)| range.contains(&dst))
}

/// Elsewhere a second route with another metric is a reserve; to other nodes' pods there is one.
fn metric(case: &Case, entry: &Entry) -> Option<u32> {
    let pods = case.site.map(|site| &site.pods);
    let about_pods = pods
        .into_iter()
        .flatten()
        .any(|pods| pods.contains(&entry.route.dst));
    entry.route.priority.filter(|_| !about_pods)
}

fn finding(case: &Case, range: IpNet, entries: &[&Entry]) -> Finding {
    let planned = case.site.into_iter().flat_map(|site| &site.planned);
    let planned: Vec<_> = planned.filter(|planned| planned.range == range).collect();
    let meant = |entry: &&&Entry| {
        planned
            .iter()
            .any(|one| entry.route.gateway == Some(one.via))
    };
    let keep = entries.iter().find(meant).or(entries.first());
    let asked = case.node.way_to_range(range);
    let shares = entries.iter().any(|entry| entry.multipath);
    let breaks = match (shares, asked) {
        (true, _) => format!("some packets to {range} go one way and some another"),
        (false, Some(asked)) => {
            format!("all packets to {range} go by {}", words(case.node, asked))
        }
        (false, None) => format!("packets to {range} go one way and not the other"),
    };
    let finding = entries
        .iter()
        .fold(Finding::warning(&KIND, breaks), |finding, entry| {
            let way = entry
                .route
                .gateway
                .map_or(String::new(), |way| format!(" (via {way})"));
            finding.by(words(case.node, entry) + if entry.multipath { &way } else { "" })
        });
    let surplus = entries.iter().filter(|entry| Some(*entry) != keep);
    surplus.fold(finding, |finding, entry| {
        let one = Entry {
            multipath: entry.multipath && range.addr().is_ipv4(),
            ..(*entry).clone()
        };
        finding.mended_by(format!("ip route del {}", words(case.node, &one)))
    })
}

#[cfg(test)]
mod tests {
    use crate::findings::tests::{Fixture, ids};
    use crate::fixture::route;

    #[test]
    fn two_ways_to_another_node_s_pods() {
        let mut fixture = Fixture::healthy();
        let mut cheap = route("10.1.2.0/24", Some("192.0.2.1"), 2);
        fixture.node.routes.push(cheap.clone());
        let found = fixture.look();
        assert_eq!(ids(&found), ["range-twice"]);
        assert_eq!(found[0].evidence.len(), 2);
        assert_eq!(
            found[0].mend,
            ["ip route del 10.1.2.0/24 via 192.0.2.1 dev eth0 proto static"]
        );
        assert!(found[0].breaks.contains("via 192.0.2.12"), "{found:?}");
        // With a metric of its own as well.
        cheap.route.priority = Some(50);
        fixture.node.routes.pop();
        fixture.node.routes.push(cheap);
        assert_eq!(ids(&fixture.look()), ["range-twice"]);
    }

    #[test]
    fn ways_that_share_the_packets() {
        let mut fixture = Fixture::healthy();
        let place = fixture.position("fd00:0:0:2::/64");
        fixture.node.routes[place].multipath = true;
        let mut second = route("fd00:0:0:2::/64", Some("2001:db8::1"), 2);
        second.multipath = true;
        fixture.node.routes.push(second);
        let found = fixture.look();
        let twice = found
            .iter()
            .find(|finding| finding.id == "range-twice")
            .unwrap();
        assert!(twice.breaks.starts_with("some packets"), "{twice:?}");
        let expected =
            "ip route del fd00:0:0:2::/64 via 2001:db8::1 dev eth0 proto static metric 1024";
        assert_eq!(twice.mend, [expected]);
    }

    #[test]
    fn reserves_and_connected_networks_are_meant() {
        let mut fixture = Fixture::healthy().without_plan();
        for (dst, metric) in [("172.16.0.0/12", 0), ("172.16.0.0/12", 7), ("0.0.0.0/0", 9)] {
            let mut more = route(dst, Some("192.0.2.1"), 2);
            more.route.priority = Some(metric);
            fixture.node.routes.push(more);
        }
        let mut second = route("192.0.2.0/24", None, 9);
        second.protocol = 2;
        fixture.node.routes.push(second);
        assert_eq!(ids(&fixture.look()), [""; 0]);
        fixture
            .node
            .routes
            .push(route("172.16.0.0/12", Some("192.0.2.9"), 2));
        assert_eq!(ids(&fixture.look()), ["range-twice"]);
    }
}
