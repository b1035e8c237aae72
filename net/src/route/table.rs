//! Routing tables as they stand: routes of every kind, whoever made them.

use std::fmt;
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::route::{
    RouteAttribute, RouteFlags, RouteMessage, RouteNextHop, RouteNextHopFlags, RouteScope,
    RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::{Route, gateway, ip, route_message};
use crate::{Netlink, Result};

/// A route as a table holds it; of a multipath route one for each of its ways.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Where it leads; `index` is 0 where it leaves by no link.
    pub route: Route,
    /// What becomes of a packet.
    pub kind: Kind,
    /// Who made it: `RTPROT_*` of linux/rtnetlink.h, 2 for the kernel.
    pub protocol: u8,
    /// The address that the node's own packets get (`RTA_PREFSRC`).
    pub source: Option<IpAddr>,
    /// The next hop counts as reachable by the link whatever the addresses say (`RTNH_F_ONLINK`).
    pub on_link: bool,
    /// The link is down, or has no carrier (`RTNH_F_DEAD`, `RTNH_F_LINKDOWN`).
    pub dead: bool,
    /// It is one of several ways of one route.
    pub multipath: bool,
}

/// What becomes of a packet: `RTN_*` of linux/rtnetlink.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It goes out by a link.
    Unicast,
    /// It is for this node.
    Local,
    /// It is for this node, as a broadcast.
    Broadcast,
    /// It is dropped without a word.
    Blackhole,
    /// It is dropped, and its sender is told.
    Unreachable,
    /// It is dropped, and its sender is told that someone wants it so.
    Prohibit,
    /// The next table is asked.
    Throw,
    /// Anything else.
    Other(u8),
}

impl From<RouteType> for Kind {
    fn from(kind: RouteType) -> Kind {
        match kind {
            RouteType::Unicast => Kind::Unicast,
            RouteType::Local => Kind::Local,
            RouteType::Broadcast => Kind::Broadcast,
            RouteType::BlackHole => Kind::Blackhole,
            RouteType::Unreachable => Kind::Unreachable,
            RouteType::Prohibit => Kind::Prohibit,
            RouteType::Throw => Kind::Throw,
            other => Kind::Other(other.into()),
        }
    }
}

impl From<Kind> for RouteType {
    fn from(kind: Kind) -> RouteType {
        match kind {
            Kind::Unicast => RouteType::Unicast,
            Kind::Local => RouteType::Local,
            Kind::Broadcast => RouteType::Broadcast,
            Kind::Blackhole => RouteType::BlackHole,
            Kind::Unreachable => RouteType::Unreachable,
            Kind::Prohibit => RouteType::Prohibit,
            Kind::Throw => RouteType::Throw,
            Kind::Other(number) => number.into(),
        }
    }
}

/// As `ip route` names it.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Unicast => f.write_str("unicast"),
            Kind::Local => f.write_str("local"),
            Kind::Broadcast => f.write_str("broadcast"),
            Kind::Blackhole => f.write_str("blackhole"),
            Kind::Unreachable => f.write_str("unreachable"),
            Kind::Prohibit => f.write_str("prohibit"),
            Kind::Throw => f.write_str("throw"),
            Kind::Other(number) => write!(f, "{number}"),
        }
    }
}

