//! A cluster, checked: what is planned.

use std::collections::HashMap;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::keys::{ClusterKeys, Features, KeptBack, List, NodeKeys, Range};
use crate::{Fault, names, range};

/// How many pods a kubelet takes unless told otherwise.
pub const DEFAULT_POD_LIMIT: u32 = 110;
/// How many names an error lists.
const NAMED: usize = 10;
const DEFAULT_NETWORK: &str = "k8nd-pod-network";
const DEFAULT_BRIDGE: &str = "cni0";
/// The least that IPv4 and that IPv6 ask of a link, and the most that a link can have, in bytes
/// (RFC 791, RFC 8200, linux/if_ether.h).
const MTU: [(bool, u32); 2] = [(true, 68), (false, 1280)];
const MTU_MAX: u32 = 65535;

/// A cluster whose keys agree with each other.
#[derive(Debug, Clone, PartialEq)]
pub struct Cluster {
    /// The range of all pods: one, or one of each family; none where nobody told.
    pub pods: Vec<PodRange>,
    /// The ranges of services.
    pub services: Vec<IpNet>,
    /// The networks of the nodes' own addresses.
    pub node_networks: Vec<IpNet>,
    /// The nodes, in the natural order of their names.
    pub nodes: Vec<Node>,
    /// The pod limit of a node that does not have its own.
    pub pod_limit: u32,
    /// The name of the pod network.
    pub network: String,
    /// The name of the cloud's network.
    pub cloud_network: String,
    /// The bridge on each node.
    pub bridge: String,
    /// The MTU of pods, in bytes.
    pub mtu: Option<u32>,
    /// What the pod network can do.
    pub features: Features,
    /// Nodes that are kept from use until their plugins are there.
    pub kept_back: Vec<KeptBack>,
}

/// What a machine that may be a node is known by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Machine {
    /// The name of the node that it is said to be; nothing else counts then.
    pub named: Option<String>,
    /// Its host name.
    pub host_name: String,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
}

/// The range of all pods of one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodRange {
    /// The whole.
    pub range: IpNet,
    /// The prefix length of each node's part.
    pub node_prefix: u8,
}

/// One node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its addresses, of each family at most one.
    pub addresses: Vec<IpAddr>,
    /// The pod ranges that it has for good, of each family at most one.
    pub fixed: Vec<IpNet>,
    /// How many pods its kubelet takes.
    pub pod_limit: u32,
    /// Its interface through which other nodes are reached.
    pub device: Option<String>,
    /// Where it is written, as `nodes[3]`.
    pub key: String,
}

impl Node {
    /// Its address of one family.
    pub fn address(&self, ipv4: bool) -> Option<IpAddr> {
        let mut addresses = self.addresses.iter().copied();
        addresses.find(|address| address.is_ipv4() == ipv4)
    }
}

impl PodRange {
    /// Whether it is IPv4.
    pub fn is_ipv4(&self) -> bool {
        self.range.addr().is_ipv4()
    }

    /// How many nodes it has a range for.
    pub fn subnets(&self) -> u128 {
        range::subnets(self.range, self.node_prefix)
    }

    /// How many addresses a node's range has.
    pub fn addresses_per_subnet(&self) -> u128 {
        range::size(range::subnet(self.range, self.node_prefix, 0))
    }
}

impl Cluster {
    /// Checks what the keys say.
    ///
    /// # Errors
    /// The first key whose value does not go with the others.
    pub fn new(keys: ClusterKeys) -> Result<Cluster, Fault> {
        let pods = pod_ranges(&keys)?;
        let pod_limit = pod_limit("maxPods", keys.max_pods, DEFAULT_POD_LIMIT)?;
        check_mtu(&keys, &pods)?;
        let device = keys.device.map(|device| device.0);
        let network = keys.network.map_or(DEFAULT_NETWORK.into(), |name| name.0);
        let mut cluster = Cluster {
            services: ranges("serviceSubnet", &keys.service_subnet, true)?,
            node_networks: ranges("nodeSubnet", &keys.node_subnet, false)?,
            nodes: Vec::new(),
            pod_limit,
            cloud_network: keys.cloud_network.map_or(network.clone(), |name| name.0),
            network,
            bridge: keys.bridge.map_or(DEFAULT_BRIDGE.into(), |name| name.0),
            mtu: keys.mtu,
            features: keys.features,
            kept_back: keys.kept_back,
            pods,
        };
        let node = |(index, keys)| cluster.node(keys, format!("nodes[{index}]"), device.as_ref());
        let nodes = keys.nodes.into_iter().enumerate().map(node);
        cluster.nodes = nodes.collect::<Result<_, _>>()?;
        check_unique(&cluster.nodes)?;
        cluster.check_bridge(device.as_deref())?;
        cluster
            .nodes
            .sort_by(|a, b| names::natural(&a.name, &b.name));
        Ok(cluster)
    }

