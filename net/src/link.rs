//! Links: bridges, veth pairs, ifbs, and the ports of a bridge.

mod change;
mod mac;

use std::fmt;
use std::time::Duration;

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    BridgePortState, InfoBridge, InfoBridgePort, InfoData, InfoPortData, LinkAttribute,
    LinkExtentMask, LinkFlags, LinkInfo, LinkMessage, State,
};
use nix::errno::Errno;
use rtnetlink::{LinkMessageBuilder, LinkUnspec, MulticastGroup};

pub use mac::{InvalidMac, Mac};

use crate::{Error, Netlink, Netns, Result};

/// A link as the kernel describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
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
    /// What a bridge does with frames of this port, where it is one.
    pub port_state: Option<PortState>,
    /// How a bridge deals with VLANs; `None` where it is none, or the kernel has no VLANs of
    /// bridges (`CONFIG_BRIDGE_VLAN_FILTERING`).
    pub vlans: Option<Filtering>,
}

/// How a bridge deals with VLANs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Filtering {
    /// `IFLA_BR_VLAN_FILTERING`: a frame passes only between ports of its VLAN.
    pub on: bool,
    /// `IFLA_BR_VLAN_DEFAULT_PVID`: the VLAN that a port is of from the start; 0 for none.
    pub default_pvid: u16,
}

/// Flags of a bridge port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortFlags {
    /// A frame may leave by the port it came in.
    pub hairpin: bool,
    /// No frame passes between two isolated ports.
    pub isolated: bool,
}

/// What a bridge does with frames of a port: `BR_STATE_*` of linux/if_bridge.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortState {
    /// Nothing: the port is down, or the other end is.
    Disabled,
    /// It takes part in the spanning tree.
    Listening,
    /// It learns addresses.
    Learning,
    /// They pass.
    Forwarding,
    /// They are dropped.
    Blocking,
    /// What no kernel has yet.
    Other(u8),
}

/// As `bridge link` names it.
impl fmt::Display for PortState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PortState::Disabled => f.write_str("disabled"),
            PortState::Listening => f.write_str("listening"),
            PortState::Learning => f.write_str("learning"),
            PortState::Forwarding => f.write_str("forwarding"),
            PortState::Blocking => f.write_str("blocking"),
            PortState::Other(number) => write!(f, "{number}"),
        }
    }
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
    /// It filters by VLAN, which not every kernel can.
    pub vlan_filtering: bool,
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
    /// The link of that name (or alternative name). Equivalent to `ip -d link show NAME`. A text
    /// that cannot be a name is no link's.
    ///
    /// # Errors
    /// The kernel's; that there is none is not one.
    pub fn link(&self, name: &str) -> Result<Option<Link>> {
        if !is_name(name) {
            return Ok(None);
        }
        let link = LinkUnspec::new_with_name(name);
        self.get_link(link, format_args!("get link {name}"))
    }

    /// The link of that index.
    ///
    /// # Errors
    /// The kernel's; that there is none is not one.
    pub fn link_by_index(&self, index: u32) -> Result<Option<Link>> {
        let link = LinkUnspec::new_with_index(index);
        self.get_link(link, format_args!("get link {index}"))
    }

    /// All links. Equivalent to `ip -d link show`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn links(&self) -> Result<Vec<Link>> {
        let message = without_statistics(LinkMessageBuilder::<LinkUnspec>::new());
        self.dump(message, format_args!("list links"), |answer| {
            link_of(&answer)
        })
    }

    /// Waits, by the kernel's events, until the link is operationally up.
    ///
    /// # Errors
    /// The kernel's, or [`Error::Protocol`] with the link's state when `deadline` has passed.
    pub fn wait_oper_up(&self, index: u32, deadline: Duration) -> Result<()> {
        let mut last = None;
        let concerns = |event: &RouteNetlinkMessage| {
            matches!(event, RouteNetlinkMessage::NewLink(link) | RouteNetlinkMessage::DelLink(link)
                if link.header.index == index)
        };
        let done = self.wait(MulticastGroup::Link, deadline, concerns, || {
            let link = self.link_by_index(index)?;
            let link = link.ok_or_else(|| Error::Protocol(format!("link {index} has vanished")))?;
            let up = link.oper_up;
            last = Some(link);
            Ok(up.then_some(()))
        })?;
        done.ok_or_else(|| {
            let (name, up) = last.map_or_else(Default::default, |link| (link.name, link.up));
            let state = if up { "set up" } else { "set down" };
            let text =
                format!("link {name} is {state} but not operationally up after {deadline:?}");
            Error::Protocol(text)
        })
    }

    fn get_link(
        &self,
        link: LinkMessageBuilder<LinkUnspec>,
        doing: std::fmt::Arguments,
    ) -> Result<Option<Link>> {
        match self.get(without_statistics(link), doing) {
            Err(error) if error.is(Errno::ENODEV) => Ok(None),
            answer => Ok(answer?.as_ref().and_then(link_of)),
        }
    }
}

