//! The live routes against the plan.
//!
//! Routes that are added carry a protocol number of their own ([`PROTOCOL`]), and nothing but what
//! carries it is ever removed. The node's own pod range is never touched: it is its bridge's.

mod apply;
mod change;
#[cfg(test)]
mod tests;
mod text;

use ipnet::IpNet;
use net::Route;
use net::route::{Entry, Kind};

use crate::Node;
use crate::site::{Planned, Site};
use crate::way::BY_KERNEL;

pub use apply::{Failed, apply};
pub use change::{Addition, Blocked, Cause, Change};
pub use text::words;

/// Who made a route that was added here: `proto 145` as `ip route` shows it. In iproute2's
/// `rt_protos` it is nobody's.
pub const PROTOCOL: u8 = 145;

/// What a route is to the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// It is planned, and there, whoever made it.
    Planned,
    /// It is planned, and not there.
    Missing,
    /// It is not planned, and another made it.
    Foreign,
    /// It is not planned, and was added here.
    Stale,
}

impl Mark {
    /// The mark as it is printed.
    pub fn as_str(self) -> &'static str {
        match self {
            Mark::Planned => "planned",
            Mark::Missing => "missing",
            Mark::Foreign => "foreign",
            Mark::Stale => "stale",
        }
    }
}

/// A route that is planned, or there, or both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// What it is to the plan.
    pub mark: Mark,
    /// Its destination.
    pub range: IpNet,
    /// As it is planned.
    pub planned: Option<Planned>,
    /// As it is there.
    pub found: Option<Entry>,
}

/// Compares the routes of table `main` that are about pods, or were added here, with the plan: those
/// that are planned in the order of the nodes' names, then the others.
pub fn compare(node: &Node, site: &Site) -> Vec<Line> {
    let mut rest: Vec<&Entry> = node.main_routes().collect();
    rest.retain(|entry| is_of_pods(entry, site));
    let mut lines = Vec::new();
    for planned in &site.planned {
        let is_it = |entry: &&Entry| is_as_planned(entry, planned, node, site);
        let place = rest.iter().position(is_it);
        let found = place.map(|place| rest.remove(place));
        lines.push(Line {
            mark: match found {
                Some(_) => Mark::Planned,
                None => Mark::Missing,
            },
            range: planned.range,
            found: found.cloned(),
            planned: Some(planned.clone()),
        });
    }
    lines.extend(rest.into_iter().map(|entry| Line {
        // None of several ways was added here; the kernel tells of all only who made the first.
        mark: match entry.protocol {
            PROTOCOL if !entry.multipath => Mark::Stale,
            _ => Mark::Foreign,
        },
        range: entry.route.dst,
        planned: None,
        found: Some(entry.clone()),
    }));
    lines
}

/// The first planned route whose next hop is an address of this very machine: it is another node than
/// the one that is meant.
pub fn to_itself<'a>(node: &Node, site: &'a Site) -> Option<&'a Planned> {
    let mut planned = site.planned.iter();
    planned.find(|planned| node.has(planned.via))
}

/// A route as a table holds it once it was added here.
pub fn added(route: Route) -> Entry {
    Entry {
        route,
        kind: Kind::Unicast,
        protocol: PROTOCOL,
        source: None,
        on_link: false,
        dead: false,
        multipath: false,
    }
}

/// What the kernel makes of addresses is neither planned nor foreign.
fn is_of_pods(entry: &Entry, site: &Site) -> bool {
    let range = entry.route.dst;
    let of_address = entry.protocol == BY_KERNEL && entry.route.gateway.is_none();
    let about_pods = site.pods.iter().any(|pods| pods.contains(&range));
    entry.protocol == PROTOCOL || (about_pods && !of_address)
}

fn is_as_planned(entry: &Entry, planned: &Planned, node: &Node, site: &Site) -> bool {
    let by_device = site
        .device
        .as_ref()
        .is_none_or(|device| node.name_of(entry.route.index) == *device);
    entry.kind == Kind::Unicast
        && entry.route.dst == planned.range
        && entry.route.gateway == Some(planned.via)
        && !entry.multipath
        && by_device
}
