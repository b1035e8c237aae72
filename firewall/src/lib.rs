//! Masquerade and host-port rules as values, and the iptables that applies them.
//!
//! [`masquerade`] and [`hostport`] say which rules an attachment should have; each rule is its line
//! as `iptables-save` prints it, and that one line is sent, compared by CHECK and turned into a
//! deletion. Inside, `ruleset` makes batches of such lines, `verbs` applies them to both families,
//! `garbage` finds what attachments that are no more have left, `iptables` runs the programs, and
//! `probe` asks the kernel whether there is anything to do.
//! Nothing here knows of CNI.

mod error;
mod garbage;
pub mod hostport;
mod iptables;
mod lock;
pub mod masquerade;
mod names;
mod probe;
mod rule;
mod ruleset;
mod verbs;

pub use error::{Error, Result};
pub use rule::Family;

/// Whose the rules are. Network and container id are as the runtime gives them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner<'a> {
    /// The network's name.
    pub network: &'a str,
    /// The container's id.
    pub container_id: &'a str,
    /// The interface in the pod. `eth0` gives the reference plugins' names, any other is hashed
    /// into them as well.
    pub ifname: &'a str,
}
