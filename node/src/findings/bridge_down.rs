//! A bridge that is down. It has lost its addresses of IPv6 then.

use ipnet::IpNet;
use net::Link;

use crate::case::{BridgeCase, Case};
use crate::finding::{Finding, Fix, Kind};

pub const KIND: Kind = Kind {
    id: "bridge-down",
    means: "The bridge is set down: this node's pods reach nothing, not even each other.",
    mend: "set it up",
    needs_plan: false,
    look,
};

fn look(case: &Case) -> Vec<Finding> {
    let bridges = case.bridges().into_iter();
    let links = bridges.filter_map(|bridge| Some((bridge.link?, bridge)));
    let down = links.filter(|(link, _)| link.kind == "bridge" && !link.up);
    down.map(|(link, bridge)| finding(case, link, &bridge))
        .collect()
}

fn finding(case: &Case, link: &Link, bridge: &BridgeCase) -> Finding {
    let (name, index) = (&link.name, link.index);
    let ports = case.node.ports_of(index).count();
    let breaks = format!("the pods of {name} reach nothing, not even each other");
    let finding = Finding::error(&KIND, breaks)
        .by(format!("{name} is down, and has {ports} ports"))
        .fixed_by(case.node, Fix::SetUp(index));
    let is_there = |net: &IpNet| case.node.addresses_of(index).any(|own| own.net == *net);
    let lost = bridge.gateways.iter().filter(|net| !is_there(net));
    lost.fold(finding, |finding, net| {
        let fix = Fix::AddAddress { index, net: *net };
        let finding = finding.by(format!("it does not have {net}"));
        finding.fixed_by(case.node, fix)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::tests::{Fixture, ids};

    #[test]
    fn set_down() {
        let mut fixture = Fixture::healthy();
        fixture.link("cni0").up = false;
        let found = fixture.look();
        assert_eq!(ids(&found), ["bridge-down"]);
        assert_eq!(found[0].mend, ["ip link set dev cni0 up"]);
        let of_ipv6 = |net: &IpNet| net.addr().is_ipv6();
        fixture
            .node
            .addresses
            .retain(|(index, own)| *index != 3 || !of_ipv6(&own.net));
        let found = fixture.look();
        assert_eq!(ids(&found), ["bridge-down"]);
        assert_eq!(found[0].mend[1], "ip address add fd00:0:0:1::1/64 dev cni0");
    }
}
