//! A bridge that its pods do not find as their gateway.

use ipnet::IpNet;
use net::Link;

use crate::case::Case;
use crate::finding::{Finding, Fix, Kind};

pub const KIND: Kind = Kind {
    id: "bridge-no-gateway",
    means: "The bridge does not have the address that its pods have as their gateway, or failed to get it \
            (duplicate address detection): they reach each other and nothing else.",
    mend: "add the address",
    needs_plan: false,
    look,
};

fn look(case: &Case) -> Vec<Finding> {
    let mut found = Vec::new();
    // One that is down has lost some, which is another finding.
    for (bridge, link) in case.gateways().filter(|(_, link)| link.up) {
        // Of a range that no pod has an address of yet, the next ADD will bring it.
        let used = |net: &&IpNet| is_used(case, &bridge.name, net);
        for gateway in bridge.gateways.iter().filter(used) {
            found.extend(finding(case, link, *gateway));
        }
    }
    found
}

fn is_used(case: &Case, bridge: &str, gateway: &IpNet) -> bool {
    let networks = case.node.networks.iter().filter(|network| {
        let bridged = network.bridged.as_ref();
        bridged.is_some_and(|bridged| bridged.bridge == bridge)
    });
    let mut reservations = networks.flat_map(|network| network.reservations.iter().flatten());
    reservations.any(|one| gateway.contains(&one.address))
}

fn finding(case: &Case, link: &Link, gateway: IpNet) -> Option<Finding> {
    let mut own = case.node.addresses_of(link.index);
    let there = own.find(|address| address.net.addr() == gateway.addr());
    let name = &link.name;
    let (ip, range) = (gateway.addr(), gateway.trunc());
    let breaks =
        format!("pods of {range} reach each other and nothing else: nobody is their gateway {ip}");
    let finding = Finding::error(&KIND, breaks);
    match there {
        None => Some(
            finding
                .by(format!("{name} does not have {gateway}"))
                .fixed_by(
                    case.node,
                    Fix::AddAddress {
                        index: link.index,
                        net: gateway,
                    },
                ),
        ),
        Some(address) if address.dad_failed => Some(
            finding
                .by(format!(
                    "{name} has {gateway} in state dadfailed: another has it too"
                ))
                .mended_by(format!("ip address del {gateway} dev {name}"))
                .mended_by(format!("ip address add {gateway} dev {name} nodad")),
        ),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::tests::{Fixture, ids};

    #[test]
    fn the_address_is_gone() {
        let mut fixture = Fixture::healthy();
        fixture
            .node
            .addresses
            .retain(|(_, address)| address.net.to_string() != "10.1.1.1/24");
        let found = fixture.look();
        assert_eq!(ids(&found), ["bridge-no-gateway"]);
        assert_eq!(found[0].mend, ["ip address add 10.1.1.1/24 dev cni0"]);
        assert_eq!(found[0].fixes.len(), 1);
        // Without a pod that has it, nobody misses it.
        for network in &mut fixture.node.networks {
            network.reservations = Some(Vec::new());
        }
        let found = fixture.look();
        assert!(!ids(&found).contains(&"bridge-no-gateway"), "{found:?}");
    }

    #[test]
    fn another_has_it_too() {
        let mut fixture = Fixture::healthy();
        for (_, address) in &mut fixture.node.addresses {
            address.dad_failed = address.net.to_string() == "fd00:0:0:1::1/64";
        }
        let found = fixture.look();
        assert_eq!(ids(&found), ["bridge-no-gateway"]);
        assert_eq!(found[0].mend.len(), 2);
        assert_eq!(found[0].fixes, []);
    }
}
