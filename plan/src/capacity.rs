//! How many nodes, addresses and pods there is room for.

use serde_json::{Map, Value, json};

use crate::{Cluster, Fault, PodRange, range};

/// What binds first on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binding {
    /// The addresses of its range.
    Subnet,
    /// The pod limit of its kubelet.
    Node,
}

impl Binding {
    /// The limit counts where it is at most the usable addresses.
    fn of(limit: u32, usable: u128) -> Binding {
        if u128::from(limit) <= usable {
            Binding::Node
        } else {
            Binding::Subnet
        }
    }

    /// `subnet` or `node`.
    pub fn as_str(self) -> &'static str {
        match self {
            Binding::Subnet => "subnet",
            Binding::Node => "node",
        }
    }
}

/// What there is room for. Where there are two pod ranges, each number is the smaller one's, since a
/// pod needs an address of both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capacity {
    /// How many nodes there is a range for.
    pub subnets: u128,
    /// All addresses of a node's range.
    pub addresses_per_subnet: u128,
    /// Without the network address and the gateway's.
    pub usable_per_subnet: u128,
    /// What host-local hands out of it: for IPv4 without the broadcast address too.
    pub allocatable_per_subnet: u128,
    /// The smallest pod limit of a node.
    pub node_pod_limit: u32,
    /// What binds first there.
    pub binding_limit: Binding,
    /// Each node with its own numbers.
    pub nodes: Vec<OfNode>,
    /// How many more nodes there is a range for.
    pub nodes_left: u128,
    /// How many pods the nodes can hold that there are.
    pub pods: u128,
    /// How many pods the cluster can hold once it has as many nodes as it has ranges for; the nodes
    /// that are missing have the cluster's pod limit.
    pub pods_when_full: u128,
}

/// One node's numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfNode {
    /// Its name.
    pub name: String,
    /// How many pods its kubelet takes.
    pub pod_limit: u32,
    /// What host-local hands out of its range.
    pub allocatable: u128,
    /// What binds first.
    pub binding_limit: Binding,
}

impl OfNode {
    /// How many pods it can hold.
    pub fn pods(&self) -> u128 {
        u128::from(self.pod_limit).min(self.allocatable)
    }
}

/// Addresses of a range that are no pod's: the network's and the gateway's.
const UNUSABLE: u128 = 2;

fn usable(addresses: u128) -> u128 {
    addresses.saturating_sub(UNUSABLE)
}

/// For IPv4 without the broadcast address.
fn allocatable(range: ipnet::IpNet) -> u128 {
    let broadcast = u128::from(range.addr().is_ipv4());
    usable(range::size(range)).saturating_sub(broadcast)
}

impl Capacity {
    /// Counts.
    ///
    /// # Errors
    /// There is no pod range.
    pub fn of(cluster: &Cluster) -> Result<Capacity, Fault> {
        let pods = &cluster.pods;
        let least = |count: &dyn Fn(&PodRange) -> u128| {
            let reason = "missing: expected the range of all pods, as 10.244.0.0/16 (--pod-cidr)";
            let least = pods.iter().map(count).min();
            least.ok_or_else(|| Fault::new("podSubnet", reason))
        };
        let subnets = least(&PodRange::subnets)?;
        let addresses_per_subnet = least(&PodRange::addresses_per_subnet)?;
        let of_each = |pods: &PodRange| allocatable(range::subnet(pods.range, pods.node_prefix, 0));
        let allocatable_per_subnet = least(&of_each)?;
        let nodes = of_nodes(cluster, allocatable_per_subnet);
        let limits = nodes.iter().map(|node| node.pod_limit);
        let node_pod_limit = limits.min().unwrap_or(cluster.pod_limit);
        let usable_per_subnet = usable(addresses_per_subnet);
        let nodes_left = subnets.saturating_sub(nodes.len() as u128);
        let pods = nodes.iter().map(OfNode::pods).sum();
        let of_another = u128::from(cluster.pod_limit).min(allocatable_per_subnet);
        Ok(Capacity {
            subnets,
            addresses_per_subnet,
            usable_per_subnet,
            allocatable_per_subnet,
            node_pod_limit,
            binding_limit: Binding::of(node_pod_limit, usable_per_subnet),
            nodes,
            nodes_left,
            pods,
            pods_when_full: nodes_left.saturating_mul(of_another).saturating_add(pods),
        })
    }

    /// The short list, or with `all` every number and a line for each node.
    pub fn text(&self, all: bool) -> String {
        let mut text = String::new();
        for (key, value) in self.pairs(all) {
            text.push_str(&format!("{key}={value}\n"));
        }
        for node in self.nodes.iter().filter(|_| all) {
            text.push_str(&format!(
                "node={} node_pod_limit={} allocatable={} binding_limit={} pods={}\n",
                node.name,
                node.pod_limit,
                node.allocatable,
                node.binding_limit.as_str(),
                node.pods()
            ));
        }
        text
    }

    fn pairs(&self, all: bool) -> Vec<(&'static str, String)> {
        let mut pairs = vec![
            ("subnets", self.subnets.to_string()),
            (
                "addresses_per_subnet",
                self.addresses_per_subnet.to_string(),
            ),
            ("usable_per_subnet", self.usable_per_subnet.to_string()),
            ("node_pod_limit", self.node_pod_limit.to_string()),
            ("binding_limit", self.binding_limit.as_str().to_owned()),
        ];
        if all {
            let allocatable = self.allocatable_per_subnet.to_string();
            pairs.extend([
                ("allocatable_per_subnet", allocatable),
                ("nodes", self.nodes.len().to_string()),
                ("nodes_left", self.nodes_left.to_string()),
                ("pods", self.pods.to_string()),
                ("pods_when_full", self.pods_when_full.to_string()),
            ]);
        }
        pairs
    }

