//! Making, changing and removing links.

use std::fmt::Arguments;
use std::os::fd::{AsFd, AsRawFd};

use netlink_packet_core::{DefaultNla, NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{InfoData, InfoVeth, LinkAttribute, LinkMessage};
use nix::errno::Errno;
use rtnetlink::{LinkBridge, LinkBridgePort, LinkIfb, LinkMessageBuilder, LinkUnspec, LinkVeth};

use super::{Bridge, Mac, PortFlags, Veth, is_name};
use crate::{Error, Netlink, Result};

/// Of linux/if_link.h.
const IFLA_IFALIAS: u16 = 20;

impl Netlink {
    /// Equivalent to `ip link add NAME [address MAC] [mtu MTU] type bridge [vlan_filtering 1]`: it is
    /// down, and what has to be set before it runs can be.
    ///
    /// # Errors
    /// The kernel's; EEXIST where the name is taken, EOPNOTSUPP where it cannot filter by VLAN;
    /// [`Error::InvalidName`].
    pub fn create_bridge(&self, bridge: &Bridge) -> Result<()> {
        self.create(
            bridge_message(bridge),
            &[bridge.name],
            format_args!("create bridge {}", bridge.name),
        )
    }

    /// Equivalent to `ip link add NAME address MAC group GROUP master BRIDGE up type veth peer name
    /// PEER netns NETNS`.
    ///
    /// # Errors
    /// The kernel's; EEXIST where a name is taken; [`Error::InvalidName`].
    pub fn create_veth(&self, veth: &Veth) -> Result<()> {
        let Veth {
            name, peer_name, ..
        } = *veth;
        let doing = format_args!("create veth {name} with peer {peer_name}");
        self.create(veth_message(veth), &[name, peer_name], doing)
    }

    /// Equivalent to `ip link add NAME address MAC group GROUP mtu MTU txqueuelen 0 up type ifb`.
    ///
    /// # Errors
    /// The kernel's; EEXIST where the name is taken; [`Error::InvalidName`].
    pub fn create_ifb(&self, name: &str, mac: Option<Mac>, group: u32, mtu: u32) -> Result<()> {
        let link = LinkIfb::new(name).link_group(group).txqueuelen(0).up();
        let message = with_basics(link, mac, Some(mtu)).build();
        self.create(message, &[name], format_args!("create ifb {name}"))
    }

    /// Equivalent to `ip link set dev INDEX up`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_up(&self, index: u32) -> Result<()> {
        let link = LinkUnspec::new_with_index(index).up();
        self.set(link.build(), format_args!("set link {index} up"))
    }

    /// Equivalent to `ip link set dev INDEX down`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_down(&self, index: u32) -> Result<()> {
        let link = LinkUnspec::new_with_index(index).down();
        self.set(link.build(), format_args!("set link {index} down"))
    }

    /// Equivalent to `ip link set dev INDEX master BRIDGE`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_master(&self, index: u32, bridge: u32) -> Result<()> {
        let link = LinkUnspec::new_with_index(index).controller(bridge);
        self.set(
            link.build(),
            format_args!("make link {index} a port of link {bridge}"),
        )
    }

    /// Equivalent to `ip link set dev INDEX promisc on`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_promiscuous(&self, index: u32) -> Result<()> {
        let link = LinkUnspec::new_with_index(index).promiscuous(true);
        self.set(link.build(), format_args!("set link {index} promiscuous"))
    }

    /// Equivalent to `ip link set dev INDEX address MAC`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_mac(&self, index: u32, mac: Mac) -> Result<()> {
        let link = LinkUnspec::new_with_index(index).address(mac.0.to_vec());
        self.set(
            link.build(),
            format_args!("set address of link {index} to {mac}"),
        )
    }

    /// Has the kernel tell the link's neighbours its MAC once more, by an ARP announcement (RFC
    /// 5227, section 2.3) for each IPv4 address and an unsolicited advertisement (RFC 4861, section
    /// 7.2.6) for each IPv6 address: those of which `net.ipv4.conf.NAME.arp_notify` and
    /// `net.ipv6.conf.NAME.ndisc_notify` are on. Equivalent to `ip link set dev INDEX broadcast
    /// ff:ff:ff:ff:ff:ff`, which changes nothing of an Ethernet link and is followed by that.
    ///
    /// A packet socket would do without sysctls, but its end takes the kernel many milliseconds
    /// (`packet_release` of net/packet/af_packet.c waits for every CPU).
    ///
    /// # Errors
    /// The kernel's.
    pub fn announce(&self, index: u32) -> Result<()> {
        let link = LinkUnspec::new_with_index(index).broadcast(vec![0xff; 6]);
        self.set(link.build(), format_args!("announce link {index}"))
    }

    /// Equivalent to `ip link set dev INDEX alias TEXT`; at most 255 bytes.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_alias(&self, index: u32, alias: &str) -> Result<()> {
        // Not the builder's, which counts a NUL that leaves room for 254 bytes only.
        let alias_attribute = DefaultNla::new(IFLA_IFALIAS, alias.as_bytes().to_vec());
        let link = LinkUnspec::new_with_index(index)
            .append_extra_attribute(LinkAttribute::Other(alias_attribute));
        self.set(
            link.build(),
            format_args!("set alias of link {index} to {alias:?}"),
        )
    }

    /// Equivalent to `ip link set dev INDEX type bridge_slave hairpin … isolated …`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_port(&self, index: u32, flags: PortFlags) -> Result<()> {
        let port = LinkBridgePort::new(index)
            .hairpin(flags.hairpin)
            .isolated(flags.isolated);
        // Not SETLINK, which ignores a port's flags.
        let message = RouteNetlinkMessage::NewLink(port.build());
        self.change(
            message,
            0,
            format_args!("set bridge port flags of link {index}"),
        )
    }

    /// Equivalent to `ip link del dev INDEX`; true where there was one.
    ///
    /// # Errors
    /// The kernel's; that there is none is not one.
    pub fn delete_link(&self, index: u32) -> Result<bool> {
        let message = LinkUnspec::new_with_index(index).build();
        let message = RouteNetlinkMessage::DelLink(message);
        match self.change(message, 0, format_args!("delete link {index}")) {
            Err(error) if error.is(Errno::ENODEV) => Ok(false),
            result => result.map(|()| true),
        }
    }

    fn create(&self, message: LinkMessage, names: &[&str], doing: Arguments) -> Result<()> {
        if let Some(name) = names.iter().find(|name| !is_name(name)) {
            return Err(Error::InvalidName((*name).to_owned()));
        }
        self.change(
            RouteNetlinkMessage::NewLink(message),
            NLM_F_CREATE | NLM_F_EXCL,
            doing,
        )
    }

    fn set(&self, message: LinkMessage, doing: Arguments) -> Result<()> {
        self.change(RouteNetlinkMessage::SetLink(message), 0, doing)
    }
}

