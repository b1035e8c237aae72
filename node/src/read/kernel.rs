//! Links, addresses, routes, qdiscs and sysctls.

use net::{Link, Netlink, sysctl};

use crate::Node;

/// Sysctls that count for the node as a whole.
const OF_NODE: [&str; 5] = [
    "net/ipv4/ip_forward",
    "net/ipv4/conf/all/rp_filter",
    "net/ipv6/conf/all/forwarding",
    "net/bridge/bridge-nf-call-iptables",
    "net/bridge/bridge-nf-call-ip6tables",
];

/// Those that count for a link, below `net/`.
const OF_LINK: [(&str, &str); 3] = [
    ("ipv4", "forwarding"),
    ("ipv4", "rp_filter"),
    ("ipv6", "disable_ipv6"),
];

/// The node's name; empty where it has none that can be read.
pub fn host_name() -> String {
    let name = nix::unistd::gethostname().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

impl Node {
    pub(super) fn read_kernel(&mut self) {
        let Some(netlink) = self.read_links() else {
            return;
        };
        let policy = self.seen("routing rules", netlink.rules());
        self.policy = policy.unwrap_or_default();
        let indexes: Vec<u32> = self.links.iter().map(|link| link.index).collect();
        for index in indexes {
            self.read_link(&netlink, index);
        }
        self.read_sysctls();
    }

    /// The socket by which links, addresses and routes were read, if there is one.
    pub(crate) fn read_links(&mut self) -> Option<Netlink> {
        let netlink = self.seen("links, addresses and routes", Netlink::current())?;
        let links = self.seen("links", netlink.links());
        self.links = links.unwrap_or_default();
        let addresses = self.seen("addresses", netlink.all_addresses());
        self.addresses = addresses.unwrap_or_default();
        let routes = self.seen("routes", netlink.tables());
        self.routes = routes.unwrap_or_default();
        Some(netlink)
    }

    /// What is asked for link by link; one that has gone since has none.
    fn read_link(&mut self, netlink: &Netlink, index: u32) {
        let what = format!("qdiscs of {}", self.name_of(index));
        let qdiscs = self.seen(&what, netlink.qdiscs(index));
        let qdiscs = qdiscs.into_iter().flatten().map(|qdisc| (index, qdisc));
        self.qdiscs.extend(qdiscs);
        let what = format!("filters of {}", self.name_of(index));
        let targets = self.seen(&what, netlink.redirect_targets(index));
        let targets = targets.into_iter().flatten().map(|target| (index, target));
        self.redirects.extend(targets);
    }

    fn read_sysctls(&mut self) {
        let of_node = OF_NODE.map(str::to_owned).into_iter();
        // Pods' links have none that matters.
        let links = self.links.iter().filter(|link| !is_pod_s(link));
        let of_links = links.flat_map(|link| {
            OF_LINK.map(|(family, key)| format!("net/{family}/conf/{}/{key}", link.name))
        });
        for path in of_node.chain(of_links).collect::<Vec<_>>() {
            let value = self.seen(&format!("sysctl {path}"), sysctl::read(&path));
            if let Some(value) = value.flatten() {
                self.sysctls.insert(path, value);
            }
        }
    }
}

/// Whether it is a port of a bridge, or what a pod's traffic is redirected to.
fn is_pod_s(link: &Link) -> bool {
    link.master.is_some() || link.kind == "ifb"
}