    /// As [`Capacity::text`]. Numbers that JSON's readers would round are texts.
    pub fn to_json(&self, all: bool) -> Value {
        let mut object = Map::new();
        for (key, value) in self.pairs(all) {
            object.insert(key.to_owned(), number(value));
        }
        if all {
            let node = |node: &OfNode| {
                json!({
                    "name": node.name,
                    "node_pod_limit": node.pod_limit,
                    "allocatable": number(node.allocatable.to_string()),
                    "binding_limit": node.binding_limit.as_str(),
                    "pods": number(node.pods().to_string()),
                })
            };
            let nodes: Vec<_> = self.nodes.iter().map(node).collect();
            object.insert("nodes".to_owned(), nodes.into());
        }
        object.into()
    }
}

/// A node with a range of its own size has its own numbers.
fn of_nodes(cluster: &Cluster, of_others: u128) -> Vec<OfNode> {
    let of_node = |node: &crate::Node| {
        let fixed = node.fixed.iter().map(|range| allocatable(*range));
        let planned = (node.fixed.len() < cluster.pods.len()).then_some(of_others);
        let allocatable = fixed.chain(planned).min().unwrap_or(of_others);
        // The gateway and the network's address are no pod's; the broadcast address counts as
        // usable, as in the short list.
        let broadcast = u128::from(cluster.pods.iter().any(PodRange::is_ipv4));
        OfNode {
            name: node.name.clone(),
            pod_limit: node.pod_limit,
            allocatable,
            binding_limit: Binding::of(node.pod_limit, allocatable.saturating_add(broadcast)),
        }
    };
    cluster.nodes.iter().map(of_node).collect()
}

/// A number where JSON can hold it exactly, else its digits.
fn number(digits: String) -> Value {
    /// The largest that a double holds, with all below it.
    const EXACT: u64 = 1 << 53;
    match digits.parse::<u64>() {
        Ok(number) if number <= EXACT => number.into(),
        _ => digits.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Document;

    fn capacity(text: &str) -> Capacity {
        let document = Document::parse("c", text).unwrap();
        Capacity::of(&Cluster::new(document.read().unwrap()).unwrap()).unwrap()
    }

    #[test]
    fn the_short_list() {
        for (cluster, expected) in [
            ("podSubnet: 10.244.0.0/16", "256 256 254 110 node"),
            (
                "podSubnet: 10.244.0.0/16\nmaxPods: 254",
                "256 256 254 254 node",
            ),
            (
                "podSubnet: 10.244.0.0/16\nmaxPods: 255",
                "256 256 254 255 subnet",
            ),
            (
                "podSubnet: 10.0.0.0/8\nnodePrefix: 25",
                "131072 128 126 110 node",
            ),
            (
                "podSubnet: 10.0.0.0/8\nnodePrefix: 26",
                "262144 64 62 110 subnet",
            ),
            (
                "podSubnet: fd00::/8",
                "72057594037927936 18446744073709551616 18446744073709551614 110 node",
            ),
            (
                "podSubnet: 8000::/1\nnodePrefix: 1",
                "1 170141183460469231731687303715884105728 \
                 170141183460469231731687303715884105726 110 node",
            ),
            ("podSubnet: 10.244.0.0/16,fd00::/60", "16 256 254 110 node"),
            (
                "podSubnet: 10.244.0.0/16\nnodes: [{name: a, maxPods: 300}, {name: b, maxPods: 20}]",
                "256 256 254 20 node",
            ),
        ] {
            let text = capacity(cluster).text(false);
            let values = text.lines().map(|line| line.split_once('=').unwrap().1);
            assert_eq!(values.collect::<Vec<_>>().join(" "), expected, "{cluster}");
        }
    }

    #[test]
    fn every_number() {
        let capacity = capacity(
            "podSubnet: 10.244.0.0/22
nodes:
- {name: a, maxPods: 300}
- {name: b, maxPods: 20}
- {name: c, podCIDR: 10.244.3.0/25}
",
        );
        assert_eq!(
            capacity.text(true),
            "subnets=4
addresses_per_subnet=256
usable_per_subnet=254
node_pod_limit=20
binding_limit=node
allocatable_per_subnet=253
nodes=3
nodes_left=1
pods=383
pods_when_full=493
node=a node_pod_limit=300 allocatable=253 binding_limit=subnet pods=253
node=b node_pod_limit=20 allocatable=253 binding_limit=node pods=20
node=c node_pod_limit=110 allocatable=125 binding_limit=node pods=110
"
        );
        let json = capacity.to_json(true);
        assert_eq!(
            (&json["subnets"], &json["pods_when_full"]),
            (&json!(4), &json!(493))
        );
        assert_eq!(json["nodes"][1]["pods"], 20);
    }

    #[test]
    fn what_json_would_round_is_a_text() {
        let json = capacity("podSubnet: fd00::/8").to_json(false);
        assert_eq!(json["addresses_per_subnet"], "18446744073709551616");
        assert_eq!(json["subnets"], "72057594037927936");
        assert_eq!(json["node_pod_limit"], 110);
    }
}
