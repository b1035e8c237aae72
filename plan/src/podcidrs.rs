//! Which node has which pod range, in every form that people ask for.

use std::collections::HashSet;

use ipnet::IpNet;
use serde_json::{Value, json};

use crate::yaml::scalar;
use crate::{Error, GivenNode, Node, Plan, names, range};

/// What a set value means to whoever patches a node.
pub const SET_FOR_GOOD: &str = "spec.podCIDR and spec.podCIDRs of a node cannot be changed once \
they are set; the node must be deleted and registered again";

/// A line for each node: its name and its ranges, those of two families with a comma.
pub fn text(plan: &Plan) -> String {
    let line = |(node, ranges): (&Node, &[IpNet])| format!("{} {}\n", node.name, joined(ranges));
    plan.nodes().map(line).collect()
}

/// [`text`] as a file that is kept. It is never empty, so that an empty one is known to be broken.
pub fn file(plan: &Plan) -> String {
    let text = text(plan);
    if text.is_empty() {
        return "# no node has a range yet\n".to_owned();
    }
    text
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

/// What [`file()`] once said, for a plan that is to keep it; `name` is what errors call it.
///
/// # Errors
/// A line is not of its form; a node has two.
pub fn read(name: &str, text: &str) -> Result<Vec<GivenNode>, Error> {
    let mut seen = HashSet::new();
    let lines = text.lines().enumerate();
    let lines = lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    lines
        .map(|(index, line)| {
            let place = format!("{name}:{}", index.saturating_add(1));
            let read = read_line(line).and_then(|(node, ranges)| {
                let is_new = seen.insert(node);
                let twice = || format!("{node:?} is the name of two nodes");
                is_new.then_some((node, ranges)).ok_or_else(twice)
            });
            match read {
                Ok((node, ranges)) => Ok(GivenNode {
                    name: node.to_owned(),
                    keys: vec![("podCIDR", ranges.into())],
                    from: place,
                }),
                Err(reason) => Err(Error {
                    place,
                    key: String::new(),
                    reason,
                }),
            }
        })
        .collect()
}

/// A node's name and its ranges. Those of nodes that are no more are looked at by nobody else.
fn read_line(line: &str) -> Result<(&str, &str), String> {
    let mut words = line.split_whitespace();
    let (Some(node), Some(ranges), None) = (words.next(), words.next(), words.next()) else {
        return Err(format!("{line:?} is no node's name and range"));
    };
    names::check_node(node)?;
    ranges
        .split(',')
        .try_for_each(|one| range::parse(one).map(drop))?;
    Ok((node, ranges))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_list_of_ranges_is_refused() {
        let given = read("f", "# a word\n\na 10.1.0.0/24\nb 10.1.1.0/24,fd00::/64\n").unwrap();
        let names: Vec<_> = given.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(given[1].from, "f:4");
        for (text, said) in [
            ("garbage here\0", "f:1: \"here\\0\" is no range"),
            ("a 10.1.0.0/24\nb", "f:2: \"b\" is no node's name and range"),
            ("a 10.1.0.0/24 x", "f:1: \"a 10.1.0.0/24 x\" is no node's"),
            ("A 10.1.0.0/24", "f:1: \"A\" is no node's name: "),
            ("a 10.1.0.0/24,", "f:1: \"\" is no range"),
            (
                "a 10.1.0.0/24\na 10.1.1.0/24",
                "f:2: \"a\" is the name of two nodes",
            ),
            ("\0\0\0\0", "f:1: "),
        ] {
            let error = read("f", text).unwrap_err().to_string();
            assert!(error.starts_with(said), "{text:?}: {error}");
        }
    }
}
