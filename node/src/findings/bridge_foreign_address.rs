//! An address of the bridge that the next ADD will stumble over.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::case::{BridgeCase, Case};
use crate::finding::{Finding, Kind};
use crate::node::{Netns, Node};
use crate::whose::Life;

pub const KIND: Kind = Kind {
    id: "bridge-foreign-address",
    means: "The bridge has an address that is none of its gateways', as of a former range. An ADD fails \
            for any of IPv4, and for one of IPv6 that overlaps, with \"already has an IP address different \
            from\".",
    mend: "delete the address; or set `forceAddress` in the conflist, and ADD does. Where pods use it, or the \
           plan gives it to the bridge, it is the conflist that is wrong",
    needs_plan: false,
    look,
};

fn look(case: &Case) -> Vec<Finding> {
    let mut found = Vec::new();
    for (bridge, link) in case.gateways() {
        let addresses = case.node.addresses_of(link.index);
        let global = addresses
            .filter(|address| address.global)
            .map(|address| address.net);
        let foreign = global.filter(|net| is_in_the_way(&bridge, *net) && !is_planned(case, *net));
        found.extend(foreign.map(|net| finding(case.node, &bridge, net)));
    }
    found
}

/// Whether the plan gives it to the bridge. That the conflist does not is a finding of its own.
fn is_planned(case: &Case, net: IpNet) -> bool {
    let mut ranges = case.site.into_iter().flat_map(|site| &site.ranges);
    ranges.any(|range| {
        plan::range::first_usable(*range) == net.addr() && range.prefix_len() == net.prefix_len()
    })
}

fn finding(node: &Node, bridge: &BridgeCase, net: IpNet) -> Finding {
    let name = &bridge.name;
    let gateways: Vec<_> = bridge.gateways.iter().map(ToString::to_string).collect();
    let breaks = format!("the next pod cannot be attached: {name} already has another address");
    let finding = Finding::error(&KIND, breaks).by(format!(
        "{name} has {net}; expected {}",
        gateways.join(", ")
    ));
    let used = users(node, bridge, net);
    let Some(first) = used.first() else {
        return finding.mended_by(format!("ip address del {net} dev {name}"));
    };
    // To take their gateway away would darken them.
    let files = bridge.networks.iter();
    let files: Vec<_> = files
        .map(|network| network.file.display().to_string())
        .collect();
    finding
        .by(format!(
            "it is the gateway of {} pod(s) that live, as {first}",
            used.len()
        ))
        .advised(format!(
            "correct the range in {}; or, when these pods are gone: ip address del {net} dev {name}",
            files.join(", ")
        ))
}

/// The addresses of pods that may live and have their gateway by this address alone.
fn users(node: &Node, bridge: &BridgeCase, net: IpNet) -> Vec<IpAddr> {
    let reserved = node.networks.iter().flat_map(|network| {
        let living = network.reserved().into_iter();
        let living = living.filter(|attachment| node.life_of(attachment) != Life::Gone);
        living.flat_map(|attachment| {
            let addresses = network.reservations_of(&attachment);
            addresses.map(|one| one.address).collect::<Vec<_>>()
        })
    });
    let seen = node.attachments.iter().flatten().flat_map(|attached| {
        let addresses = match &attached.netns {
            Netns::Open { addresses, .. } => addresses.as_slice(),
            _ => &[],
        };
        addresses.iter().map(|address| address.net.addr())
    });
    let served = |address: &IpAddr| bridge.gateways.iter().any(|one| one.contains(address));
    let used: BTreeSet<IpAddr> = reserved
        .chain(seen)
        .filter(|address| net.contains(address) && !served(address))
        .collect();
    used.into_iter().collect()
}

fn is_in_the_way(bridge: &BridgeCase, net: IpNet) -> bool {
    let mut networks = bridge
        .networks
        .iter()
        .filter_map(|network| network.bridged.as_ref());
    let forced = networks.any(|bridged| bridged.force_address);
    let of_family = |gateway: &&IpNet| gateway.addr().is_ipv4() == net.addr().is_ipv4();
    let mut gateways = bridge.gateways.iter().filter(of_family).peekable();
    let is_used = gateways.peek().is_some();
    let overlaps =
        |gateway: &IpNet| gateway.contains(&net.trunc()) || net.contains(&gateway.trunc());
    let all: Vec<&IpNet> = gateways.collect();
    let known = all.iter().any(|gateway| **gateway == net);
    let conflicts = net.addr().is_ipv4() || all.iter().any(|gateway| overlaps(gateway));
    is_used && !known && conflicts && !forced
}

#[cfg(test)]
mod tests {
    use super::KIND;
    use crate::findings::tests::{Fixture, ids};
    use crate::fixture::{ip, net};
    use crate::network::Range;

    #[test]
    fn any_of_ipv4_and_what_overlaps_of_ipv6() {
        for (net, counts) in [
            ("10.9.0.1/24", true),
            ("10.1.1.1/25", true),
            ("fd00:0:0:1::99/64", true),
            ("fd77::1/64", false),
            ("fe80::1/64", false),
        ] {
            let mut fixture = Fixture::healthy();
            fixture.add_address(3, net);
            let found = fixture.look();
            assert_eq!(!found.is_empty(), counts, "{net}: {found:?}");
            if counts {
                assert_eq!(ids(&found), ["bridge-foreign-address"]);
                assert_eq!(found[0].mend, [format!("ip address del {net} dev cni0")]);
            }
        }
    }

    #[test]
    fn where_it_is_forced_add_deletes_it() {
        let mut fixture = Fixture::healthy();
        fixture.add_address(3, "10.9.0.1/24");
        fixture.node.networks[0]
            .bridged
            .as_mut()
            .unwrap()
            .force_address = true;
        assert_eq!(ids(&fixture.look()), [""; 0]);
    }

    #[test]
    fn the_conflist_of_another_node_is_no_reason_to_darken_pods() {
        let mut fixture = Fixture::healthy();
        fixture.node.networks[0].pools[0].0[0] = Range {
            subnet: net("10.1.2.0/24"),
            start: ip("10.1.2.1"),
            end: ip("10.1.2.254"),
            gateway: ip("10.1.2.1"),
        };
        assert_eq!(ids(&fixture.look()), ["conflist-range"]);
        // Without the plan it is only known that a pod uses it.
        fixture.site = None;
        let of_kind = |fixture: &Fixture| {
            let mut found = fixture.look();
            found.retain(|finding| finding.id == KIND.id);
            found
        };
        let found = of_kind(&fixture);
        let used = "it is the gateway of 1 pod(s) that live, as 10.1.1.2";
        assert_eq!(found[0].evidence[1], used);
        assert!(found[0].mend[0].starts_with("# correct the range in /etc/cni/net.d/"));
        // What a pod that is gone has left counts for nothing.
        fixture.node.links.retain(|link| link.kind != "veth");
        fixture.node.attachments = Some(Vec::new());
        let found = of_kind(&fixture);
        assert_eq!(found[0].mend, ["ip address del 10.1.1.1/24 dev cni0"]);
    }
}