/// Adds what each kind of link can be given when it is made.
fn with_basics<T>(
    mut link: LinkMessageBuilder<T>,
    mac: Option<Mac>,
    mtu: Option<u32>,
) -> LinkMessageBuilder<T> {
    if let Some(mac) = mac {
        link = link.address(mac.0.to_vec());
    }
    if let Some(mtu) = mtu {
        link = link.mtu(mtu);
    }
    link
}

fn bridge_message(bridge: &Bridge) -> LinkMessage {
    let mut link = LinkMessageBuilder::<LinkBridge>::new(bridge.name);
    if bridge.vlan_filtering {
        link = link.vlan_filtering(true);
    }
    with_basics(link, bridge.mac, bridge.mtu).build()
}

/// Both ends in one message. The peer stays down: the kernel refuses one that is to be up.
fn veth_message(veth: &Veth) -> LinkMessage {
    let peer = LinkMessageBuilder::<LinkUnspec>::new()
        .name(veth.peer_name)
        .setns_by_fd(veth.peer_netns.as_fd().as_raw_fd());
    let peer = with_basics(peer, veth.peer_mac, veth.mtu).build();
    let mut link = LinkVeth::new(veth.name, veth.peer_name)
        .set_info_data(InfoData::Veth(InfoVeth::Peer(peer)))
        .link_group(veth.group)
        .up();
    if let Some(bridge) = veth.master {
        link = link.controller(bridge);
    }
    with_basics(link, veth.mac, veth.mtu).build()
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::Emitable;

    use super::*;

    /// `ip link add br1 type bridge vlan_filtering 1` sends this as RTM_NEWLINK, but that it does
    /// not count the NUL after the kind.
    #[rustfmt::skip]
    const FILTERING_BRIDGE: [u8; 52] = [
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // ifi_family, ifi_type, ifi_index
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // ifi_flags, ifi_change
        0x08, 0x00, 0x03, 0x00, 0x62, 0x72, 0x31, 0x00, // IFLA_IFNAME br1
        0x1c, 0x00, 0x12, 0x00, // IFLA_LINKINFO
        0x0b, 0x00, 0x01, 0x00, 0x62, 0x72, 0x69, 0x64, 0x67, 0x65, 0x00, 0x00, // bridge
        0x0c, 0x00, 0x02, 0x00, // IFLA_INFO_DATA
        0x05, 0x00, 0x07, 0x00, 0x01, 0x00, 0x00, 0x00, // IFLA_BR_VLAN_FILTERING 1
    ];

    #[test]
    fn a_filtering_bridge_is_packed_as_ip_does() {
        let message = bridge_message(&Bridge {
            name: "br1",
            mac: None,
            mtu: None,
            vlan_filtering: true,
        });
        let mut bytes = vec![0; message.buffer_len()];
        message.emit(&mut bytes);
        assert_eq!(bytes, FILTERING_BRIDGE);
    }
}
