//! A live node, read once into a value, and what follows from that.
//!
//! [`Node::read`] looks at the kernel, at the rules of its firewall and at the folders of CNI, and
//! changes nothing. What could not be read is in [`Node::unread`]: nothing may be called healthy
//! that was not seen. Everything else here is a pure function over that value.

#[cfg(test)]
mod fixture;
mod network;
mod node;
mod read;
pub mod routes;
mod site;
mod way;

pub use network::{Bridged, Configuration, Network, Pool, Program, Range, Reservation};
pub use node::{Attached, Listener, Netns, Node, Unread};
pub use read::Places;
pub use site::{Peer, Planned, Site};
