//! What makes the live routes as planned.

use std::net::IpAddr;

use net::Route;
use net::route::{Entry, Kind};

use super::{Line, Mark, PROTOCOL, added, words};
use crate::Node;
use crate::site::{Planned, Site};

/// What is to be done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    /// Routes that were added here and are no longer planned; they go first.
    pub delete: Vec<Entry>,
    /// Routes that are missing.
    pub add: Vec<Addition>,
    /// What cannot be done.
    pub blocked: Vec<Blocked>,
}

/// A route that is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addition {
    /// As it is planned.
    pub planned: Planned,
    /// As it is to be.
    pub route: Route,
}

/// A route that cannot be as planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// The route.
    pub route: String,
    /// What stands in its way.
    pub cause: Cause,
    /// The node that it is planned to lead to; none where it is one that should go.
    pub to: Option<String>,
    /// Why not.
    pub why: String,
    /// What a person can do.
    pub mend: String,
}

/// What stands in a route's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// It is to the node's own range, which is left alone.
    OwnRange,
    /// Another's route to the same range is there.
    Foreign,
    /// Its next hop is in no network of a link.
    OffLink,
}

impl Change {
    /// What makes the routes as planned that [`super::compare`] has compared.
    pub fn to_plan(node: &Node, site: &Site, lines: &[Line]) -> Change {
        let mut change = Change::default();
        for entry in found(lines, Mark::Stale) {
            // A range may have become the node's own since.
            if site.is_own(&entry.route.dst) {
                let why = format!("the range is {}'s own, and left alone", site.name);
                let blocked = Blocked::by_route(node, entry, Cause::OwnRange, None, why);
                change.blocked.push(blocked);
            } else {
                change.delete.push(entry.clone());
            }
        }
        let missing = lines.iter().filter(|line| line.mark == Mark::Missing);
        for planned in missing.filter_map(|line| line.planned.clone()) {
            let blocking = found(lines, Mark::Foreign).find(|entry| is_in_the_way(entry, &planned));
            match (blocking, link_to(node, site, planned.via)) {
                (Some(entry), _) => {
                    let why = format!("another's route to {} is there", planned.to);
                    let to = Some(planned.to);
                    let blocked = Blocked::by_route(node, entry, Cause::Foreign, to, why);
                    change.blocked.push(blocked);
                }
                (None, Ok(index)) => change.add.push(Addition {
                    route: Route::new(planned.range, Some(planned.via), index),
                    planned,
                }),
                (None, Err((why, mend))) => change.blocked.push(Blocked {
                    route: format!("{} via {}", planned.range, planned.via),
                    cause: Cause::OffLink,
                    to: Some(planned.to),
                    why,
                    mend,
                }),
            }
        }
        change
    }

    /// What removes all that was added here: of table `main`, as all that is compared.
    pub fn to_nothing(node: &Node) -> Change {
        let ours = node
            .main_routes()
            .filter(|entry| entry.protocol == PROTOCOL);
        Change {
            delete: ours.cloned().collect(),
            ..Change::default()
        }
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.delete.is_empty() && self.add.is_empty()
    }
}

impl Addition {
    /// The route as a table will hold it.
    pub fn entry(&self) -> Entry {
        added(self.route.clone())
    }
}

impl Blocked {
    fn by_route(
        node: &Node,
        entry: &Entry,
        cause: Cause,
        to: Option<String>,
        why: String,
    ) -> Blocked {
        let route = words(node, entry);
        Blocked {
            mend: format!("ip route del {route}"),
            route,
            cause,
            to,
            why,
        }
    }
}

fn found(lines: &[Line], mark: Mark) -> impl Iterator<Item = &Entry> {
    let marked = lines.iter().filter(move |line| line.mark == mark);
    marked.filter_map(|line| line.found.as_ref())
}

/// The kernel takes one route of a destination and metric, and ours get the usual metric.
fn is_in_the_way(entry: &Entry, planned: &Planned) -> bool {
    let usual = match planned.via {
        IpAddr::V4(_) => 0,
        IpAddr::V6(_) => 1024,
    };
    entry.route.dst == planned.range && entry.route.priority == Some(usual)
}

/// The link by which a next hop is reached directly; else why there is none, and what to do.
fn link_to(node: &Node, site: &Site, via: IpAddr) -> Result<u32, (String, String)> {
    let direct = |index: u32| {
        node.main_routes().any(|entry| {
            let route = &entry.route;
            let way = route.index == index && route.gateway.is_none();
            way && entry.kind == Kind::Unicast && route.dst.contains(&via)
        })
    };
    let found = match &site.device {
        None => node.on_link(via),
        Some(device) => {
            let link = node.link(device).map(|link| link.index);
            link.filter(|index| direct(*index))
        }
    };
    found.ok_or_else(|| {
        let by = site.device.as_ref();
        let by = by.map_or("any link".to_owned(), |device| format!("link {device}"));
        let why = format!("its next hop is in no network of {by}");
        let mend = format!("ip route get {via}");
        (why, mend)
    })
}
