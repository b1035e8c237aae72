//! The cluster file as it is written.

mod list;
#[cfg(test)]
mod schema;
mod values;

use serde::Deserialize;

pub use list::List;
pub use values::{Address, CloudName, Device, NetworkName, NodeName, Range, TaintKey};

/// The keys of a cluster file. All are optional; what a command needs, it asks for.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(
    rename_all = "camelCase",
    deny_unknown_fields,
    default,
    expecting = "keys of a cluster, as podSubnet"
)]
pub struct ClusterKeys {
    /// The range of all pods, or one of each family; it is cut into one for each node.
    pub pod_subnet: List<Range>,
    /// The prefix length of a node's pod range, one for each pod range in their order. Without it,
    /// 24 for IPv4 and 64 for IPv6.
    pub node_prefix: List<u8>,
    /// The range of services, or one of each family.
    pub service_subnet: List<Range>,
    /// The networks that the nodes' own addresses are in.
    pub node_subnet: List<Range>,
    /// How many pods the kubelet of a node takes. Without it, 110.
    pub max_pods: Option<u32>,
    /// The name of the pod network, in each conflist. Without it, k8nd-pod-network.
    pub network: Option<NetworkName>,
    /// The name of the cloud's network, in routes that a cloud is to make. Without it, `network`.
    pub cloud_network: Option<CloudName>,
    /// The bridge on each node. Without it, cni0.
    pub bridge: Option<Device>,
    /// The MTU of pods and of the bridge, in bytes. Without it, the kernel's.
    pub mtu: Option<u32>,
    /// The nodes' interface through which other nodes are reached.
    pub device: Option<Device>,
    /// What the pod network can do.
    pub features: Features,
    /// The nodes, in any order.
    pub nodes: Vec<NodeKeys>,
    /// Nodes that are kept from use until their plugins are there.
    pub kept_back: Vec<KeptBack>,
}

/// The keys of one node.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(
    rename_all = "camelCase",
    deny_unknown_fields,
    expecting = "keys of a node, as name and address"
)]
pub struct NodeKeys {
    /// Its name, as Kubernetes knows it.
    pub name: NodeName,
    /// Its address, or one of each family, by which other nodes reach it.
    #[serde(default)]
    pub address: List<Address>,
    /// Its pod range, or one of each family, where that is fixed. Without it, the first free one.
    #[serde(default, rename = "podCIDR")]
    pub pod_cidr: List<Range>,
    /// How many pods its kubelet takes. Without it, the cluster's.
    pub max_pods: Option<u32>,
    /// Its interface through which other nodes are reached. Without it, the cluster's.
    pub device: Option<Device>,
}

/// What the pod network can do: which plugins are chained, and what the bridge does.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(
    rename_all = "camelCase",
    deny_unknown_fields,
    default,
    expecting = "features, as portMappings: true"
)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a key of its own in a file that people write"
)]
pub struct Features {
    /// `hostPort`s are served: portmap is in the chain.
    pub port_mappings: bool,
    /// Bandwidth annotations are obeyed: bandwidth is in the chain.
    pub bandwidth: bool,
    /// What leaves a node's pod range gets the node's address.
    pub ip_masq: bool,
    /// A pod reaches itself through a service or its host port.
    pub hairpin_mode: bool,
    /// The runtime runs without root: host ports below 1024 cannot be had.
    pub rootless: bool,
}

impl Default for Features {
    fn default() -> Features {
        Features {
            port_mappings: true,
            bandwidth: true,
            ip_masq: true,
            hairpin_mode: true,
            rootless: false,
        }
    }
}

/// A node that is kept from use until its plugins are there.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(
    rename_all = "camelCase",
    deny_unknown_fields,
    expecting = "keys of a node that waits, name and taint"
)]
pub struct KeptBack {
    /// Its name, as Kubernetes knows it.
    pub name: NodeName,
    /// The key of the taint that keeps pods off it, as k8nd.example.com/cni-missing.
    pub taint: TaintKey,
}
