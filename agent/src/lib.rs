//! The node agent: a working pod network on each node of a Kubernetes cluster, kept right.
//!
//! The API tells of every node its pod ranges and its addresses. [`Peers`] says what follows for the
//! routes of this node, [`Outlook`] what is to be done here; both are pure functions over values.
//! [`Outlook::make`] does it, and [`run()`] does so again and again, whenever the API or the kernel tells of a
//! change.
//!
//! One bad node object never stops the others: it is a [`Finding`], and its ranges get no route.

mod conflist;
mod finding;
mod nodes;
mod outlook;
mod peers;
mod run;
#[cfg(test)]
mod tests;

pub use conflist::{Conflist, Step};
pub use finding::{Finding, Reason};
pub use outlook::{Outlook, Seen, Settings};
pub use peers::Peers;
pub use run::{Error, Level, Options, list, run};
