//! Which node has which pod range, in every form that people ask for.

use ipnet::IpNet;
use serde_json::{Value, json};

use crate::yaml::scalar;
use crate::{Error, GivenNode, Node, Plan};

/// What a set value means to whoever patches a node.
pub const SET_FOR_GOOD: &str = "spec.podCIDR and spec.podCIDRs of a node cannot be changed once \
they are set; the node must be deleted and registered again";

/// A line for each node: its name and its ranges, those of two families with a comma.
pub fn text(plan: &Plan) -> String {
    let line = |(node, ranges): (&Node, &[IpNet])| format!("{} {}\n", node.name, joined(ranges));
    plan.nodes().map(line).collect()
}

/// Each node with its ranges.
pub fn to_json(plan: &Plan) -> Value {
    let node = |(node, ranges): (&Node, &[IpNet])| json!({ "name": node.name, "podCIDR": ranges.first(), "podCIDRs": ranges });
    json!({ "nodes": plan.nodes().map(node).collect::<Vec<_>>() })
}

/// A line of `kubectl patch` for each node.
pub fn patches(plan: &Plan) -> String {
    let line = |(node, ranges): (&Node, &[IpNet])| {
        let spec = json!({ "spec": { "podCIDR": ranges.first(), "podCIDRs": ranges } });
        format!(
            "kubectl patch node {} --type=merge -p '{spec}'\n",
            node.name
        )
    };
    plan.nodes().map(line).collect()
}

/// A Node manifest for each node.
pub fn manifests(plan: &Plan) -> String {
    let manifest = |(node, ranges): (&Node, &[IpNet])| {
        let first = ranges.first().map(ToString::to_string);
        let mut text = format!(
            "apiVersion: v1\nkind: Node\nmetadata:\n  name: {}\nspec:\n  podCIDR: {}\n  podCIDRs:\n",
            scalar(&node.name),
            scalar(&first.unwrap_or_default())
        );
        for range in ranges {
            text.push_str(&format!("  - {}\n", scalar(&range.to_string())));
        }
        text
    };
    let manifests: Vec<_> = plan.nodes().map(manifest).collect();
    manifests.join("---\n")
}

/// Ranges with commas, as kubeadm writes those of a dual-stack cluster.
pub fn joined(ranges: &[IpNet]) -> String {
    let ranges: Vec<_> = ranges.iter().map(ToString::to_string).collect();
    ranges.join(",")
}

/// What [`text`] once said, for a plan that is to keep it; `name` is what errors call it.
///
/// # Errors
/// A line is not of its form.
pub fn read(name: &str, text: &str) -> Result<Vec<GivenNode>, Error> {
    let lines = text.lines().enumerate();
    let lines = lines.filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(index, line)| {
            let place = format!("{name}:{}", index.saturating_add(1));
            let mut words = line.split_whitespace();
            match (words.next(), words.next(), words.next()) {
                (Some(node), Some(ranges), None) => Ok(GivenNode {
                    name: node.to_owned(),
                    keys: vec![("podCIDR", ranges.into())],
                    from: place,
                }),
                _ => Err(Error {
                    place,
                    key: String::new(),
                    reason: format!("{line:?} is no node's name and range"),
                }),
            }
        })
        .collect()
}
