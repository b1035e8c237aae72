//! Values for tests.

use std::net::IpAddr;

use ipnet::IpNet;
use net::Route;
use net::route::{Entry, Kind};
use plan::{Cluster, Document, Plan};

use crate::Site;

pub fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

/// A static route of table main.
pub fn route(dst: &str, gateway: Option<&str>, index: u32) -> Entry {
    let mut route = Route::new(net(dst), gateway.map(ip), index);
    route.table = Some(254);
    route.priority = Some(if dst.contains(':') { 1024 } else { 0 });
    Entry {
        route,
        kind: Kind::Unicast,
        protocol: 4,
        source: None,
        on_link: false,
        dead: false,
        multipath: false,
    }
}

/// A cluster of the nodes a, b and c, 192.0.2.10 and so on, as one of them sees it.
pub fn site(name: &str) -> Site {
    let text = "
podSubnet: [10.1.0.0/16, 'fd00::/56']
nodes:
- {name: a, address: ['192.0.2.10', '2001:db8::10']}
- {name: b, address: ['192.0.2.11', '2001:db8::11']}
- {name: c, address: ['192.0.2.12', '2001:db8::12']}
";
    let keys = Document::parse("c", text).unwrap().read().unwrap();
    let plan = Plan::new(Cluster::new(keys).unwrap()).unwrap();
    Site::new(&plan, name).unwrap().unwrap()
}
