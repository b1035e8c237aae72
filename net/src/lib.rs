//! The kernel's network objects by netlink: one file per kind of object.
//!
//! A [`Netlink`] is one route socket of one namespace; its verbs are methods, grouped by kind in
//! [`link`], [`vlan`], [`address`], [`route`], [`rule`] and [`qdisc`]. It is synchronous to its callers. What belongs to
//! the calling thread's namespace instead, whichever that is, are functions: [`sysctl`] and
//! [`conntrack`]; [`netns`] enters and makes namespaces. Nothing here knows of CNI.

pub mod address;
pub mod conntrack;
mod error;
mod events;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod link;
mod netlink;
pub mod netns;
pub mod qdisc;
pub mod route;
pub mod rule;
pub mod sysctl;
pub mod vlan;

pub use address::Address;
pub use error::{Errno, Error, Result};
pub use events::RouteEvents;
pub use link::{Bridge, Filtering, Link, Mac, PortFlags, PortState, Veth};
pub use netlink::Netlink;
pub use netns::Netns;
pub use qdisc::{Qdisc, Tbf};
pub use route::Route;
pub use vlan::Vlan;
