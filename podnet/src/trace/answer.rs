//! Paths as they are printed.

use node::trace::{Hop, Subject};
use node::{Node, Unread};
use serde_json::{Map, Value, json};

use crate::output::Answer;

/// A subject, and its path.
pub struct Path {
    /// Whose it is.
    pub subject: Subject,
    /// Its hops.
    pub hops: Vec<Hop>,
}

/// How many hops have a fault.
pub fn faults(paths: &[Path]) -> usize {
    let hops = paths.iter().flat_map(|path| &path.hops);
    hops.filter(|hop| hop.fault.is_some()).count()
}

/// Each path behind what it is of, what could not be read, and how many faults there are.
pub fn of(node: &Node, paths: &[Path]) -> Answer {
    let mut text = String::new();
    for path in paths {
        let heads = heads(node, &path.subject).into_iter();
        text.extend(heads.map(|(key, value)| format!("{key}={value}\n")));
        text.extend(path.hops.iter().map(|hop| format!("{hop}\n")));
    }
    let unread = node.unread.iter().map(Unread::to_string);
    text.extend(unread.clone().map(|unread| format!("unread={unread}\n")));
    text.push_str(&format!("faults={}\n", faults(paths)));
    Answer {
        text,
        json: json!({
            "paths": paths.iter().map(|path| to_json(node, path)).collect::<Vec<_>>(),
            "unread": unread.collect::<Vec<_>>(),
            "faults": faults(paths),
        }),
    }
}

/// Whose path it is.
fn heads(node: &Node, subject: &Subject) -> Vec<(&'static str, String)> {
    match subject {
        Subject::Link(index) => vec![("link", node.name_of(*index))],
        Subject::Elsewhere { address, .. } => vec![("address", address.to_string())],
        Subject::Pod(pod) => {
            let name = pod.attachment.as_ref().map(ToString::to_string);
            let name = name.unwrap_or_else(|| pod.ifname.clone());
            let netns = pod.netns.as_ref().map(|path| path.display().to_string());
            let netns = netns.map(|path| ("netns", path));
            [("pod", name)].into_iter().chain(netns).collect()
        }
    }
}

fn to_json(node: &Node, path: &Path) -> Value {
    let heads = heads(node, &path.subject).into_iter();
    let mut object: Map<String, Value> = heads
        .map(|(key, value)| (key.to_owned(), Value::from(value)))
        .collect();
    let hops = path.hops.iter().map(hop).collect();
    object.insert("hops".to_owned(), Value::Array(hops));
    Value::Object(object)
}

fn hop(hop: &Hop) -> Value {
    let facts = hop.facts.iter();
    let facts = facts.map(|(key, value)| ((*key).to_owned(), Value::from(value.clone())));
    json!({
        "way": hop.way.as_str(),
        "hop": hop.kind,
        "name": hop.name,
        "facts": facts.collect::<Map<_, _>>(),
        "fault": hop.fault,
    })
}
