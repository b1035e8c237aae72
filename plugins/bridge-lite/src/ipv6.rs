//! Whether the node can do IPv6 where an attachment wants it.

use std::path::Path;

use cni::{Context, Error};
use net::sysctl;

use crate::gateway;
use crate::want::{Want, is_ipv6};

/// There where the kernel does IPv6 (`if6_proc_net_init` of net/ipv6/addrconf.c): not where it was
/// built or started (`ipv6.disable=1`) without.
const ADDRESSES: &str = "/proc/self/net/if_inet6";

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
