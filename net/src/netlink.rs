//! The transport: one route socket, requests and their answers.

use crate::{Netns, Result};

/// One route socket. It stays in the namespace that it was opened in, wherever its thread goes.
#[derive(Debug)]
pub struct Netlink {}

impl Netlink {
    /// A socket in the calling thread's namespace.
    ///
    /// # Errors
    /// The kernel's.
    pub fn current() -> Result<Netlink> {
        todo!()
    }

    /// A socket in another namespace, entered only to open it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn in_netns(netns: &Netns) -> Result<Netlink> {
        let _ = netns;
        todo!()
    }
}
