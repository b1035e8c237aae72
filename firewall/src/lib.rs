//! Masquerade and host-port rules as values, and the two backends that apply them; and filters of
//! source MACs.
//!
//! [`masquerade`] and [`hostport`] make, remove and compare what an attachment should have, by
//! iptables or by nftables; [`Backend`] says by which.
//!
//! For iptables each rule is its line as `iptables-save` prints it, and that one line is sent,
//! compared by CHECK and turned into a deletion. `ruleset` makes batches of such lines, `verbs` applies
//! them to both families, `garbage` finds what attachments that are no more have left, `iptables` runs
//! the programs, and `probe` asks the kernel whether there is anything to do, of legacy tables by
//! `legacy`. What iptables of the nft variant has made, `nft::nat` reads and removes without it, where
//! all of it is understood. The other backend is `nft`, which [`macspoof`] speaks by too.
//!
//! [`view`] reads what a node has, whoever made it, and what that does to a packet.
//!
//! Nothing here knows of CNI.

mod backend;
mod deadline;
mod error;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod garbage;
pub mod hostport;
mod iptables;
mod legacy;
mod lock;
pub mod masquerade;
mod names;
mod nft;
mod probe;
pub mod process;
mod rule;
mod ruleset;
mod verbs;
pub mod view;

pub use backend::Backend;
pub use error::{Error, Result};
pub use nft::{Settling, macspoof};
pub use rule::Family;
pub use verbs::Adding;

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
