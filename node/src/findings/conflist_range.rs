//! A configuration of another node.

use ipnet::IpNet;

use crate::case::Case;
use crate::finding::{Finding, Kind};
use crate::network::Network;
use crate::site::Site;

pub const KIND: Kind = Kind {
    id: "conflist-range",
    means: "A conflist gives pods addresses of another range than the plan gives this node: nobody routes \
            them here, and another node may give the same.",
    mend: "write the node's own conflist: `podnet plan conflist`; and start its pods anew",
    needs_plan: true,
    look,
};

fn look(case: &Case) -> Vec<Finding> {
    let sites = case.site.into_iter();
    let networks = sites.flat_map(|site| {
        case.node
            .networks
            .iter()
            .map(move |network| (site, network))
    });
    networks
        .filter_map(|(site, network)| finding(site, network))
        .collect()
}

/// Networks that are not about the cluster's pods are their own affair.
fn finding(site: &Site, network: &Network) -> Option<Finding> {
    let about_pods = |range: &IpNet| {
        let overlaps = |pods: &IpNet| pods.contains(range) || range.contains(pods);
        site.pods.iter().any(overlaps)
    };
    let wrong = network
        .subnets()
        .filter(about_pods)
        .find(|range| !site.is_own(range))?;
    let owner = site
        .peers
        .iter()
        .find(|peer| peer.ranges.iter().any(|range| range.contains(&wrong)));
    let own: Vec<_> = site.ranges.iter().map(ToString::to_string).collect();
    let file = network.file.display();
    let breaks = format!("pods of this node get addresses of {wrong}, which nobody routes here");
    let finding = Finding::error(&KIND, breaks).by(format!(
        "{file} has {wrong}; {} is {} in the plan",
        site.name,
        own.join(", ")
    ));
    let finding = match owner {
        Some(peer) => finding.by(format!("{wrong} is of {}", peer.name)),
        None => finding,
    };
    Some(finding.advised(format!(
        "podnet plan conflist -f cluster.yaml --for {} > {file}",
        site.name
    )))
}

#[cfg(test)]
mod tests {
    use crate::findings::tests::{Fixture, ids};
    use crate::fixture::net;

    #[test]
    fn the_conflist_of_another_node() {
        let mut fixture = Fixture::fresh();
        fixture.node.networks[0].pools[0].0[0].subnet = net("10.1.2.0/24");
        let found = fixture.look();
        assert!(ids(&found).contains(&"conflist-range"), "{found:?}");
        let finding = found
            .iter()
            .find(|finding| finding.id == "conflist-range")
            .unwrap();
        assert_eq!(finding.evidence[1], "10.1.2.0/24 is of c");
        assert!(!ids(&fixture.without_plan().look()).contains(&"conflist-range"));
    }

    #[test]
    fn a_network_of_something_else() {
        let mut fixture = Fixture::fresh();
        let mut other = fixture.node.networks[0].clone();
        other.name = "other".to_owned();
        other.bridged = None;
        for pool in &mut other.pools {
            pool.0[0].subnet = net("172.16.0.0/24");
        }
        fixture.node.networks.push(other);
        assert_eq!(ids(&fixture.look()), [""; 0]);
    }
}
