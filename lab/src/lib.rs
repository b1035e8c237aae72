//! Network namespaces as nodes, pods and outside hosts, with servers and probes in them.
//!
//! A [`Lab`] owns a folder and any number of [`Namespace`]s below `/run/netns`, so that
//! `ip netns exec` reaches them, and removes all of it when it is dropped. [`connect`] joins two of
//! them with a veth pair; a [`Server`] in one tells a probe in another how its packets arrived;
//! [`throughput`] measures what passes between two; [`trace`] watches a program at its system calls; a [`Snapshot`] is what a node holds, to be
//! compared before and after. Everything has a deadline, and nothing touches the machine's own
//! network.

mod error;
mod icmp;
mod namespace;
mod plugins;
mod probe;
mod process;
pub mod rootless;
mod router;
mod server;
mod skip;
mod snapshot;
mod throughput;
mod tools;
pub mod trace;
mod whole;
mod wire;

pub use error::{Error, Result};
pub use namespace::Namespace;
pub use plugins::{find_plugin, link_plugins};
pub use probe::{DEADLINE, UdpClient};
pub use process::{find_tool, finish};
pub use server::{Server, Sighting};
pub use skip::skip;
pub use snapshot::{Snapshot, read_reservations, rules_by};
pub use throughput::{Window, throughput, throughput_with};
pub use tools::{iptables_path, nftables_path};
pub use whole::{Lab, supported, sweep};
pub use wire::{End, connect};
