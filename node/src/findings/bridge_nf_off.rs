//! Frames of a bridge that the rules of Services do not see.

use crate::case::Case;
use crate::finding::{Finding, Fix, Kind};

pub const KIND: Kind = Kind {
    id: "bridge-nf-off",
    means: "This node translates the addresses of Services (kube-proxy's rules are there), but frames \
            between two ports of the bridge do not pass these rules: a pod that asks a Service, and is \
            answered by a pod of its own node, takes the answer for a stranger's.",
    mend: "load br_netfilter and set the sysctl",
    needs_plan: false,
    look,
};

fn look(case: &Case) -> Vec<Finding> {
    if !case.node.rules.services {
        return Vec::new();
    }
    let gateways: Vec<_> = case.gateways().collect();
    let families = [(true, "iptables", "IPv4"), (false, "ip6tables", "IPv6")];
    let used = families.into_iter().filter(|(ipv4, _, _)| {
        let mut nets = gateways.iter().flat_map(|(bridge, _)| &bridge.gateways);
        nets.any(|net| net.addr().is_ipv4() == *ipv4)
    });
    used.filter_map(|(_, tables, family)| finding(case, tables, family))
        .collect()
}

fn finding(case: &Case, tables: &str, family: &str) -> Option<Finding> {
    let path = format!("net/bridge/bridge-nf-call-{tables}");
    let value = case.node.sysctl(&path);
    if value == Some("1") {
        return None;
    }
    let breaks = format!("pods do not reach Services of {family} whose pods are on this node");
    let finding = Finding::error(&KIND, breaks);
    let fix = Fix::Sysctl {
        path: path.clone(),
        value: "1",
    };
    Some(match value {
        Some(value) => finding
            .by(format!("{path} is {value}"))
            .fixed_by(case.node, fix),
        None => finding
            .by(format!("there is no {path}: br_netfilter is not loaded"))
            .mended_by("modprobe br_netfilter")
            .mended_by(fix.command(case.node)),
    })
}

#[cfg(test)]
mod tests {
    use firewall::Family;

    use crate::findings::tests::{Fixture, ids};

    #[test]
    fn where_services_are_translated() {
        let mut fixture = Fixture::healthy();
        fixture.set("net/bridge/bridge-nf-call-iptables", "0");
        fixture.set("net/bridge/bridge-nf-call-ip6tables", "1");
        assert_eq!(ids(&fixture.look()), [""; 0]);
        let rules = std::mem::take(&mut fixture.node.rules);
        fixture.node.rules = rules.with_table(Family::V4, "iptables", "nat", "-N KUBE-SERVICES\n");
        let found = fixture.look();
        assert_eq!(ids(&found), ["bridge-nf-off"]);
        assert_eq!(
            found[0].mend,
            ["sysctl -w net/bridge/bridge-nf-call-iptables=1"]
        );
        fixture
            .node
            .sysctls
            .remove("net/bridge/bridge-nf-call-iptables");
        assert_eq!(fixture.look()[0].mend[0], "modprobe br_netfilter");
        fixture.set("net/bridge/bridge-nf-call-iptables", "1");
        assert_eq!(ids(&fixture.look()), [""; 0]);
    }
}
