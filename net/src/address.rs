//! Addresses of links.

use std::time::Duration;

use ipnet::IpNet;

use crate::{Netlink, Result};

/// An address on a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// With its prefix; host bits kept.
    pub net: IpNet,
    /// `IFA_F_TENTATIVE`: duplicate detection has not ended.
    pub tentative: bool,
    /// `IFA_F_DADFAILED`.
    pub dad_failed: bool,
    /// Scope is global (`RT_SCOPE_UNIVERSE`), not link or host.
    pub global: bool,
}

impl Netlink {
    /// All addresses of a link, of both families. Equivalent to `ip address show dev INDEX`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn addresses(&self, index: u32) -> Result<Vec<Address>> {
        let _ = index;
        todo!()
    }

    /// Equivalent to `ip address add NET [broadcast +] [nodad] dev INDEX`: an IPv4 address gets
    /// its broadcast address below /31; `nodad` matters to IPv6 only.
    ///
    /// # Errors
    /// The kernel's; EEXIST where it is there.
    pub fn add_address(&self, index: u32, net: IpNet, nodad: bool) -> Result<()> {
        let _ = (index, net, nodad);
        todo!()
    }

    /// Equivalent to `ip address del NET dev INDEX`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn delete_address(&self, index: u32, net: IpNet) -> Result<()> {
        let _ = (index, net);
        todo!()
    }

    /// Waits, by the kernel's events, until no address of the link is tentative.
    ///
    /// # Errors
    /// Names the address that failed duplicate detection, or that is still tentative at `deadline`.
    pub fn wait_addresses(&self, index: u32, deadline: Duration) -> Result<()> {
        let _ = (index, deadline);
        todo!()
    }
}