    fn node(&self, keys: NodeKeys, key: String, device: Option<&String>) -> Result<Node, Fault> {
        let pod_cidr = format!("{key}.podCIDR");
        let fixed = ranges(&pod_cidr, &keys.pod_cidr, true)?;
        for range in &fixed {
            self.check_fixed(*range)
                .map_err(|reason| Fault::new(&pod_cidr, reason))?;
        }
        let addresses: Vec<IpAddr> = keys.address.0.iter().map(|address| address.0).collect();
        check_addresses(&addresses)
            .map_err(|reason| Fault::new(format!("{key}.address"), reason))?;
        Ok(Node {
            fixed,
            name: keys.name.0,
            addresses,
            pod_limit: pod_limit(&format!("{key}.maxPods"), keys.max_pods, self.pod_limit)?,
            device: keys.device.map(|name| name.0).or(device.cloned()),
            key,
        })
    }

    /// A node's own range must be a part of the pods' that a plugin can give addresses of.
    fn check_fixed(&self, fixed: IpNet) -> Result<(), String> {
        let family = range::family(fixed.addr());
        let longest = longest_node_prefix(fixed);
        let mut pods = self.pods.iter();
        match pods.find(|pods| range::same_family(pods.range, fixed)) {
            None => Err(format!(
                "{fixed} is {family}, and podSubnet has no {family} range"
            )),
            Some(pods) if !pods.range.contains(&fixed) => {
                Err(format!("{fixed} is outside of podSubnet {}", pods.range))
            }
            Some(_) if fixed.prefix_len() > longest => Err(format!(
                "{fixed} has no address for a pod: the prefix is at most {longest}"
            )),
            Some(_) => Ok(()),
        }
    }

    /// The bridge must be a link of its own, and `all` and `default` are the kernel's words for all
    /// links.
    fn check_bridge(&self, device: Option<&str>) -> Result<(), Fault> {
        let bridge = self.bridge.as_str();
        if let "all" | "default" | "lo" = bridge {
            let reason = format!("{bridge:?} is no bridge's name: the kernel has it for itself");
            return Err(Fault::new("bridge", reason));
        }
        let of_nodes = self.nodes.iter().map(|node| node.device.as_deref());
        let mut devices = of_nodes.chain(std::iter::once(device)).flatten();
        if devices.any(|device| device == bridge) {
            let reason = format!(
                "{bridge:?} is the device by which nodes are reached: expected the name of a link of \
                 its own"
            );
            return Err(Fault::new("bridge", reason));
        }
        Ok(())
    }

    /// Which node a machine is: the one that is named, else the one of its host name (whole, or
    /// before the first dot), else the one with one of its addresses.
    ///
    /// # Errors
    /// None is; the reason says which nodes there are.
    pub fn which(&self, machine: &Machine) -> Result<&Node, String> {
        let (found, who) = if let Some(name) = &machine.named {
            (self.find(name), format!("{name:?} is no node's"))
        } else {
            let host = &machine.host_name;
            let short = host.split('.').next().unwrap_or_default();
            let by_name = self.find(host).or_else(|| self.find(short));
            let is_here = |address: &IpAddr| machine.addresses.contains(address);
            let mut nodes = self.nodes.iter();
            let by_address = || nodes.find(|node| node.addresses.iter().any(is_here));
            let who = format!(
                "neither the host name {host:?} nor an address of this machine is a node's"
            );
            (by_name.or_else(by_address), who)
        };
        found.ok_or_else(|| {
            let names = self.nodes.iter().map(|node| node.name.as_str());
            let mut names: Vec<_> = names.take(NAMED.saturating_add(1)).collect();
            if names.len() > NAMED {
                names.truncate(NAMED);
                names.push("…");
            }
            format!("{who}: there are {:?}", names.join(", "))
        })
    }

    /// The node of that name.
    pub fn find(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name == name)
    }
}

/// Network address, gateway, a pod, and for IPv4 the broadcast address: host-local refuses less.
fn longest_node_prefix(range: IpNet) -> u8 {
    range.max_prefix_len().saturating_sub(2)
}

