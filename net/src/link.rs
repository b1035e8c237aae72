//! Links: bridges, veth pairs, ifbs, and the ports of a bridge.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Netlink, Netns, Result};

/// An Ethernet hardware address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mac(pub [u8; 6]);

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// The text is no Ethernet address.
#[derive(Debug, Clone, thiserror::Error)]
#[error("address {0}: invalid MAC address")]
pub struct InvalidMac(pub String);

impl FromStr for Mac {
    type Err = InvalidMac;

    fn from_str(text: &str) -> std::result::Result<Mac, InvalidMac> {
        let _ = text;
        todo!()
    }
}

/// A link as the kernel describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Interface index.
    pub index: u32,
    /// Interface name.
    pub name: String,
    /// Hardware address, if it is an Ethernet one.
    pub mac: Option<Mac>,
    /// In bytes.
    pub mtu: u32,
    /// `IFLA_INFO_KIND`: `bridge`, `veth`, `ifb`; empty for a physical link.
    pub kind: String,
    /// `IFF_UP`.
    pub up: bool,
    /// Operational state is UP (`IF_OPER_UP`).
    pub oper_up: bool,
    /// `IFF_PROMISC` as set by a user (`IFLA_PROMISCUITY` > 0 is not asked).
    pub promiscuous: bool,
    /// Index of the bridge it is a port of.
    pub master: Option<u32>,
    /// `IFLA_LINK`: for a veth, its peer's index in the peer's namespace.
    pub peer: Option<u32>,
    /// `IFLA_LINK_NETNSID` is there: the peer is in another namespace.
    pub peer_elsewhere: bool,
    /// `IFLA_GROUP`.
    pub group: u32,
    /// `IFLA_IFALIAS`, or empty.
    pub alias: String,
    /// `IFLA_TXQLEN`, in packets.
    pub tx_queue: u32,
    /// Flags of the bridge port, where it is one.
    pub port: Option<PortFlags>,
}

/// Flags of a bridge port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortFlags {
    /// A frame may leave by the port it came in.
    pub hairpin: bool,
    /// No frame passes between two isolated ports.
    pub isolated: bool,
}

/// A bridge to be made.
#[derive(Debug, Clone)]
pub struct Bridge<'a> {
    /// Interface name.
    pub name: &'a str,
    /// Fixed from creation, so that it does not follow the ports.
    pub mac: Option<Mac>,
    /// In bytes; `None` for the kernel's default.
    pub mtu: Option<u32>,
}

/// A veth pair to be made by one message: one end here, up; the other in another namespace, down.
#[derive(Debug)]
pub struct Veth<'a> {
    /// Name of the end here.
    pub name: &'a str,
    /// MAC of the end here.
    pub mac: Option<Mac>,
    /// Link group of the end here (`IFLA_GROUP`).
    pub group: u32,
    /// Of both ends, in bytes; `None` for the kernel's default.
    pub mtu: Option<u32>,
    /// Index of the bridge that the end here becomes a port of.
    pub master: Option<u32>,
    /// Name of the other end.
    pub peer_name: &'a str,
    /// MAC of the other end; `None` for a random one.
    pub peer_mac: Option<Mac>,
    /// Namespace of the other end.
    pub peer_netns: &'a Netns,
}

impl Netlink {
    /// The link of that name. Equivalent to `ip -d link show NAME`.
    ///
    /// # Errors
    /// The kernel's; that there is none is not one.
    pub fn link(&self, name: &str) -> Result<Option<Link>> {
        let _ = name;
        todo!()
    }

    /// The link of that index.
    ///
    /// # Errors
    /// The kernel's; that there is none is not one.
    pub fn link_by_index(&self, index: u32) -> Result<Option<Link>> {
        let _ = index;
        todo!()
    }

    /// All links. Equivalent to `ip -d link show`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn links(&self) -> Result<Vec<Link>> {
        todo!()
    }

    /// Equivalent to `ip link add NAME [address MAC] [mtu MTU] up type bridge`.
    ///
    /// # Errors
    /// The kernel's; EEXIST where the name is taken.
    pub fn create_bridge(&self, bridge: &Bridge) -> Result<()> {
        let _ = bridge;
        todo!()
    }

    /// Equivalent to `ip link add NAME address MAC group GROUP master BRIDGE up type veth peer name PEER netns NETNS`.
    ///
    /// # Errors
    /// The kernel's; EEXIST where a name is taken.
    pub fn create_veth(&self, veth: &Veth) -> Result<()> {
        let _ = veth;
        todo!()
    }

    /// Equivalent to `ip link add NAME address MAC group GROUP mtu MTU txqueuelen 0 up type ifb`.
    ///
    /// # Errors
    /// The kernel's; EEXIST where the name is taken.
    pub fn create_ifb(&self, name: &str, mac: Option<Mac>, group: u32, mtu: u32) -> Result<()> {
        let _ = (name, mac, group, mtu);
        todo!()
    }

    /// Equivalent to `ip link set dev INDEX up`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_up(&self, index: u32) -> Result<()> {
        let _ = index;
        todo!()
    }

    /// Equivalent to `ip link set dev INDEX promisc on`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_promiscuous(&self, index: u32) -> Result<()> {
        let _ = index;
        todo!()
    }

    /// Equivalent to `ip link set dev INDEX address MAC`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_mac(&self, index: u32, mac: Mac) -> Result<()> {
        let _ = (index, mac);
        todo!()
    }

    /// Equivalent to `ip link set dev INDEX alias TEXT`; at most 255 bytes.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_alias(&self, index: u32, alias: &str) -> Result<()> {
        let _ = (index, alias);
        todo!()
    }

    /// Equivalent to `ip link set dev INDEX type bridge_slave hairpin … isolated …`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_port(&self, index: u32, flags: PortFlags) -> Result<()> {
        let _ = (index, flags);
        todo!()
    }

    /// Equivalent to `ip link del dev INDEX`; true where there was one.
    ///
    /// # Errors
    /// The kernel's; that there is none is not one.
    pub fn delete_link(&self, index: u32) -> Result<bool> {
        let _ = index;
        todo!()
    }

    /// Waits, by the kernel's events, until the link is operationally up.
    ///
    /// # Errors
    /// The kernel's, or [`Error::Protocol`] with the link's state when `deadline` has passed.
    pub fn wait_oper_up(&self, index: u32, deadline: std::time::Duration) -> Result<()> {
        let _ = (index, deadline);
        Err(Error::Protocol(String::new()))
    }
}
