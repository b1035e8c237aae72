//! A node as it was at one moment.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use cni::runtime::CachedAttachment;
use firewall::hostport::Protocol;
use firewall::view::View;
use net::route::Entry;
use net::{Address, Link, Qdisc};

use crate::network::{Configuration, Network, Program};

/// A node as it was at one moment.
#[derive(Debug, Clone, Default)]
pub struct Node {
    /// Its host name.
    pub host: String,
    /// Its links.
    pub links: Vec<Link>,
    /// The addresses of its links, each with its link's index.
    pub addresses: Vec<(u32, Address)>,
    /// Its routes of all tables, those of one destination in the order in which they are asked.
    pub routes: Vec<Entry>,
    /// The qdiscs of its links, each with its link's index.
    pub qdiscs: Vec<(u32, Qdisc)>,
    /// Which link's ingress is redirected to which link.
    pub redirects: Vec<(u32, u32)>,
    /// Those of its sysctls that matter, by their slash path below /proc/sys.
    pub sysctls: BTreeMap<String, String>,
    /// Its rules.
    pub rules: View,
    /// The files of the conf folder; empty where there is none.
    pub configurations: Vec<Configuration>,
    /// The networks that they describe.
    pub networks: Vec<Network>,
    /// The plugins that they name, by their type.
    pub programs: BTreeMap<String, Program>,
    /// The attachments in the runtime's cache; `None` where that could not be read.
    pub attachments: Option<Vec<Attached>>,
    /// Sockets that wait for others to come.
    pub listeners: Vec<Listener>,
    /// What could not be read.
    pub unread: Vec<Unread>,
}

/// What could not be read, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// What.
    pub what: String,
    /// Why.
    pub why: String,
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

/// An attachment as the cache knows it, and what is in its namespace now.
#[derive(Debug, Clone)]
pub struct Attached {
    /// What the cache has.
    pub known: CachedAttachment,
    /// What became of its namespace.
    pub netns: Netns,
}

/// What became of a pod's namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Netns {
    /// The cache does not say which it is.
    Unknown,
    /// It is no more.
    Gone,
    /// It is there, and nobody may look into it.
    Closed(String),
    /// It is there.
    Open {
        /// The pod's interface, if it is there.
        link: Option<Link>,
        /// Its addresses.
        addresses: Vec<Address>,
    },
}

/// A socket that waits for others to come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// What it speaks.
    pub protocol: Protocol,
    /// Where.
    pub address: SocketAddr,
    /// Number and name of its process, if that can be known.
    pub process: Option<(i32, String)>,
}

impl Node {
    /// The link of that name.
    pub fn link(&self, name: &str) -> Option<&Link> {
        self.links.iter().find(|link| link.name == name)
    }

    /// The link of that index.
    pub fn link_by_index(&self, index: u32) -> Option<&Link> {
        self.links.iter().find(|link| link.index == index)
    }

    /// The name of a link, or its index where it has vanished.
    pub fn name_of(&self, index: u32) -> String {
        let link = self.link_by_index(index);
        link.map_or_else(|| index.to_string(), |link| link.name.clone())
    }

    /// The addresses of a link.
    pub fn addresses_of(&self, index: u32) -> impl Iterator<Item = &Address> {
        let own = self.addresses.iter().filter(move |(of, _)| *of == index);
        own.map(|(_, address)| address)
    }

    /// The ports of a bridge.
    pub fn ports_of(&self, bridge: u32) -> impl Iterator<Item = &Link> {
        self.links
            .iter()
            .filter(move |link| link.master == Some(bridge))
    }

    /// The value of a sysctl.
    pub fn sysctl(&self, path: &str) -> Option<&str> {
        self.sysctls.get(path).map(String::as_str)
    }

    /// Whether an address is one of its own.
    pub fn has(&self, address: IpAddr) -> bool {
        let mut own = self.addresses.iter();
        own.any(|(_, own)| own.net.addr() == address)
    }

    /// The path of the namespace of an attachment, if it is known.
    pub fn netns_of(&self, network: &str, container_id: &str, ifname: &str) -> Option<&PathBuf> {
        let attachment = cni::Attachment::new(network, container_id, ifname);
        let mut all = self.attachments.iter().flatten();
        let attached = all.find(|attached| attached.known.attachment == attachment)?;
        attached.known.netns.as_ref()
    }
}
