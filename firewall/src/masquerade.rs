//! Source NAT of a pod's traffic that leaves its network.

use ipnet::IpNet;

use crate::{Owner, Result};

/// Whether the tools for these addresses' families are there and usable: asked before ADD changes
/// anything.
///
/// # Errors
/// [`crate::Error::NoTool`].
pub fn preflight(addresses: &[IpNet]) -> Result<()> {
    let _ = addresses;
    todo!()
}

/// Makes the rules of the attachment's addresses. What it had before is replaced. On an error
/// nothing of it is left.
///
/// # Errors
/// The tool's.
pub fn add(owner: Owner, addresses: &[IpNet]) -> Result<()> {
    let _ = (owner, addresses);
    todo!()
}

/// Removes whatever rules the attachment has, of both families, in both iptables variants' form,
/// found by its chain's name alone; also the form that a reference plugin left.
///
/// # Errors
/// Only where rules are still there, or may be and no tool can tell (`expected`).
pub fn delete(owner: Owner, expected: bool) -> Result<()> {
    let _ = (owner, expected);
    todo!()
}

/// Whether every rule is there, in its order.
///
/// # Errors
/// [`crate::Error::Missing`] names the first that is not.
pub fn check(owner: Owner, addresses: &[IpNet]) -> Result<()> {
    let _ = (owner, addresses);
    todo!()
}
