//! What others do to routes and links, heard as it happens.

use std::time::{Duration, Instant};

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::LinkAttribute;
use netlink_packet_route::route::RouteHeader;
use rtnetlink::MulticastGroup;

use crate::Result;
use crate::netlink::Events;

/// A socket that hears of routes of the table `main`, of both families, and of links that are no
/// ports of a bridge: where a link goes down, the kernel removes its routes and says nothing of them.
#[derive(Debug)]
pub struct RouteEvents(Events);

impl RouteEvents {
    /// One in the calling thread's namespace; what happens from now on is heard.
    ///
    /// # Errors
    /// The kernel's.
    pub fn current() -> Result<RouteEvents> {
        let groups = [
            MulticastGroup::Ipv4Route,
            MulticastGroup::Ipv6Route,
            MulticastGroup::Link,
        ];
        Ok(RouteEvents(Events::open(&groups)?))
    }

    /// Waits for a change, or for an event of which cannot be said whether it is one; false where
    /// `limit` has passed before one came. It blocks.
    ///
    /// # Errors
    /// The kernel's.
    pub fn wait(&self, limit: Duration) -> Result<bool> {
        let started = Instant::now();
        let left = || limit.saturating_sub(started.elapsed());
        self.0.next(concerns, left)
    }
}

fn concerns(event: &RouteNetlinkMessage) -> bool {
    match event {
        RouteNetlinkMessage::NewRoute(route) | RouteNetlinkMessage::DelRoute(route) => {
            route.header.table == RouteHeader::RT_TABLE_MAIN
        }
        RouteNetlinkMessage::NewLink(link) | RouteNetlinkMessage::DelLink(link) => {
            let is_port = |one: &LinkAttribute| matches!(one, LinkAttribute::Controller(_));
            !link.attributes.iter().any(is_port)
        }
        _ => false,
    }
}
