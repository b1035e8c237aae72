//! Nodes as Kubernetes' API has them.

mod told;

use std::collections::HashSet;
use std::net::IpAddr;

use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::error::{in_words, key_of};
use crate::quantity::Quantity;
use crate::{Document, Error, Fault, GivenNode};

pub use told::{Told, told};

/// What `kubectl get nodes -o json` prints, of which little is looked at: a list, or one node.
#[derive(Deserialize)]
#[serde(expecting = "a Node or a List of them")]
struct Listing {
    items: Option<Vec<NodeObject>>,
    kind: Option<String>,
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize, Default)]
#[serde(default, expecting = "a Node")]
struct NodeObject {
    kind: Option<String>,
    metadata: Metadata,
    spec: Spec,
    status: Status,
}

#[derive(Deserialize, Default)]
#[serde(default, expecting = "the metadata of a Node")]
struct Metadata {
    name: String,
    #[serde(rename = "creationTimestamp", deserialize_with = "or_default")]
    since: String,
}

/// What is looked at of a Node's `spec`.
#[derive(Debug, Clone, Deserialize, Default)]
#[serde(default, expecting = "the spec of a Node")]
pub struct Spec {
    #[serde(rename = "podCIDR")]
    pod_cidr: Option<String>,
    #[serde(rename = "podCIDRs", deserialize_with = "or_default")]
    pod_cidrs: Vec<String>,
}

impl Spec {
    /// The range of a Node that has one. The API's own word for none is an empty text.
    fn one(&self) -> Option<&String> {
        self.pod_cidr.as_ref().filter(|one| !one.is_empty())
    }

    /// All ranges; older APIs tell of one alone.
    fn ranges(&self) -> Vec<String> {
        match &self.pod_cidrs[..] {
            [] => self.one().cloned().into_iter().collect(),
            several => several.to_vec(),
        }
    }
}

/// What is looked at of a Node's `status`.
#[derive(Debug, Clone, Deserialize, Default)]
#[serde(default, expecting = "the status of a Node")]
pub struct Status {
    #[serde(deserialize_with = "or_default")]
    addresses: Vec<NodeAddress>,
    allocatable: Allocatable,
}

impl Status {
    /// Its addresses of type InternalIP.
    fn internal(&self) -> impl Iterator<Item = &str> {
        let internal = self.addresses.iter();
        let internal = internal.filter(|address| address.kind == "InternalIP");
        internal.map(|address| address.address.as_str())
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(expecting = "an address, as type and address")]
struct NodeAddress {
    #[serde(rename = "type")]
    kind: String,
    address: String,
}

#[derive(Debug, Clone, Deserialize, Default)]
#[serde(default, expecting = "what a Node can give to pods")]
struct Allocatable {
    pods: Option<String>,
}

/// `null` counts as absent, as for Kubernetes.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// The nodes of a list, with their names, internal addresses, pod ranges and allocatable pods;
/// `name` is what errors call it.
///
/// # Errors
/// It is not what `kubectl get nodes -o json` prints.
pub fn nodes(name: &str, text: &str) -> Result<Vec<GivenNode>, Error> {
    let wrong = |key, reason| wrong(name, key, reason);
    let (objects, is_list) = objects(name, text)?;
    let objects = objects.iter().enumerate();
    let objects = objects.map(|(index, object)| {
        given(name, object).map_err(|Fault { key, reason }| {
            let item = if is_list {
                format!("items[{index}].")
            } else {
                String::new()
            };
            wrong(format!("{item}{key}"), reason)
        })
    });
    objects.collect()
}

fn wrong(name: &str, key: String, reason: String) -> Error {
    Error {
        place: name.to_owned(),
        key,
        reason,
    }
}

/// The objects of a list, each with a name of its own, and whether it is one.
fn objects(name: &str, text: &str) -> Result<(Vec<NodeObject>, bool), Error> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let listing: Listing = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let cause = error.inner();
        Error {
            place: format!("{name}:{}", cause.line()),
            key: key_of(error.path()),
            reason: format!(
                "not what `kubectl get nodes -o json` prints: {}",
                in_words(&cause.to_string())
            ),
        }
    })?;
    check_kind(&listing).map_err(|(key, reason)| wrong(name, key, reason))?;
    let is_list = listing.items.is_some();
    let objects = listing.items.unwrap_or_else(|| {
        vec![NodeObject {
            kind: listing.kind,
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
        return Err(wrong(name, format!("items[{index}].metadata.name"), reason));
    }
    Ok((objects, is_list))
}

/// Other objects of the API have names as well. A list as the API itself gives it has no kind for its
/// items.
fn check_kind(listing: &Listing) -> Result<(), (String, String)> {
    let refuse = |key: String, kind: &str, expected: &str| {
        Err((
            key,
            format!("{kind:?} is no kind of this file: expected {expected}"),
        ))
    };
    match (&listing.kind, &listing.items) {
        (Some(kind), None) if kind != "Node" => {
            return refuse("kind".to_owned(), kind, "Node, List or NodeList");
        }
        (Some(kind), Some(_)) if kind != "List" && kind != "NodeList" => {
            return refuse("kind".to_owned(), kind, "Node, List or NodeList");
        }
        _ => {}
    }
    let items = listing.items.iter().flatten().enumerate();
    let kinds = items.filter_map(|(index, item)| Some((index, item.kind.as_deref()?)));
    let mut others = kinds.filter(|(_, kind)| *kind != "Node");
    match others.next() {
        None => Ok(()),
        Some((index, kind)) => refuse(format!("items[{index}].kind"), kind, "Node"),
    }
}

fn given(from: &str, object: &NodeObject) -> Result<GivenNode, Fault> {
    let mut keys: Vec<(&'static str, Value)> = Vec::new();
    let addresses = first_of_each_family(object.status.internal());
    if !addresses.is_empty() {
        keys.push(("address", json!(addresses)));
    }
    let spec = &object.spec;
    if let (Some(first), Some(one)) = (spec.pod_cidrs.first(), spec.one())
        && first != one
    {
        let reason = format!("{one:?}, but the first of podCIDRs is {first:?}");
        return Err(Fault::new("spec.podCIDR", reason));
    }
    let ranges = spec.ranges();
    if !ranges.is_empty() {
        keys.push(("podCIDR", json!(ranges)));
    }
    if let Some(pods) = &object.status.allocatable.pods {
        let limit =
            pod_limit(pods).map_err(|reason| Fault::new("status.allocatable.pods", reason))?;
        keys.push(("maxPods", json!(limit)));
    }
    Ok(GivenNode {
        name: object.metadata.name.clone(),
        keys,
        from: format!("{from}: node {}", object.metadata.name),
    })
}

/// Of a family the first counts for Kubernetes as well. What is no address is left to be refused with
/// its place.
fn first_of_each_family<'a>(addresses: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = HashSet::new();
    let family = |text: &str| text.parse::<IpAddr>().ok().map(|address| address.is_ipv4());
    addresses
        .filter(|text| family(text).is_none_or(|ipv4| seen.insert(ipv4)))
        .collect()
}

/// How many pods a quantity allows.
fn pod_limit(text: &str) -> Result<u32, String> {
    let number = Quantity::parse(text)?.whole();
    let limit = number.and_then(|number| u32::try_from(number).ok());
    limit.ok_or_else(|| format!("{text:?} is no number of pods: expected 0 to {}", u32::MAX))
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
