//! An address of the bridge that the next ADD will stumble over.

use ipnet::IpNet;

use crate::case::{BridgeCase, Case};
use crate::finding::{Finding, Kind};

pub const KIND: Kind = Kind {
    id: "bridge-foreign-address",
    means: "The bridge has an address that is none of its gateways', as of a former range. An ADD fails \
            for any of IPv4, and for one of IPv6 that overlaps, with \"already has an IP address different \
            from\".",
    mend: "delete the address; or set `forceAddress` in the conflist, and ADD does",
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
        for net in global.filter(|net| is_in_the_way(&bridge, *net)) {
            let name = &link.name;
            let gateways: Vec<_> = bridge.gateways.iter().map(ToString::to_string).collect();
            let breaks =
                format!("the next pod cannot be attached: {name} already has another address");
            let finding = Finding::error(&KIND, breaks)
                .by(format!(
                    "{name} has {net}; expected {}",
                    gateways.join(", ")
                ))
                .mended_by(format!("ip address del {net} dev {name}"));
            found.push(finding);
        }
    }
    found
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
    use crate::findings::tests::{Fixture, ids};

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
}
