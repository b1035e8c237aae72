//! The pod's loopback, as the kernel has it.

use attached::{link, netns};
use cni::{Context, Error, Request};
use ipnet::IpNet;
use net::{Link, Netlink, sysctl};

use crate::NAME;

/// Off (`0`), on, or not there where the kernel does no IPv6.
const IPV6_OFF: &str = "net/ipv6/conf/lo/disable_ipv6";

/// The pod's loopback, and the way to it.
#[derive(Debug)]
pub struct Place {
    /// In the pod's namespace.
    pub pod: Netlink,
    /// The link.
    pub link: Link,
    /// Its addresses, of both families.
    pub addresses: Vec<IpNet>,
    /// It can have addresses of IPv6.
    pub ipv6: bool,
}

impl Place {
    /// Looks at it.
    ///
    /// # Errors
    /// Code 4 where `CNI_NETNS` is no pod's namespace, or the kernel's.
    pub fn find(request: &Request) -> Result<Place, Error> {
        let netns = netns::open(request)?;
        let failed = "failed to look at the pod's loopback interface";
        let pod = Netlink::in_netns(&netns).context(failed)?;
        let link = link::expect(&pod, NAME)?;
        let found = pod.addresses(link.index).context(failed)?;
        let ipv6_off = netns.enter(|| sysctl::read(IPV6_OFF)).context(failed)?;
        Ok(Place {
            pod,
            link,
            addresses: found.iter().map(|address| address.net).collect(),
            ipv6: ipv6_off.context(failed)?.as_deref() == Some("0"),
        })
    }
}
