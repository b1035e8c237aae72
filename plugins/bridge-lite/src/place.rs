//! The two namespaces of an attachment: the node's, which this process runs in, and the pod's.

use cni::{Context, Error, Request};
use net::{Netlink, Netns};

/// One socket into each of the two namespaces.
#[derive(Debug)]
pub struct Place {
    /// The pod's namespace.
    pub netns: Netns,
    /// A socket in the node's namespace.
    pub node: Netlink,
    /// A socket in the pod's namespace.
    pub pod: Netlink,
}

impl Place {
    /// Opens both, for ADD and CHECK.
    ///
    /// # Errors
    /// Code 4 where `CNI_NETNS` is no namespace, or our own.
    pub fn open(request: &Request) -> Result<Place, Error> {
        let netns = attached::netns::open(request)?;
        Ok(Place {
            node: Netlink::current().context("failed to open a netlink socket")?,
            pod: Netlink::in_netns(&netns).context("failed to enter the pod's netns")?,
            netns,
        })
    }
}
