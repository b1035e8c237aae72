//! What every test of the chain needs: the built binaries, a lab, and a runtime's calls.
//!
//! A test begins with `let Some(node) = Node::new("label") else { return };`: where the kernel or
//! the machine cannot run it, that says so, counts it, and gives `None`.

// A harness fails as its tests do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod agent;
mod answer;
mod api;
mod attached;
mod backend;
mod binaries;
mod by_hand;
mod chain;
mod cluster;
mod conclude;
mod family;
mod made;
mod mounted;
mod mutate;
mod network;
mod node;
mod patient;
mod pings;
mod plane;
mod planned;
mod reference;
mod sealed;
mod segment;
mod site;
mod state;
mod tools;
mod workload;
mod world;

pub use agent::{
    Agent, TO_BOTH, TO_WORKER_1, TO_WORKER_2, agent_routes, api_node, api_nodes, segment_with_api,
    soon,
};
pub use answer::Answer;
pub use api::{Api, Failing};
pub use attached::{Attached, Damage, eventually, eventually_within, expect_none, sh};
pub use backend::Backend;
pub use binaries::{binary_folder, plugin_folder};
pub use by_hand::{kind, with};
pub use cluster::{agents_conflist, kubernetes_node, pods_that_ping, registered, routes_to};
pub use conclude::conclude;
pub use family::Family;
pub use made::Made;
pub use mounted::Mounted;
pub use mutate::Mutator;
pub use network::{VALID, entry};
pub use node::{Node, Pod, can_filter_vlans};
pub use patient::{Fault, NETWORK, Patient, can_read_rules, told};
pub use pings::{Counted, Pings};
pub use plane::{Plane, soon_or_later};
pub use planned::{Desk, podnet};
pub use reference::{Plugins, reference_variants};
pub use sealed::seal;
pub use segment::Segment;
pub use site::{Protocol, Serving, Site, at, port, port_at};
pub use state::{State, flows};
pub use tools::{replace_iptables, with_mounts, with_one_family, without_tools, write_script};
pub use world::{World, address, failures};
