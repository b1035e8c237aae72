//! A node with what its cluster's plan says of it: what every finding looks at.

use ipnet::IpNet;
use net::Link;

use crate::network::Network;
use crate::{Node, Site};

/// A node, and what its cluster's plan says of it where there is one.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    /// The node.
    pub node: &'a Node,
    /// What the plan says.
    pub site: Option<&'a Site>,
}

/// A bridge that should be there, or is about to be.
#[derive(Debug, Clone, PartialEq)]
pub struct BridgeCase<'a> {
    /// Its name.
    pub name: String,
    /// The networks that use it.
    pub networks: Vec<&'a Network>,
    /// The addresses that it should have; none where it is no gateway.
    pub gateways: Vec<IpNet>,
    /// The link of its name, whatever it is.
    pub link: Option<&'a Link>,
}

impl<'a> Case<'a> {
    /// The bridges that the configurations name, else the one that the plan does.
    pub fn bridges(&self) -> Vec<BridgeCase<'a>> {
        let mut bridges: Vec<BridgeCase> = Vec::new();
        for network in &self.node.networks {
            let Some(bridged) = &network.bridged else {
                continue;
            };
            let known = bridges
                .iter()
                .position(|other| other.name == bridged.bridge);
            let known = known.unwrap_or_else(|| {
                bridges.push(self.bridge(&bridged.bridge));
                bridges.len().saturating_sub(1)
            });
            if let Some(bridge) = bridges.get_mut(known) {
                bridge.networks.push(network);
                if bridged.is_gateway {
                    bridge.gateways.extend(network.gateways());
                }
            }
        }
        if let Some(site) = self.site.filter(|_| bridges.is_empty()) {
            let mut bridge = self.bridge(&site.bridge);
            let gateway = |range: &IpNet| {
                let first = plan::range::first_usable(*range);
                IpNet::new(first, range.prefix_len()).ok()
            };
            bridge.gateways = site.ranges.iter().filter_map(gateway).collect();
            bridges.push(bridge);
        }
        bridges
    }

    fn bridge(&self, name: &str) -> BridgeCase<'a> {
        BridgeCase {
            name: name.to_owned(),
            networks: Vec::new(),
            gateways: Vec::new(),
            link: self.node.link(name),
        }
    }

    /// The bridges that are there and have what they need to forward.
    pub fn gateways(&self) -> impl Iterator<Item = (BridgeCase<'a>, &'a Link)> {
        let bridges = self.bridges().into_iter();
        bridges.filter_map(|bridge| {
            let link = bridge.link.filter(|link| link.kind == "bridge")?;
            (!bridge.gateways.is_empty()).then_some((bridge, link))
        })
    }

    /// The node's own pod ranges, as the configurations and the plan say, each with its bridge. What the
    /// plan gives to another node is none of them, whatever a configuration says.
    pub fn own_ranges(&self) -> Vec<(IpNet, String)> {
        let of_bridges = self.bridges().into_iter().flat_map(|bridge| {
            let ranges = bridge.gateways.into_iter();
            ranges.map(move |gateway| (gateway.trunc(), bridge.name.clone()))
        });
        let mut ranges: Vec<(IpNet, String)> = Vec::new();
        let of_plan = self.site.into_iter().flat_map(|site| {
            let ranges = site.ranges.iter();
            ranges.map(|range| (*range, site.bridge.clone()))
        });
        for (range, bridge) in of_bridges.chain(of_plan) {
            let is_known = ranges.iter().any(|(known, _)| *known == range);
            if !is_known && !self.is_of_another(&range) {
                ranges.push((range, bridge));
            }
        }
        ranges
    }

    fn is_of_another(&self, range: &IpNet) -> bool {
        let mut peers = self.site.into_iter().flat_map(|site| &site.peers);
        peers.any(|peer| peer.ranges.iter().any(|theirs| theirs.contains(range)))
    }

    /// The links by which packets leave the node: those of the default routes, and those to other
    /// nodes.
    pub fn uplinks(&self) -> Vec<&'a Link> {
        let default = self.node.main_routes();
        let default = default.filter(|entry| entry.route.dst.prefix_len() == 0);
        let default = default.map(|entry| entry.route.index);
        let planned = self.site.into_iter().flat_map(|site| &site.planned);
        let planned = planned.filter_map(|planned| self.node.way_to(planned.via));
        let planned = planned.map(|way| way.route.index);
        let bridges: Vec<String> = self
            .bridges()
            .into_iter()
            .map(|bridge| bridge.name)
            .collect();
        let mut links: Vec<&Link> = Vec::new();
        for index in default.chain(planned) {
            let link = self.node.link_by_index(index);
            let link = link.filter(|link| link.name != "lo" && !bridges.contains(&link.name));
            links.extend(link.filter(|link| !links.contains(link)));
        }
        links
    }
}
