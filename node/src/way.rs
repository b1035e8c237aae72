//! Which way a packet goes, by the routes alone.

use std::net::IpAddr;

use ipnet::IpNet;
use net::route::{Entry, Kind};

use crate::Node;

/// The table that ordinary routes are in (`RT_TABLE_MAIN` of linux/rtnetlink.h).
pub const MAIN: u32 = 254;
/// The table of the node's own addresses (`RT_TABLE_LOCAL`).
pub const LOCAL: u32 = 255;

/// Who makes the routes of addresses (`RTPROT_KERNEL`).
pub const BY_KERNEL: u8 = 2;

impl Node {
    /// The routes of the table `main`.
    pub fn main_routes(&self) -> impl Iterator<Item = &Entry> {
        self.routes_of(MAIN)
    }

    /// The routes of a table.
    pub fn routes_of(&self, table: u32) -> impl Iterator<Item = &Entry> {
        self.routes.iter().filter(move |entry| is_in(entry, table))
    }

    /// The route by which packets to an address go: the node's own, else of table `main` the
    /// narrowest, of these the one with the lowest metric, and of these the first. Rules that lead
    /// to other tables are not asked.
    pub fn way_to(&self, address: IpAddr) -> Option<&Entry> {
        let net = IpNet::from(address);
        self.best(LOCAL, net).or_else(|| self.best(MAIN, net))
    }

    /// The route of table `main` by which all packets to a range go that none narrower takes.
    pub fn way_to_range(&self, range: IpNet) -> Option<&Entry> {
        self.best(MAIN, range)
    }

    /// The same of another table.
    pub fn way_in(&self, table: u32, range: IpNet) -> Option<&Entry> {
        self.best(table, range)
    }

    fn best(&self, table: u32, net: IpNet) -> Option<&Entry> {
        let covering = self.routes.iter().filter(|entry| {
            is_in(entry, table) && entry.kind != Kind::Throw && entry.route.dst.contains(&net)
        });
        // `min_by_key` gives the first of several.
        covering.min_by_key(|entry| {
            let length = entry.route.dst.prefix_len();
            (u8::MAX - length, entry.route.priority)
        })
    }

    /// The link by which the node reaches an address directly, without another hop.
    pub fn on_link(&self, address: IpAddr) -> Option<u32> {
        let way = self.way_to(address)?;
        let direct = way.kind == Kind::Unicast && way.route.gateway.is_none();
        direct.then_some(way.route.index)
    }
}

fn is_in(entry: &Entry, table: u32) -> bool {
    entry.route.table.unwrap_or(MAIN) == table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{ip, net, route};

    #[test]
    fn the_narrowest_the_cheapest_the_first() {
        let mut node = Node {
            routes: vec![
                route("0.0.0.0/0", Some("192.0.2.1"), 2),
                route("10.0.0.0/8", Some("192.0.2.2"), 2),
                route("10.1.0.0/24", Some("192.0.2.3"), 2),
                route("10.1.0.0/24", None, 3),
                route("::/0", Some("fd00::1"), 2),
            ],
            ..Node::default()
        };
        let gateway = |node: &Node, to: &str| node.way_to(ip(to)).unwrap().route.gateway;
        assert_eq!(gateway(&node, "10.1.0.5"), Some(ip("192.0.2.3")));
        assert_eq!(gateway(&node, "10.2.0.5"), Some(ip("192.0.2.2")));
        assert_eq!(gateway(&node, "11.0.0.1"), Some(ip("192.0.2.1")));
        assert_eq!(gateway(&node, "2001:db8::1"), Some(ip("fd00::1")));
        node.routes[2].route.priority = Some(10);
        assert_eq!(gateway(&node, "10.1.0.5"), None);
        assert_eq!(node.on_link(ip("10.1.0.5")), Some(3));
        assert_eq!(node.on_link(ip("10.2.0.5")), None);
        // Half of a range may go elsewhere.
        let range = node.way_to_range(net("10.1.0.0/16")).unwrap();
        assert_eq!(range.route.dst, net("10.0.0.0/8"));
        node.routes[3].route.table = Some(100);
        assert_eq!(gateway(&node, "10.1.0.5"), Some(ip("192.0.2.3")));
    }

    #[test]
    fn own_addresses_come_first_and_a_throw_is_no_way() {
        let mut own = route("10.1.0.1/32", None, 3);
        own.route.table = Some(LOCAL);
        own.kind = Kind::Local;
        let mut thrown = route("10.1.0.0/24", None, 0);
        thrown.kind = Kind::Throw;
        let node = Node {
            routes: vec![own, thrown, route("10.0.0.0/8", None, 4)],
            ..Node::default()
        };
        assert_eq!(node.way_to(ip("10.1.0.1")).unwrap().kind, Kind::Local);
        assert_eq!(node.on_link(ip("10.1.0.1")), None);
        assert_eq!(node.on_link(ip("10.1.0.2")), Some(4));
        assert_eq!(node.way_to(ip("192.0.2.1")), None);
    }
}
