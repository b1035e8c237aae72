//! Routes.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::{Netlink, Result};

/// A route, to be made or as it is. Destination and gateway may differ in family only by mistake:
/// the kernel refuses that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Destination; /0 for the default route.
    pub dst: IpNet,
    /// Next hop.
    pub gateway: Option<IpAddr>,
    /// Index of the link it leaves by.
    pub index: u32,
    /// Metric; `None` for the kernel's default.
    pub priority: Option<u32>,
    /// Table; `None` for main (254).
    pub table: Option<u32>,
    /// `rt_scope_t`; `None` for global with a gateway, link without.
    pub scope: Option<u8>,
    /// `RTAX_MTU`, in bytes.
    pub mtu: Option<u32>,
    /// `RTAX_ADVMSS`, in bytes.
    pub advmss: Option<u32>,
}

impl Route {
    /// A plain route of table main.
    pub fn new(dst: IpNet, gateway: Option<IpAddr>, index: u32) -> Route {
        Route {
            dst,
            gateway,
            index,
            priority: None,
            table: None,
            scope: None,
            mtu: None,
            advmss: None,
        }
    }
}

impl Netlink {
    /// All unicast routes of both families and all tables that leave by the link (multipath legs
    /// included, one [`Route`] a leg). Equivalent to `ip route show table all dev INDEX`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn routes(&self, index: u32) -> Result<Vec<Route>> {
        let _ = index;
        todo!()
    }

    /// Equivalent to `ip route append DST [via GW] dev INDEX …`: the same destination by another
    /// way is accepted.
    ///
    /// # Errors
    /// The kernel's; EEXIST where exactly this route is there.
    pub fn add_route(&self, route: &Route) -> Result<()> {
        let _ = route;
        todo!()
    }

    /// The index of the link by which a packet to `destination` would leave. Equivalent to
    /// `ip route get DESTINATION`.
    ///
    /// # Errors
    /// The kernel's; that there is no way (unreachable) is `None`.
    pub fn route_to(&self, destination: IpAddr) -> Result<Option<u32>> {
        let _ = destination;
        todo!()
    }
}
