//! Connection tracking entries, by netlink (nfnetlink_conntrack).

use std::net::IpAddr;

use crate::Result;

/// Deletes the calling thread's namespace's UDP entries of one family whose original direction
/// went to `port` and, where given, to `address`. Equivalent to `conntrack -D -p udp --orig-port-dst PORT
/// [--orig-dst ADDRESS]`. Returns how many.
///
/// # Errors
/// The kernel's; an entry that vanished meanwhile is none, and so is a kernel without conntrack.
pub fn delete_udp(ipv6: bool, port: u16, address: Option<IpAddr>) -> Result<usize> {
    let _ = (ipv6, port, address);
    todo!()
}
