//! Plans a cluster's pod network: pure functions over a cluster, which know nothing that runs.
//!
//! A person's file is a [`Document`], which knows the line of each key; [`keys`] are what may stand
//! in it, [`Cluster`] is what they say together, and [`Plan`] has a pod range for each node.

mod assign;
pub mod capacity;
mod cluster;
pub mod conflist;
mod document;
mod error;
pub mod files;
pub mod keys;
pub mod kubernetes;
pub mod lint;
mod names;
pub mod overlap;
mod page;
pub mod podcidrs;
mod quantity;
pub mod range;
mod report;
pub mod routes;
pub mod taints;
mod yaml;

pub use assign::Plan;
pub use cluster::{Cluster, DEFAULT_POD_LIMIT, Machine, Node, PodRange};
pub use document::{Document, GivenNode, Merge};
pub use error::{Error, Fault};
pub use names::{check_node, natural};