/// Whether a text can be an interface's name: `dev_valid_name` of the kernel's net/core/dev.c.
pub fn is_name(text: &str) -> bool {
    /// `IFNAMSIZ` of linux/if.h, the terminating NUL included.
    const SIZE: usize = 16;
    let forbidden = |byte: u8| matches!(byte, b'/' | b':' | 0) || is_kernel_space(byte);
    !text.is_empty()
        && text.len() < SIZE
        && text != "."
        && text != ".."
        && !text.bytes().any(forbidden)
}

/// The kernel's `isspace`: that of ASCII, and of Latin-1 the space that does not break.
fn is_kernel_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b || byte == 0xa0
}

/// A request for links, without the counters: most of an answer's bytes.
fn without_statistics(link: LinkMessageBuilder<LinkUnspec>) -> RouteNetlinkMessage {
    let mask = LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]);
    RouteNetlinkMessage::GetLink(link.append_extra_attribute(mask).build())
}

pub(crate) fn link_of(answer: &RouteNetlinkMessage) -> Option<Link> {
    match answer {
        RouteNetlinkMessage::NewLink(message) => Some(Link::from(message)),
        _ => None,
    }
}

impl From<&LinkMessage> for Link {
    fn from(message: &LinkMessage) -> Link {
        let mut link = Link {
            index: message.header.index,
            up: message.header.flags.contains(LinkFlags::Up),
            promiscuous: message.header.flags.contains(LinkFlags::Promisc),
            ..Link::default()
        };
        for attribute in &message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => link.name.clone_from(name),
                LinkAttribute::Address(mac) => link.mac = mac.as_slice().try_into().ok().map(Mac),
                LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
                LinkAttribute::OperState(state) => link.oper_up = *state == State::Up,
                LinkAttribute::Controller(index) => link.master = Some(*index),
                // 0: the other end is gone already.
                LinkAttribute::Link(index) => link.peer = Some(*index).filter(|index| *index != 0),
                LinkAttribute::LinkNetNsId(_) => link.peer_elsewhere = true,
                LinkAttribute::Group(group) => link.group = *group,
                LinkAttribute::IfAlias(alias) => link.alias.clone_from(alias),
                LinkAttribute::TxQueueLen(length) => link.tx_queue = *length,
                LinkAttribute::LinkInfo(infos) => link.read_infos(infos),
                _ => {}
            }
        }
        link
    }
}

impl Link {
    fn read_infos(&mut self, infos: &[LinkInfo]) {
        for info in infos {
            match info {
                LinkInfo::Kind(kind) => self.kind = kind.to_string(),
                LinkInfo::PortData(InfoPortData::BridgePort(infos)) => {
                    self.port = Some(port_flags(infos));
                    self.port_state = port_state(infos);
                }
                LinkInfo::Data(InfoData::Bridge(infos)) => self.vlans = filtering(infos),
                _ => {}
            }
        }
    }
}

/// The kernel tells whether a bridge filters even where it cannot; the PVID only where it can.
fn filtering(infos: &[InfoBridge]) -> Option<Filtering> {
    let default_pvid = infos.iter().find_map(|info| match info {
        InfoBridge::VlanDefaultPvid(id) => Some(*id),
        _ => None,
    })?;
    Some(Filtering {
        on: infos.contains(&InfoBridge::VlanFiltering(true)),
        default_pvid,
    })
}

fn port_flags(infos: &[InfoBridgePort]) -> PortFlags {
    let mut flags = PortFlags::default();
    for info in infos {
        match info {
            InfoBridgePort::HairpinMode(on) => flags.hairpin = *on,
            InfoBridgePort::Isolated(on) => flags.isolated = *on,
            _ => {}
        }
    }
    flags
}

fn port_state(infos: &[InfoBridgePort]) -> Option<PortState> {
    let mut infos = infos.iter();
    let state = infos.find_map(|info| match info {
        InfoBridgePort::State(state) => Some(*state),
        _ => None,
    })?;
    Some(match state {
        BridgePortState::Disabled => PortState::Disabled,
        BridgePortState::Listening => PortState::Listening,
        BridgePortState::Learning => PortState::Learning,
        BridgePortState::Forwarding => PortState::Forwarding,
        BridgePortState::Blocking => PortState::Blocking,
        other => PortState::Other(other.into()),
    })
}

#[cfg(test)]
mod tests {
    use super::is_name;

    #[test]
    fn names_as_the_kernel_takes_them() {
        for name in ["eth0", "a", "eth0.100", "fifteen-bytes-x", "ü", "veth@1"] {
            assert!(is_name(name), "{name}");
        }
        for name in [
            "",
            ".",
            "..",
            "sixteen-bytes-xx",
            "a/b",
            "a:b",
            "a b",
            "a\tb",
            "a\0b",
            "a\n",
        ] {
            assert!(!is_name(name), "{name:?}");
        }
    }
}
