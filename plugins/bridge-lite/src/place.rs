//! The two namespaces of an attachment: the node's, which this process runs in, and the pod's.

use std::path::Path;

use cni::{Context, Error, Request, code};
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
        let path = request.env.netns.as_deref().unwrap_or(Path::new(""));
        let invalid = |msg: String| {
            Error::new(code::INVALID_ENVIRONMENT, msg)
                .details(format!("CNI_NETNS={}", path.display()))
        };
        let netns = Netns::open(path).map_err(|error| invalid(error.to_string()))?;
        let our_own = is_our_own(&netns).context("failed to compare namespaces")?;
        if our_own && !request.env.netns_override {
            return Err(invalid(
                "plugin's netns and netns from CNI_NETNS should not be the same".into(),
            ));
        }
        Ok(Place {
            node: Netlink::current().context("failed to open a netlink socket")?,
            pod: Netlink::in_netns(&netns).context("failed to enter the pod's netns")?,
            netns,
        })
    }
}

/// A socket in the pod's namespace for DEL: `None` where there is no such namespace any more, or
/// where it is our own, whose interfaces are no pod's.
pub fn pod_if_there(request: &Request) -> Option<Netlink> {
    let netns = Netns::open(request.env.netns.as_deref()?).ok()?;
    match is_our_own(&netns) {
        Ok(false) => Netlink::in_netns(&netns).ok(),
        _ => None,
    }
}

fn is_our_own(netns: &Netns) -> net::Result<bool> {
    Netns::current()?.same_as(netns)
}
