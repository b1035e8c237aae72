//! A node that forwards nothing.

use net::Link;

use crate::case::{BridgeCase, Case};
use crate::finding::{Finding, Fix, Kind};

pub const KIND: Kind = Kind {
    id: "forwarding-off",
    means: "The kernel does not forward packets of a family that pods have, at all or on the links that \
            they pass: pods reach this node and each other, and nothing else.",
    mend: "set the sysctl; and see who sets it back (files in /etc/sysctl.d, a firewall)",
    needs_plan: false,
    look,
};

/// The bridge plugin sets it with the first pod: before that nothing is wrong.
fn look(case: &Case) -> Vec<Finding> {
    let gateways: Vec<_> = case.gateways().collect();
    let mut paths = Vec::new();
    for (bridge, link) in &gateways {
        for path in paths_of(case, bridge, link) {
            if case.node.sysctl(&path) == Some("0") && !paths.contains(&path) {
                paths.push(path);
            }
        }
    }
    // Set for the whole node, it is set for each link.
    let whole = "net/ipv4/ip_forward";
    if paths.iter().any(|path| path == whole) {
        paths.retain(|path| !path.starts_with("net/ipv4/conf/"));
    }
    paths.into_iter().map(|path| finding(case, path)).collect()
}

fn paths_of(case: &Case, bridge: &BridgeCase, link: &Link) -> Vec<String> {
    let has = |ipv4: bool| {
        bridge
            .gateways
            .iter()
            .any(|net| net.addr().is_ipv4() == ipv4)
    };
    let mut paths = Vec::new();
    if has(true) {
        paths.push("net/ipv4/ip_forward".to_owned());
        let links = case.uplinks().into_iter().chain([link]);
        paths.extend(links.map(|link| format!("net/ipv4/conf/{}/forwarding", link.name)));
    }
    if has(false) {
        paths.push("net/ipv6/conf/all/forwarding".to_owned());
    }
    paths
}

fn finding(case: &Case, path: String) -> Finding {
    let family = if path.contains("ipv6") {
        "IPv6"
    } else {
        "IPv4"
    };
    let breaks = format!("pods reach nothing beyond this node, and are not reached, by {family}");
    let finding = Finding::error(&KIND, breaks).by(format!("{path} is 0"));
    finding.fixed_by(case.node, Fix::Sysctl { path, value: "1" })
}

#[cfg(test)]
mod tests {
    use crate::findings::tests::{Fixture, ids};

    #[test]
    fn each_family_and_each_link() {
        for (path, mend) in [
            ("net/ipv4/ip_forward", "sysctl -w net/ipv4/ip_forward=1"),
            (
                "net/ipv6/conf/all/forwarding",
                "sysctl -w net/ipv6/conf/all/forwarding=1",
            ),
            (
                "net/ipv4/conf/cni0/forwarding",
                "sysctl -w net/ipv4/conf/cni0/forwarding=1",
            ),
            (
                "net/ipv4/conf/eth0/forwarding",
                "sysctl -w net/ipv4/conf/eth0/forwarding=1",
            ),
        ] {
            let mut fixture = Fixture::healthy();
            fixture.set(path, "0");
            let found = fixture.look();
            assert_eq!(ids(&found), ["forwarding-off"], "{path}");
            assert_eq!(found[0].mend, [mend]);
            assert_eq!(found[0].fixes.len(), 1);
        }
    }

    #[test]
    fn one_finding_for_the_whole_node() {
        let mut fixture = Fixture::healthy();
        for path in ["ip_forward", "conf/cni0/forwarding", "conf/eth0/forwarding"] {
            fixture.set(&format!("net/ipv4/{path}"), "0");
        }
        assert_eq!(ids(&fixture.look()), ["forwarding-off"]);
    }

    #[test]
    fn before_the_first_pod_it_is_as_it_should_be() {
        let mut fixture = Fixture::fresh();
        fixture.set("net/ipv4/ip_forward", "0");
        assert_eq!(ids(&fixture.look()), [""; 0]);
    }
}