fn pod_ranges(keys: &ClusterKeys) -> Result<Vec<PodRange>, Fault> {
    let ranges = ranges("podSubnet", &keys.pod_subnet, true)?;
    let prefixes = &keys.node_prefix.0;
    if !prefixes.is_empty() && prefixes.len() != ranges.len() {
        let (given, wanted) = (prefixes.len(), ranges.len());
        let reason = format!(
            "{given} for {wanted} pod ranges: expected one for each of podSubnet, in their order"
        );
        return Err(Fault::new("nodePrefix", reason));
    }
    let pods = ranges.into_iter().enumerate().map(|(index, range)| {
        let default = if range.addr().is_ipv4() { 24 } else { 64 };
        PodRange {
            range,
            node_prefix: prefixes.get(index).copied().unwrap_or(default),
        }
    });
    let pods: Vec<PodRange> = pods.collect();
    let is_default = prefixes.is_empty();
    pods.iter()
        .try_for_each(|pods| check_prefix(is_default, *pods))
        .map(|()| pods)
}

fn check_prefix(is_default: bool, pods: PodRange) -> Result<(), Fault> {
    let PodRange { range, node_prefix } = pods;
    let longest = longest_node_prefix(range);
    let shortest = range.prefix_len();
    if (shortest..=longest).contains(&node_prefix) {
        return Ok(());
    }
    let reason = if shortest > longest {
        format!("{range} has no address for a pod: its prefix is at most {longest}")
    } else if is_default {
        format!(
            "{range} is too small for a node's range of /{node_prefix}, the default: expected nodePrefix \
             (--node-prefix) of {shortest} to {longest}, or a larger range"
        )
    } else if node_prefix < shortest {
        format!(
            "{node_prefix}, a node's prefix, is shorter than that of the pod range {range} that it \
             is to be a part of: expected {shortest} to {longest}"
        )
    } else {
        format!(
            "{node_prefix}, a node's prefix, leaves no address for a pod of {range}: expected \
             {shortest} to {longest}"
        )
    };
    let key = if is_default {
        "podSubnet"
    } else {
        "nodePrefix"
    };
    Err(Fault::new(key, reason))
}

/// A node's addresses: of each family at most one, by which a route can lead.
fn check_addresses(addresses: &[IpAddr]) -> Result<(), String> {
    for (index, address) in addresses.iter().enumerate() {
        if let Some(what) = range::no_next_hop(*address) {
            return Err(format!(
                "{address} is {what}: no route can lead to a node by it"
            ));
        }
        let mut before = addresses.iter().take(index);
        if let Some(other) = before.find(|other| other.is_ipv4() == address.is_ipv4()) {
            let family = range::family(*address);
            return Err(format!(
                "{other} and {address} are both {family}: expected one address, or one of each family"
            ));
        }
    }
    Ok(())
}

/// The ranges of a key; of each family at most one where there can be no second.
fn ranges(key: &str, list: &List<Range>, one_a_family: bool) -> Result<Vec<IpNet>, Fault> {
    let ranges: Vec<IpNet> = list.0.iter().map(|range| range.0).collect();
    for (index, range) in ranges.iter().enumerate() {
        let before = ranges.iter().take(index);
        let mut before = before.filter(|other| range::same_family(**other, *range));
        if let Some(other) = before.next().filter(|_| one_a_family) {
            let family = range::family(range.addr());
            let reason = format!(
                "{other} and {range} are both {family}: expected one range, or one IPv4 and one IPv6"
            );
            return Err(Fault::new(format!("{key}[{index}]"), reason));
        }
    }
    Ok(ranges)
}

fn pod_limit(key: &str, given: Option<u32>, default: u32) -> Result<u32, Fault> {
    match given {
        Some(0) => Err(Fault::new(key, "0 leaves no pod: expected 1 or more")),
        given => Ok(given.unwrap_or(default)),
    }
}

fn check_mtu(keys: &ClusterKeys, pods: &[PodRange]) -> Result<(), Fault> {
    let has = |ipv4: bool| pods.iter().any(|pods| pods.is_ipv4() == ipv4);
    let least = MTU.into_iter().filter(|(ipv4, _)| has(*ipv4));
    let least = least.map(|(_, least)| least).max().unwrap_or(68);
    match keys.mtu {
        Some(mtu) if !(least..=MTU_MAX).contains(&mtu) => {
            let reason = format!("{mtu} is no MTU of these pods: expected {least} to {MTU_MAX}");
            Err(Fault::new("mtu", reason))
        }
        _ => Ok(()),
    }
}

/// Neither names nor addresses may be of two nodes.
fn check_unique(nodes: &[Node]) -> Result<(), Fault> {
    let mut names = HashMap::new();
    let mut addresses = HashMap::new();
    for node in nodes {
        if names.insert(&node.name, &node.key).is_some() {
            let reason = format!("{:?} is the name of two nodes", node.name);
            return Err(Fault::new(format!("{}.name", node.key), reason));
        }
        for address in &node.addresses {
            if let Some(other) = addresses.insert(address, &node.name) {
                let reason = format!("{address} is the address of {other} already");
                return Err(Fault::new(format!("{}.address", node.key), reason));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
