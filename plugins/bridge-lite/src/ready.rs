//! What ADD waits for, by the kernel's events.

use std::time::Duration;

use cni::{Context, Error};
use ipnet::IpNet;
use net::{Link, Netlink};

/// A busy node may take long to bring a port up; a pod without one would be of no use.
const PORT_UP: Duration = Duration::from_secs(10);

/// Duplicate detection takes one to two seconds (RFC 4862, section 5.1).
const DAD: Duration = Duration::from_secs(5);

/// On a busy node the kernel may put off for long what makes an address answer.
const IN_USE: Duration = Duration::from_secs(1);

/// Waits until the bridge forwards what comes in by the port.
pub fn port(node: &Netlink, port: &Link) -> Result<(), Error> {
    node.wait_oper_up(port.index, PORT_UP).map_err(|error| {
        Error::system("bridge port in error state: lower-layer-down").details(error.to_string())
    })
}

/// Waits until duplicate detection has ended for all addresses of a link. It cannot end on a link
/// that is not up, which is no failure of an address.
pub fn addresses(netlink: &Netlink, index: u32, name: &str) -> Result<(), Error> {
    let Err(error) = netlink.wait_addresses(index, DAD) else {
        return Ok(());
    };
    let failed = |what: net::Result<bool>| what.unwrap_or(true);
    let duplicate = netlink.addresses(index);
    let duplicate = failed(duplicate.map(|all| all.iter().any(|address| address.dad_failed)));
    let link = netlink.link_by_index(index);
    let up = failed(link.map(|link| link.is_none_or(|link| link.oper_up)));
    if duplicate || up {
        return Err(error).context(format!("addresses of {name:?}"));
    }
    Ok(())
}

/// Waits until the IPv6 addresses among these of a link are in use: else who asks for one too early asks again
/// a second later. A link that has them and does not take them in for a reason of its own is no failure.
pub fn in_use(netlink: &Netlink, index: u32, addresses: &[IpNet]) -> Result<(), Error> {
    let addresses = addresses.iter().filter_map(|net| match net {
        IpNet::V6(net) => Some(net.addr()),
        IpNet::V4(_) => None,
    });
    let addresses: Vec<_> = addresses.collect();
    let waited = netlink.wait_in_use(index, &addresses, IN_USE);
    waited.map(|_| ()).context("addresses")
}
