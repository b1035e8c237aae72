//! The sysctl that lets the node reach a pod from 127.0.0.1.

use std::net::IpAddr;

use cni::{Context, Error};
use ipnet::IpNet;
use net::{Netlink, sysctl};

const FAILED: &str = "unable to enable route_localnet";

/// Allows packets with a source in 127.0.0.0/8 on the link that leads to the pod. Never taken
/// back: other pods of the bridge use it. (The kernel has nothing like it for `::1`.)
///
/// # Errors
/// The kernel's; that no link leads there is none.
pub fn enable(addresses: &[IpNet]) -> Result<(), Error> {
    let Some(path) = path(addresses)? else {
        return Ok(());
    };
    sysctl::write(&path, "1").context(FAILED).map(drop)
}

/// Whether it is still allowed.
///
/// # Errors
/// Code 101 where it is not.
pub fn check(addresses: &[IpNet]) -> Result<(), Error> {
    let Some(path) = path(addresses)? else {
        return Ok(());
    };
    match sysctl::read(&path).context("could not check route_localnet")? {
        Some(value) if value != "1" => {
            Err(Error::check(format!("sysctl {path} is {value}, not 1")))
        }
        _ => Ok(()),
    }
}

/// The sysctl of the link that leads to the IPv4 address, if there are both.
fn path(addresses: &[IpNet]) -> Result<Option<String>, Error> {
    let Some(pod) = addresses.iter().map(IpNet::addr).find(IpAddr::is_ipv4) else {
        return Ok(None);
    };
    let node = Netlink::current().context(FAILED)?;
    let Some(index) = node.route_to(pod).context(FAILED)? else {
        return Ok(None);
    };
    let link = node.link_by_index(index).context(FAILED)?;
    Ok(link.map(|link| format!("net/ipv4/conf/{}/route_localnet", link.name)))
}
