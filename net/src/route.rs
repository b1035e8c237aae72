//! Routes.

pub(crate) mod table;

use std::net::IpAddr;

use ipnet::IpNet;
use netlink_packet_core::{NLM_F_APPEND, NLM_F_CREATE};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteMessage, RouteMetric, RouteProtocol, RouteScope, RouteType,
    RouteVia,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use nix::errno::Errno;
use rtnetlink::RouteMessageBuilder;

pub use table::{Entry, Kind};

use crate::{Netlink, Result};

/// A route, to be made or as it is. Destination and gateway may differ in family only by mistake:
/// the kernel refuses that. Of one that is there, metric, table and scope are always told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Destination; /0 for the default route.
    pub dst: IpNet,
    /// Next hop.
    pub gateway: Option<IpAddr>,
    /// Index of the link it leaves by.
    pub index: u32,
    /// Metric; `None` for the kernel's default: 0, and 1024 for IPv6.
    pub priority: Option<u32>,
    /// Table; `None` for main (254).
    pub table: Option<u32>,
    /// `rt_scope_t`; `None` for global with a gateway, link without. IPv6 knows global only.
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

/// `rt_scope_t` of a route that was given none.
fn default_scope(gateway: Option<IpAddr>) -> u8 {
    match gateway {
        Some(_) => RouteScope::Universe.into(),
        None => RouteScope::Link.into(),
    }
}

impl Netlink {
    /// All unicast routes of both families and all tables that leave by the link (multipath legs
    /// included, one [`Route`] a leg). Equivalent to `ip route show table all dev INDEX`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn routes(&self, index: u32) -> Result<Vec<Route>> {
        let mut routes = self.routes_of(AddressFamily::Inet, index)?;
        routes.extend(self.routes_of(AddressFamily::Inet6, index)?);
        Ok(routes)
    }

    fn routes_of(&self, family: AddressFamily, index: u32) -> Result<Vec<Route>> {
        let mut message = RouteMessage::default();
        message.header.address_family = family;
        // The kernel filters by these (Linux 4.20), but older ones send all.
        message.header.kind = RouteType::Unicast;
        message.attributes.push(RouteAttribute::Oif(index));
        let message = RouteNetlinkMessage::GetRoute(message);
        let doing = format_args!("list routes of link {index}");
        let legs = self.dump(message, doing, |answer| match answer {
            // A kernel without the family answers with all others'.
            RouteNetlinkMessage::NewRoute(route) if route.header.address_family == family => {
                let of_link = |entry: &Entry| entry.route.index == index;
                let entries = table::entries(&route).into_iter().filter(of_link);
                let unicast = entries.filter(|entry| entry.kind == Kind::Unicast);
                Some(unicast.map(|entry| entry.route).collect::<Vec<_>>())
            }
            _ => None,
        })?;
        Ok(legs.into_iter().flatten().collect())
    }

    /// Equivalent to `ip route append DST [via GW] dev INDEX …`: the same destination by another
    /// way is accepted.
    ///
    /// # Errors
    /// The kernel's; EEXIST where exactly this route is there.
    pub fn add_route(&self, route: &Route) -> Result<()> {
        let message = route_message(route, RouteProtocol::Boot);
        let message = RouteNetlinkMessage::NewRoute(message);
        let doing = format_args!("add route to {}", table::Way(route));
        self.change(message, NLM_F_CREATE | NLM_F_APPEND, doing)
    }

    /// The index of the link by which a packet to `destination` would leave. Equivalent to
    /// `ip route get DESTINATION`.
    ///
    /// # Errors
    /// The kernel's; that there is no way (unreachable) is `None`.
    pub fn route_to(&self, destination: IpAddr) -> Result<Option<u32>> {
        Ok(self.way_to(destination, None)?.as_ref().and_then(way))
    }

    /// Whether a link takes in what is sent to an address. Equivalent to a look for `local` in what
    /// `ip route get ADDRESS oif INDEX` says.
    pub(crate) fn is_local(&self, index: u32, address: IpAddr) -> Result<bool> {
        let answer = self.way_to(address, Some(index))?;
        let Some(RouteNetlinkMessage::NewRoute(route)) = answer else {
            return Ok(false);
        };
        Ok(route.header.kind == RouteType::Local)
    }

    fn way_to(&self, destination: IpAddr, oif: Option<u32>) -> Result<Option<RouteNetlinkMessage>> {
        let mut message = RouteMessage::default();
        message.header.address_family = family(destination);
        message.header.destination_prefix_length = IpNet::from(destination).prefix_len();
        message
            .attributes
            .push(RouteAttribute::Destination(destination.into()));
        message.attributes.extend(oif.map(RouteAttribute::Oif));
        let message = RouteNetlinkMessage::GetRoute(message);
        match self.get(message, format_args!("get route to {destination}")) {
            Err(error) if NO_WAY.iter().any(|errno| error.is(*errno)) => Ok(None),
            answer => answer,
        }
    }
}

