//! Routes between nodes: each node's pod range, by that node's address.
//!
//! A node's own range is never among its routes: such a route would lead the packets for its own
//! pods out of the node instead of to its bridge.

mod format;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

use ipnet::IpNet;

use crate::{Fault, Node, Plan, range};

pub use format::{Format, Written};

/// The routes to the pods of all nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct Routes {
    nodes: Vec<ToNode>,
    cloud_network: String,
}

/// The routes to the pods of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToNode {
    /// The node.
    pub name: String,
    /// Its own interface, through which it reaches the others.
    pub device: Option<String>,
    /// A route for each of its pod ranges.
    pub routes: Vec<Route>,
}

/// One route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The pod range.
    pub destination: IpNet,
    /// The node's address.
    pub via: IpAddr,
}

impl Routes {
    /// All routes of a plan.
    ///
    /// # Errors
    /// A node has no address of the family of one of its ranges.
    pub fn of(plan: &Plan) -> Result<Routes, Fault> {
        let nodes = plan.nodes().map(|(node, ranges)| to_node(node, ranges));
        Ok(Routes {
            nodes: nodes.collect::<Result<_, _>>()?,
            cloud_network: plan.cluster.cloud_network.clone(),
        })
    }

    /// The routes of the node of that name, to the pods of all others.
    pub fn of_node(&self, name: &str) -> impl Iterator<Item = (&ToNode, Route)> {
        let others = self.nodes.iter().filter(move |node| node.name != name);
        others.flat_map(|node| node.routes.iter().map(move |route| (node, *route)))
    }

    /// All nodes, in the natural order of their names.
    pub fn nodes(&self) -> &[ToNode] {
        &self.nodes
    }
}

fn to_node(node: &Node, ranges: &[IpNet]) -> Result<ToNode, Fault> {
    let route = |destination: &IpNet| {
        let via = node.address(destination.addr().is_ipv4());
        let via = via.ok_or_else(|| {
            let family = range::family(destination.addr());
            let reason = format!(
                "no {family} address of node {}, by which the routes to its pods {destination} must \
                 lead: expected one",
                node.name
            );
            Fault::new(format!("{}.address", node.key), reason)
        })?;
        Ok(Route {
            destination: *destination,
            via,
        })
    };
    Ok(ToNode {
        name: node.name.clone(),
        device: node.device.clone(),
        routes: ranges.iter().map(route).collect::<Result<_, _>>()?,
    })
}