impl Netlink {
    /// All routes of both families and all tables, those of IPv4 first, and of one destination in
    /// the order in which they are asked. Equivalent to `ip route show table all`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn tables(&self) -> Result<Vec<Entry>> {
        let mut all = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut message = RouteMessage::default();
            message.header.address_family = family;
            let message = RouteNetlinkMessage::GetRoute(message);
            let found = self.dump(
                message,
                format_args!("list routes"),
                |answer| match answer {
                    // A kernel without the family answers with all others'.
                    RouteNetlinkMessage::NewRoute(route)
                        if route.header.address_family == family =>
                    {
                        Some(entries(&route))
                    }
                    _ => None,
                },
            )?;
            all.extend(found.into_iter().flatten());
        }
        Ok(all)
    }

    /// Equivalent to `ip route add DST [via GW] dev INDEX … proto PROTOCOL`.
    ///
    /// # Errors
    /// The kernel's; EEXIST where there is a route of that destination, metric and table.
    pub fn insert_route(&self, route: &Route, protocol: u8) -> Result<()> {
        let message = route_message(route, protocol.into());
        let message = RouteNetlinkMessage::NewRoute(message);
        let doing = format_args!("add route to {}", Way(route));
        self.change(message, NLM_F_CREATE | NLM_F_EXCL, doing)
    }

    /// Equivalent to `ip route del KIND DST [via GW] [dev INDEX] … proto PROTOCOL`. Of a multipath
    /// route of IPv4 all ways go; in IPv6 each is a route of its own, with a maker of its own.
    ///
    /// # Errors
    /// The kernel's; ESRCH where it is not there.
    pub fn delete_route(&self, entry: &Entry) -> Result<()> {
        let mut message = route_message(&entry.route, entry.protocol.into());
        message.header.kind = entry.kind.into();
        // Of whichever scope.
        message.header.scope = RouteScope::NoWhere;
        let whole = entry.multipath && entry.route.dst.addr().is_ipv4();
        let names_a_way = |attribute: &RouteAttribute| match attribute {
            RouteAttribute::Gateway(_) | RouteAttribute::Via(_) => whole,
            RouteAttribute::Oif(index) => whole || *index == 0,
            _ => false,
        };
        message
            .attributes
            .retain(|attribute| !names_a_way(attribute));
        let message = RouteNetlinkMessage::DelRoute(message);
        let doing = format_args!("delete route to {}", Way(&entry.route));
        self.change(message, 0, doing)
    }
}

/// A route, for an error's text.
pub(super) struct Way<'a>(pub &'a Route);

impl fmt::Display for Way<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Route { dst, index, .. } = self.0;
        match self.0.gateway {
            Some(gateway) => write!(f, "{dst} via {gateway} on link {index}"),
            None => write!(f, "{dst} on link {index}"),
        }
    }
}

/// The ways of a route.
pub(crate) fn entries(message: &RouteMessage) -> Vec<Entry> {
    let base = base(message);
    let mut hops = message.attributes.iter();
    let hops = hops.find_map(|attribute| match attribute {
        RouteAttribute::MultiPath(hops) => Some(hops),
        _ => None,
    });
    let Some(hops) = hops else {
        return vec![base];
    };
    hops.iter().map(|hop| leg(&base, hop)).collect()
}

/// What all ways have in common, and the way of a route that has but one.
fn base(message: &RouteMessage) -> Entry {
    let header = &message.header;
    let everywhere = match header.address_family {
        AddressFamily::Inet6 => IpNet::V6(Ipv6Net::default()),
        _ => IpNet::V4(Ipv4Net::default()),
    };
    let mut route = Route::new(everywhere, gateway(&message.attributes), 0);
    route.scope = Some(header.scope.into());
    route.table = Some(header.table.into());
    // Of IPv4, which does not tell it.
    route.priority = Some(0);
    let mut source = None;
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(address) => {
                let length = header.destination_prefix_length;
                let dst = ip(address).and_then(|ip| IpNet::new(ip, length).ok());
                route.dst = dst.unwrap_or(route.dst);
            }
            RouteAttribute::Table(table) => route.table = Some(*table),
            RouteAttribute::Priority(priority) => route.priority = Some(*priority),
            RouteAttribute::Metrics(metrics) => route.read_metrics(metrics),
            RouteAttribute::Oif(index) => route.index = *index,
            RouteAttribute::PrefSource(address) => source = ip(address),
            _ => {}
        }
    }
    let flags = header.flags;
    Entry {
        route,
        kind: header.kind.into(),
        protocol: header.protocol.into(),
        source,
        on_link: flags.contains(RouteFlags::Onlink),
        dead: flags.intersects(RouteFlags::Dead | RouteFlags::Linkdown),
        multipath: false,
    }
}

fn leg(base: &Entry, hop: &RouteNextHop) -> Entry {
    let dead = RouteNextHopFlags::Dead | RouteNextHopFlags::Linkdown;
    Entry {
        route: Route {
            index: hop.interface_index,
            gateway: gateway(&hop.attributes),
            ..base.route.clone()
        },
        on_link: hop.flags.contains(RouteNextHopFlags::Onlink),
        dead: hop.flags.intersects(dead),
        multipath: true,
        ..base.clone()
    }
}
