//! All findings of a node.

use crate::case::Case;
use crate::finding::{Finding, Kind};
use crate::findings::KINDS;
use crate::node::Unread;

/// What a look at a node has brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// What is wrong, in the order of the kinds.
    pub findings: Vec<Finding>,
    /// What could not be read, and may hide more.
    pub unread: Vec<Unread>,
    /// The kinds that were not looked for, since nobody said what the cluster is.
    pub left_out: Vec<&'static str>,
}

/// Looks for all kinds.
pub fn look(case: &Case) -> Report {
    let known = |kind: &&&Kind| case.site.is_some() || !kind.needs_plan;
    let kinds = KINDS.iter().filter(known);
    let left_out = KINDS.iter().filter(|kind| !known(kind));
    Report {
        findings: kinds.flat_map(|kind| (kind.look)(case)).collect(),
        unread: case.node.unread.clone(),
        left_out: left_out.map(|kind| kind.id).collect(),
    }
}

impl Report {
    /// Whether nothing is wrong, as far as all could be read.
    pub fn is_healthy(&self) -> bool {
        self.findings.is_empty() && self.unread.is_empty()
    }
}
