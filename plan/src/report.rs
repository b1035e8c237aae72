//! What the next designer of a cluster should know of this one.

use ipnet::IpNet;

use crate::capacity::{Binding, Capacity};
use crate::overlap::Finding;
use crate::podcidrs::joined;
use crate::{Cluster, Plan, conflist};

/// The report: `key=value` lines, then a list.
pub fn report(plan: &Plan, capacity: &Capacity, findings: &[Finding]) -> String {
    let cluster = &plan.cluster;
    let mut text = String::new();
    for (key, value) in pairs(cluster, capacity) {
        text.push_str(&format!("{key}={value}\n"));
    }
    text.push('\n');
    for item in items(cluster, capacity, findings) {
        text.push_str(&format!("- {item}\n"));
    }
    text
}

fn pairs(cluster: &Cluster, capacity: &Capacity) -> Vec<(&'static str, String)> {
    let pods: Vec<IpNet> = cluster.pods.iter().map(|pods| pods.range).collect();
    let prefixes: Vec<String> = cluster
        .pods
        .iter()
        .map(|pods| pods.node_prefix.to_string())
        .collect();
    let mut pairs = vec![
        ("cluster_pod_cidr", joined(&pods)),
        ("per_node_prefix", prefixes.join(",")),
        ("nodes_addressable", capacity.subnets.to_string()),
    ];
    let kept_back = cluster.kept_back.iter();
    pairs.extend(kept_back.map(|node| ("notready_node", node.name.0.clone())));
    pairs.push(("chained_plugins", chained(cluster).join(",")));
    pairs
}

/// The types of the plugins behind the bridge.
fn chained(cluster: &Cluster) -> Vec<&'static str> {
    let chained = conflist::chained(&cluster.features);
    chained.into_iter().map(|(plugin, _)| plugin).collect()
}

fn items(cluster: &Cluster, capacity: &Capacity, findings: &[Finding]) -> Vec<String> {
    let mut items = vec![
        format!(
            "Pods get their addresses from host-local on their own node, which keeps them in \
             /var/lib/cni/networks/{}. Neither the API server nor a kubelet gives any; spec.podCIDR \
             of a node only says which range it has.",
            cluster.network
        ),
        ignored(cluster),
        binding(capacity),
        "What cannot be changed later: spec.podCIDR of a node once it is set (the node must be \
         deleted and registered again), and with it the range of all pods and the prefix of a \
         node's; the service range, without new service addresses; a bridge's address, while pods \
         are on it."
            .to_owned(),
        "The ranges of pods, services and nodes must not overlap. A shorter prefix is a wider range: \
         10.96.0.0/12 reaches from 10.96.0.0 to 10.111.255.255."
            .to_owned(),
        "A node has a route to every other node's pod range by that node's address, and none to its \
         own: such a route, when it is there before the bridge, hides the bridge's, and the node's \
         own pods cannot be reached while all others answer."
            .to_owned(),
    ];
    if cluster.features.ip_masq {
        let text = "What leaves a node's pod range gets the node's address (ipMasq): pods of other \
                    nodes see the node, not the pod.";
        items.push(text.to_owned());
    }
    items.extend(cluster.kept_back.iter().map(|node| {
        format!(
            "Node {} is kept from use by spec.unschedulable, for which the node controller adds \
             node.kubernetes.io/unschedulable, and by {}, which nobody but a person removes.",
            node.name.0, node.taint.0
        )
    }));
    let findings = findings.iter().map(|finding| &finding.said);
    items.extend(findings.map(|said| format!("To be mended: {said}.")));
    items
}

fn ignored(cluster: &Cluster) -> String {
    let features = &cluster.features;
    let missing: Vec<&str> = [
        (
            features.port_mappings,
            "hostPorts (no portmap in the chain)",
        ),
        (
            features.bandwidth,
            "bandwidth annotations (no bandwidth in the chain)",
        ),
    ]
    .into_iter()
    .filter(|(there, _)| !there)
    .map(|(_, what)| what)
    .collect();
    let here = if missing.is_empty() {
        "This chain has both".to_owned()
    } else {
        format!("This cluster ignores {}", missing.join(" and "))
    };
    format!(
        "A hostPort, and the annotations kubernetes.io/ingress-bandwidth and \
         kubernetes.io/egress-bandwidth, are accepted by the API whatever the chain is. Where portmap \
         or bandwidth is missing from the conflist or from the node they are silently ignored. {here}; \
         podnet lint looks."
    )
}

fn binding(capacity: &Capacity) -> String {
    let (limit, usable) = (capacity.node_pod_limit, capacity.usable_per_subnet);
    let why = match capacity.binding_limit {
        Binding::Node => format!(
            "The kubelet's pod limit ({limit}) binds, since it is at most the {usable} usable \
             addresses of a node's range"
        ),
        Binding::Subnet => format!(
            "The node's range binds, since it has {usable} usable addresses for a pod limit of {limit}"
        ),
    };
    format!(
        "{why}. There is a range for {} nodes, of which {} are left; the cluster can hold {} pods.",
        capacity.subnets, capacity.nodes_left, capacity.pods_when_full
    )
}
