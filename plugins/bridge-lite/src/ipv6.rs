//! Whether the node can do IPv6 where an attachment wants it.

use std::path::Path;

use cni::{Context, Error};
use net::{Netlink, sysctl};

use crate::gateway;
use crate::want::{Want, is_ipv6};

/// There where the kernel does IPv6 (`if6_proc_net_init` of net/ipv6/addrconf.c): not where it was
/// built or started (`ipv6.disable=1`) without.
const ADDRESSES: &str = "/proc/self/net/if_inet6";

/// Whether the node forwards IPv6 (it is 0 or 1).
const FORWARDING: &str = "net/ipv6/conf/all/forwarding";

/// `RTPROT_RA` of linux/rtnetlink.h: a router has advertised the route.
const ADVERTISED: u8 = 9;

/// Sees that the kernel would take the wanted IPv6 addresses. Of the pod's interface ADD itself
/// switches IPv6 on; of the link with the gateways' addresses, which is the node's, it does not.
///
/// # Errors
/// It would not; names the address and what is in its way.
pub fn expect_usable(want: &Want) -> Result<(), Error> {
    let Some(address) = want.pod_addresses().into_iter().find(|net| is_ipv6(*net)) else {
        return Ok(());
    };
    if !Path::new(ADDRESSES).exists() {
        let msg = format!("address {address} of the IPAM is of IPv6, which the kernel does not do");
        return Err(Error::system(msg).details(format!("there is no {ADDRESSES}")));
    }
    let holder = gateway::holder_name(want.config);
    match want.gateway_addresses().iter().find(|net| is_ipv6(**net)) {
        Some(gateway) => expect_on(&holder).context(format!(
            "failed to set bridge addr: {holder:?} cannot have {gateway}"
        )),
        None => Ok(()),
    }
}

/// Sees that IPv6 is not switched off on the node's link. One that is yet to be made gets the default.
fn expect_on(link: &str) -> Result<(), Error> {
    for link in [link, "default"] {
        let path = format!("net/ipv6/conf/{link}/disable_ipv6");
        match sysctl::read(&path).context("IPv6")?.as_deref() {
            None => {}
            Some("0") => break,
            Some(value) => {
                let details = format!("sysctl {path}: {value}; allowed: 0");
                return Err(Error::system("IPv6 is switched off").details(details));
            }
        }
    }
    Ok(())
}

/// To be called before the node is made to forward IPv6: lets the links by which it has a default
/// route from router advertisements go on to take them. By `accept_ra` 1 a link takes them only as
/// long as it does not forward, and the kernel forgets the route (`rt6_purge_dflt_routers` of
/// net/ipv6/route.c).
///
/// # Errors
/// The kernel's.
pub fn keep_default_routes(node: &Netlink, want: &Want) -> Result<(), Error> {
    let failed = "failed to keep the node's advertised default routes";
    let wanted = want.gateway_addresses().iter().any(|net| is_ipv6(*net));
    if !wanted || sysctl::read(FORWARDING).context(failed)?.as_deref() != Some("0") {
        return Ok(());
    }
    for entry in node.tables().context(failed)? {
        let is_default = is_ipv6(entry.route.dst) && entry.route.dst.prefix_len() == 0;
        if entry.protocol != ADVERTISED || !is_default {
            continue;
        }
        let link = node.link_by_index(entry.route.index).context(failed)?;
        let Some(link) = link else { continue };
        let path = format!("net/ipv6/conf/{}/accept_ra", link.name);
        if sysctl::read(&path).context(failed)?.as_deref() == Some("1") {
            sysctl::write(&path, "2").context(failed)?;
        }
    }
    Ok(())
}
