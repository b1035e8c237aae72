//! What the plan of a cluster says of one node.

use std::net::IpAddr;

use ipnet::IpNet;
use plan::routes::Routes;
use plan::{Fault, Plan};

/// What the plan says of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// Its name.
    pub name: String,
    /// Its pod ranges, one of each family.
    pub ranges: Vec<IpNet>,
    /// Its bridge.
    pub bridge: String,
    /// The interface through which it reaches other nodes, where that is told.
    pub device: Option<String>,
    /// The ranges of all pods.
    pub pods: Vec<IpNet>,
    /// The other nodes.
    pub peers: Vec<Peer>,
    /// The routes that it should have: one to each pod range of each other node.
    pub planned: Vec<Planned>,
}

/// Another node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its name.
    pub name: String,
    /// Its addresses; of a family the first counts.
    pub addresses: Vec<IpAddr>,
    /// Its pod ranges.
    pub ranges: Vec<IpNet>,
}

/// A route that the node should have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// Another node's pod range.
    pub range: IpNet,
    /// That node's address.
    pub via: IpAddr,
    /// Its name.
    pub to: String,
}

impl Site {
    /// What the plan says of the node of that name, if there is one.
    ///
    /// # Errors
    /// A node has no address of the family of one of its ranges.
    pub fn new(plan: &Plan, name: &str) -> Result<Option<Site>, Fault> {
        let routes = Routes::of(plan)?;
        let Some((own, ranges)) = plan.node(name) else {
            return Ok(None);
        };
        let others = plan.nodes().filter(|(node, _)| node.name != name);
        let peers = others.map(|(node, ranges)| Peer {
            name: node.name.clone(),
            addresses: node.addresses.clone(),
            ranges: ranges.to_vec(),
        });
        let planned = routes.of_node(name).map(|(node, route)| Planned {
            range: route.destination,
            via: route.via,
            to: node.name.clone(),
        });
        Ok(Some(Site {
            name: name.to_owned(),
            ranges: ranges.to_vec(),
            bridge: plan.cluster.bridge.clone(),
            device: own.device.clone(),
            pods: plan.cluster.pods.iter().map(|pods| pods.range).collect(),
            peers: peers.collect(),
            planned: planned.collect(),
        }))
    }

    /// Whether a range is the node's own, or a part of it.
    pub fn is_own(&self, range: &IpNet) -> bool {
        self.ranges.iter().any(|own| own.contains(range))
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{net, site};

    #[test]
    fn a_route_for_each_other_node_and_none_for_its_own() {
        let site = site("b");
        assert_eq!(site.ranges, [net("10.1.1.0/24"), net("fd00:0:0:1::/64")]);
        let planned: Vec<_> = site
            .planned
            .iter()
            .map(|planned| format!("{} {} {}", planned.to, planned.range, planned.via))
            .collect();
        assert_eq!(
            planned,
            [
                "a 10.1.0.0/24 192.0.2.10",
                "a fd00::/64 2001:db8::10",
                "c 10.1.2.0/24 192.0.2.12",
                "c fd00:0:0:2::/64 2001:db8::12"
            ]
        );
        assert!(site.is_own(&net("10.1.1.128/25")) && !site.is_own(&net("10.1.0.0/16")));
    }
}