/// What the kernel answers where there is no route, or where it is one of type unreachable,
/// prohibit or blackhole (`fib_props` of the kernel's net/ipv4/fib_semantics.c).
const NO_WAY: [Errno; 4] = [
    Errno::ENETUNREACH,
    Errno::EHOSTUNREACH,
    Errno::EACCES,
    Errno::EINVAL,
];

pub(crate) fn way(answer: &RouteNetlinkMessage) -> Option<u32> {
    let RouteNetlinkMessage::NewRoute(route) = answer else {
        return None;
    };
    if !matches!(route.header.kind, RouteType::Unicast | RouteType::Local) {
        return None;
    }
    route
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            RouteAttribute::Oif(index) => Some(*index),
            _ => None,
        })
}

/// `protocol` is what `ip route` says who made it.
fn route_message(route: &Route, protocol: RouteProtocol) -> RouteMessage {
    let dst = route.dst.trunc();
    let mut message = RouteMessageBuilder::<IpAddr>::new().build();
    let header = &mut message.header;
    header.address_family = family(dst.addr());
    header.destination_prefix_length = dst.prefix_len();
    header.protocol = protocol;
    header.scope = route
        .scope
        .unwrap_or_else(|| default_scope(route.gateway))
        .into();
    let attributes = &mut message.attributes;
    if let Some(table) = route.table {
        match u8::try_from(table) {
            Ok(table) => header.table = table,
            Err(_) => attributes.push(RouteAttribute::Table(table)),
        }
    }
    if dst.prefix_len() > 0 {
        attributes.push(RouteAttribute::Destination(dst.addr().into()));
    }
    attributes.extend(
        route
            .gateway
            .map(|gateway| RouteAttribute::Gateway(gateway.into())),
    );
    attributes.push(RouteAttribute::Oif(route.index));
    attributes.extend(route.priority.map(RouteAttribute::Priority));
    let mtu = route.mtu.map(RouteMetric::Mtu);
    let metrics: Vec<_> = mtu
        .into_iter()
        .chain(route.advmss.map(RouteMetric::Advmss))
        .collect();
    if !metrics.is_empty() {
        attributes.push(RouteAttribute::Metrics(metrics));
    }
    message
}

fn family(ip: IpAddr) -> AddressFamily {
    match ip {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

impl Route {
    fn read_metrics(&mut self, metrics: &[RouteMetric]) {
        for metric in metrics {
            match metric {
                RouteMetric::Mtu(mtu) => self.mtu = Some(*mtu),
                RouteMetric::Advmss(advmss) => self.advmss = Some(*advmss),
                _ => {}
            }
        }
    }
}

fn gateway(attributes: &[RouteAttribute]) -> Option<IpAddr> {
    attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Gateway(address) => ip(address),
        // An IPv4 route by an IPv6 gateway.
        RouteAttribute::Via(RouteVia::Inet6(ip)) => Some((*ip).into()),
        _ => None,
    })
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(ip) => Some((*ip).into()),
        RouteAddress::Inet6(ip) => Some((*ip).into()),
        _ => None,
    }
}
