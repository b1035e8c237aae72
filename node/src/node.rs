//! A node as it was at one moment.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use cni::Attachment;
use cni::runtime::CachedAttachment;
use firewall::hostport::Protocol;
use firewall::view::{View, quote};
use net::route::Entry;
use net::rule::Rule;
use net::{Address, Link, Qdisc};

use crate::agent::Agent;
use crate::network::{Configuration, Network, Program};

/// The folder of configurations and that of plugins, where nobody says otherwise.
pub const USUAL_CONF: &str = "/etc/cni/net.d";
/// See [`USUAL_CONF`].
pub const USUAL_PLUGINS: &str = "/opt/cni/bin";

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
    /// The rules by which a table is chosen, those of a family in the order in which they are asked.
    pub policy: Vec<Rule>,
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
    /// What its agent says.
    pub agent: Agent,
    /// What could not be read.
    pub unread: Vec<Unread>,
    /// The folder of configurations.
    pub conf: PathBuf,
    /// The folders of plugins.
    pub plugins: Vec<PathBuf>,
    /// The folder of the runtime's cache.
    pub cache: PathBuf,
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

    /// What the cache knows of an attachment.
    pub fn attached(&self, attachment: &Attachment) -> Option<&Attached> {
        let mut all = self.attachments.iter().flatten();
        all.find(|attached| attached.known.attachment == *attachment)
    }

    /// The command that removes an attachment, whatever is left of it.
    pub fn removal_of(&self, attachment: &Attachment) -> String {
        let netns = self
            .attached(attachment)
            .and_then(|attached| attached.known.netns.as_ref());
        let netns = netns.map_or("/run/netns/none".to_owned(), |path| {
            path.display().to_string()
        });
        let words = [
            attachment.network.as_str(),
            netns.as_str(),
            "--container-id",
            attachment.container_id.as_str(),
            "--ifname",
            attachment.ifname.as_str(),
        ];
        let words = words.map(|word| format!(" {}", quote(word)));
        format!("podnet del{}{}", words.concat(), self.places())
    }

    /// The options that name this node's folders to `podnet`, where they are not the usual ones.
    pub fn places(&self) -> String {
        let plugins = std::env::join_paths(&self.plugins).unwrap_or_default();
        let places = [
            ("--conf-dir", self.conf.as_os_str(), USUAL_CONF),
            ("--cni-path", plugins.as_os_str(), USUAL_PLUGINS),
            (
                "--cache-dir",
                self.cache.as_os_str(),
                cni::runtime::DEFAULT_CACHE,
            ),
        ];
        let unusual = places
            .into_iter()
            .filter(|(_, place, usual)| place != usual);
        unusual
            .map(|(option, place, _)| format!(" {option} {}", quote(&place.to_string_lossy())))
            .collect()
    }
}
