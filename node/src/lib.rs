//! A live node, read once into a value, and what follows from that.
//!
//! [`Node::read`] looks at the kernel, at the rules of its firewall and at the folders of CNI, and
//! changes nothing. What could not be read is in [`Node::unread`]: nothing may be called healthy
//! that was not seen. Everything else here is a pure function over that value.

mod agent;
mod case;
mod doctor;
mod finding;
mod findings;
#[cfg(test)]
mod fixture;
pub mod ladder;
mod network;
mod node;
mod owners;
mod read;
pub mod routes;
mod site;
pub mod trace;
mod way;
mod whose;

pub use agent::{Agent, Says, Told, USUAL_AGENT, USUAL_AGENT_CONFLIST};
pub use case::{BridgeCase, Case};
pub use doctor::{Report, look};
pub use finding::{Finding, Fix, Kind, Severity};
pub use findings::KINDS;
pub use network::{Bridged, Configuration, Network, Pool, Program, Range, Reservation};
pub use node::{Attached, Listener, Netns, Node, USUAL_CONF, USUAL_PLUGINS, Unread};
pub use owners::Owners;
pub use read::Places;
pub use site::{Peer, Planned, Site};
