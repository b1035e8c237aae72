//! Joining two namespaces.

use ipnet::IpNet;
use net::Veth;

use crate::{Namespace, Result};

/// One end of a veth pair.
#[derive(Debug, Clone, Copy)]
pub struct End<'a> {
    /// Where it is.
    pub namespace: &'a Namespace,
    /// Its interface name.
    pub link: &'a str,
    /// Its addresses.
    pub addresses: &'a [IpNet],
}

/// Makes a veth pair between two namespaces, both ends up and with their addresses.
///
/// # Errors
/// The kernel's; EEXIST where a name is taken.
pub fn connect(left: End, right: End) -> Result<()> {
    left.namespace.netlink()?.create_veth(&Veth {
        name: left.link,
        mac: None,
        group: 0,
        mtu: None,
        master: None,
        peer_name: right.link,
        peer_mac: None,
        peer_netns: right.namespace.netns(),
    })?;
    for end in [left, right] {
        end.namespace.set_up(end.link)?;
        for address in end.addresses {
            end.namespace.add_address(end.link, *address)?;
        }
    }
    Ok(())
}
