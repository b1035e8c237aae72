//! What a runtime and its plugins would make of conflists and pod manifests: what is used, and what
//! is silently ignored.

mod chain;
mod conflist;
mod keys;
mod ports;
mod report;
mod takes;
#[cfg(test)]
mod tests;
mod workload;

use std::path::PathBuf;

use cni::one_line;
use ipnet::IpNet;

use crate::{Document, Error, Fault};

pub use chain::Chain;
pub use conflist::{ConfFile, Used};
pub use report::Report;
pub use takes::{Refused, refused};
pub use workload::{PodSpec, pods};

/// What is looked at.
#[derive(Debug, Default)]
pub struct Input {
    /// The configurations of one folder, in any order.
    pub files: Vec<ConfFile>,
    /// The plugins of the conflist that a runtime would use, each once; `None` where the binaries
    /// are not to be looked at.
    pub binaries: Option<Vec<Binary>>,
    /// The pods of all manifests.
    pub pods: Vec<PodSpec>,
    /// Workloads that the API would refuse, and why.
    pub refused: Vec<Error>,
    /// The pod ranges that the node's conflist must keep to, where they are known.
    pub ranges: Option<Vec<IpNet>>,
    /// The runtime has no root.
    pub rootless: bool,
    /// The cluster has one node, so that all pods are on it.
    pub one_node: bool,
}

/// A plugin's binary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binary {
    /// The plugin's type.
    pub kind: String,
    /// Where it is; `None` where it is not.
    pub file: Option<PathBuf>,
    /// The versions that it answers to VERSION, or why it does not answer.
    pub versions: Result<Vec<String>, String>,
}

/// Something that is said of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// What it means for the exit status.
    pub weight: Weight,
    /// Where and what.
    pub said: String,
}

/// What a note means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// Somebody asked for it, and nobody does it.
    Ignored,
    /// It is wrong.
    Wrong,
    /// It may be wrong elsewhere.
    Warning,
}

impl Note {
    fn new(weight: Weight, place: &str, said: impl std::fmt::Display) -> Note {
        let said = if place.is_empty() {
            said.to_string()
        } else {
            format!("{place}: {said}")
        };
        Note { weight, said }
    }

    /// As an item of a list.
    fn text(&self) -> String {
        let kind = match self.weight {
            Weight::Ignored => "ignored",
            Weight::Wrong => "wrong",
            Weight::Warning => "warning",
        };
        format!("{kind}: {}\n", one_line(&self.said))
    }
}

/// Looks at everything.
pub fn lint(input: &Input) -> Report {
    let used = conflist::used(&input.files);
    let mut notes = used.notes.clone();
    let chain = used
        .list
        .map(|list| Chain::new(list, input.binaries.as_deref()));
    if let (Some(list), Some(chain)) = (used.list, &chain) {
        notes.extend(used.file.map(keys::unknown).unwrap_or_default());
        notes.extend(refused(list).into_iter().map(|refused| {
            let place = used.file.map(|file| file.place(&refused.key));
            Note::new(Weight::Wrong, &place.unwrap_or_default(), refused)
        }));
        notes.extend(chain.binary_notes());
        if let Some(ranges) = &input.ranges {
            notes.extend(conflist::misfits(&used, list, ranges));
        }
    }
    let refusals = input.refused.iter();
    notes.extend(refusals.map(|refusal| Note::new(Weight::Wrong, "", refusal)));
    let judged = input
        .pods
        .iter()
        .map(|pod| chain::judge(chain.as_ref(), pod, input.rootless));
    let judged = judged.collect();
    notes.extend(ports::clashes(&input.pods, input.one_node));
    Report {
        file: used.file.map(|file| file.name.clone()),
        because: used.because,
        network: used.list.map(|list| list.name.clone()),
        plugins: chain.map(Chain::into_plugins).unwrap_or_default(),
        judged,
        notes,
    }
}

/// Manifests and the cluster file, told apart by `kind`, which every manifest has.
///
/// # Errors
/// There are several cluster files.
pub fn sort(documents: Vec<Document>) -> Result<(Vec<Document>, Option<Document>), Error> {
    let is_manifest = |document: &Document| document.value().get("kind").is_some();
    let (manifests, others): (Vec<_>, Vec<_>) = documents.into_iter().partition(is_manifest);
    let mut others = others.into_iter();
    let cluster = others.next();
    match others.next() {
        Some(second) => {
            let reason = "a second file without \"kind\": expected manifests, and one cluster file";
            Err(second.locate(Fault::new("", reason)))
        }
        None => Ok((manifests, cluster)),
    }
}
