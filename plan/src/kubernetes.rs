//! Nodes as Kubernetes' API has them.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::key_of;
use crate::{Document, Error, Fault, GivenNode};

/// What `kubectl get nodes -o json` prints, of which little is looked at: a list, or one node.
#[derive(Deserialize)]
struct Listing {
    items: Option<Vec<NodeObject>>,
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NodeObject {
    metadata: Metadata,
    spec: Spec,
    status: Status,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Metadata {
    name: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    #[serde(rename = "podCIDR")]
    pod_cidr: Option<String>,
    #[serde(rename = "podCIDRs")]
    pod_cidrs: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Status {
    addresses: Vec<NodeAddress>,
    allocatable: Allocatable,
}

#[derive(Deserialize)]
struct NodeAddress {
    #[serde(rename = "type")]
    kind: String,
    address: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Allocatable {
    pods: Option<String>,
}

/// The nodes of a list, with their names, internal addresses, pod ranges and allocatable pods;
/// `name` is what errors call it.
///
/// # Errors
/// It is not what `kubectl get nodes -o json` prints.
pub fn nodes(name: &str, text: &str) -> Result<Vec<GivenNode>, Error> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let listing: Listing = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let cause = error.inner();
        Error {
            place: format!("{name}:{}", cause.line()),
            key: key_of(error.path()),
            reason: format!("not what `kubectl get nodes -o json` prints: {cause}"),
        }
    })?;
    let objects = listing.items.unwrap_or_else(|| {
        vec![NodeObject {
            metadata: listing.metadata,
            spec: listing.spec,
            status: listing.status,
        }]
    });
    let mut seen = HashSet::new();
    for (index, object) in objects.iter().enumerate() {
        let node = &object.metadata.name;
        let reason = if node.is_empty() {
            "missing: expected what `kubectl get nodes -o json` prints".to_owned()
        } else if !seen.insert(node) {
            format!("{node:?} is the name of two nodes")
        } else {
            continue;
        };
        return Err(Error {
            place: name.to_owned(),
            key: format!("items[{index}].metadata.name"),
            reason,
        });
    }
    Ok(objects.iter().map(|object| given(name, object)).collect())
}

fn given(from: &str, object: &NodeObject) -> GivenNode {
    let mut keys: Vec<(&'static str, Value)> = Vec::new();
    let internal = |address: &&NodeAddress| address.kind == "InternalIP";
    let addresses = object.status.addresses.iter().filter(internal);
    let addresses: Vec<&str> = addresses.map(|one| one.address.as_str()).collect();
    if !addresses.is_empty() {
        keys.push(("address", json!(addresses)));
    }
    let ranges = match (&object.spec.pod_cidrs[..], &object.spec.pod_cidr) {
        ([], None) => Vec::new(),
        ([], Some(one)) => vec![one.clone()],
        (several, _) => several.to_vec(),
    };
    if !ranges.is_empty() {
        keys.push(("podCIDR", json!(ranges)));
    }
    let pods = object.status.allocatable.pods.as_ref();
    if let Some(pods) = pods
        .and_then(|pods| pods.parse::<u32>().ok())
        .filter(|pods| *pods > 0)
    {
        keys.push(("maxPods", json!(pods)));
    }
    GivenNode {
        name: object.metadata.name.clone(),
        keys,
        from: format!("{from}: node {}", object.metadata.name),
    }
}

/// Refuses a fixed range of the file that is not the one which the cluster has given already.
///
/// # Errors
/// The first such range, with its place.
pub fn check_agreement(document: &Document, given: &[GivenNode]) -> Result<(), Error> {
    document
        .disagreement(given, "podCIDR")
        .map_or(Ok(()), |(key, here, there)| {
            let reason = format!(
                "{here}, but the cluster has given {there} already, and a set value cannot be changed"
            );
            Err(document.locate(Fault::new(key, reason)))
        })
}

#[cfg(test)]
mod tests;
