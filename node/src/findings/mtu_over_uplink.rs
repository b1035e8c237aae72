//! Packets that are too big for the way out.

use net::Link;

use crate::case::Case;
use crate::finding::{Finding, Kind};

pub const KIND: Kind = Kind {
    id: "mtu-over-uplink",
    means: "The bridge or a pod's link takes bigger packets than the link by which they leave the node: \
            they are cut or refused there, and connections hang wherever the refusal does not come back.",
    mend: "set `mtu` in the conflist to the uplink's, for new pods; and the bridge's at once",
    needs_plan: false,
    look,
};

fn look(case: &Case) -> Vec<Finding> {
    let uplinks = case.uplinks();
    let Some(uplink) = uplinks.into_iter().min_by_key(|link| link.mtu) else {
        return Vec::new();
    };
    let gateways = case.gateways();
    gateways
        .filter_map(|(_, bridge)| finding(case, bridge, uplink))
        .collect()
}

fn finding(case: &Case, bridge: &Link, uplink: &Link) -> Option<Finding> {
    let ports = case.node.ports_of(bridge.index);
    let links = std::iter::once(bridge).chain(ports);
    let big: Vec<&Link> = links.filter(|link| link.mtu > uplink.mtu).collect();
    if big.is_empty() {
        return None;
    }
    let (name, mtu) = (&uplink.name, uplink.mtu);
    let breaks = format!(
        "big packets of pods do not fit {name} (MTU {mtu}): connections that hang half-way"
    );
    let finding = Finding::warning(&KIND, breaks);
    let finding = big.iter().fold(finding, |finding, link| {
        finding.by(format!(
            "{} has MTU {}, {name} has {mtu}",
            link.name, link.mtu
        ))
    });
    let finding = finding.advised(format!(
        "set \"mtu\": {mtu} in the conflist, and start the pods anew"
    ));
    Some(big.iter().fold(finding, |finding, link| {
        finding.mended_by(format!("ip link set dev {} mtu {mtu}", link.name))
    }))
}

#[cfg(test)]
mod tests {
    use crate::findings::tests::{Fixture, ids};

    #[test]
    fn an_uplink_of_a_tunnel() {
        let mut fixture = Fixture::healthy();
        fixture.link("eth0").mtu = 1450;
        let found = fixture.look();
        assert_eq!(ids(&found), ["mtu-over-uplink"]);
        assert_eq!(found[0].evidence.len(), 2);
        assert_eq!(found[0].evidence[0], "cni0 has MTU 1500, eth0 has 1450");
        fixture.link("eth0").mtu = 9000;
        assert_eq!(ids(&fixture.look()), [""; 0]);
    }
}
