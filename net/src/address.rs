//! Addresses of links.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{
    AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage, AddressScope,
};
use rtnetlink::{AddressMessageBuilder, MulticastGroup};

use crate::{Error, Netlink, Result};

/// An address on a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// With its prefix; host bits kept.
    pub net: IpNet,
    /// `IFA_F_TENTATIVE`: duplicate detection has not ended.
    pub tentative: bool,
    /// `IFA_F_DADFAILED`.
    pub dad_failed: bool,
    /// Scope is global (`RT_SCOPE_UNIVERSE`), not link or host.
    pub global: bool,
}

impl Netlink {
    /// All addresses of a link, of both families. Equivalent to `ip address show dev INDEX`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn addresses(&self, index: u32) -> Result<Vec<Address>> {
        let mut message = AddressMessage::default();
        message.header.index = index;
        let message = RouteNetlinkMessage::GetAddress(message);
        let doing = format_args!("list addresses of link {index}");
        // The kernel filters by index (Linux 4.20), but older ones send all.
        self.dump(message, doing, |answer| match answer {
            RouteNetlinkMessage::NewAddress(message) if message.header.index == index => {
                address(&message)
            }
            _ => None,
        })
    }

    /// The addresses of all links, of both families, each with its link's index. Equivalent to
    /// `ip address show`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn all_addresses(&self) -> Result<Vec<(u32, Address)>> {
        let message = RouteNetlinkMessage::GetAddress(AddressMessage::default());
        self.dump(message, format_args!("list addresses"), |answer| {
            let RouteNetlinkMessage::NewAddress(message) = answer else {
                return None;
            };
            Some((message.header.index, address(&message)?))
        })
    }

    /// Equivalent to `ip address add NET [broadcast +] [nodad] dev INDEX`: an IPv4 address gets
    /// its broadcast address below /31; `nodad` matters to IPv6 only.
    ///
    /// # Errors
    /// The kernel's; EEXIST where it is there.
    pub fn add_address(&self, index: u32, net: IpNet, nodad: bool) -> Result<()> {
        let mut message = address_message(index, net);
        if nodad {
            message.header.flags |= AddressHeaderFlags::Nodad;
        }
        let message = RouteNetlinkMessage::NewAddress(message);
        let doing = format_args!("add address {net} to link {index}");
        self.change(message, NLM_F_CREATE | NLM_F_EXCL, doing)
    }

    /// Equivalent to `ip address del NET dev INDEX`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn delete_address(&self, index: u32, net: IpNet) -> Result<()> {
        let message = RouteNetlinkMessage::DelAddress(address_message(index, net));
        self.change(
            message,
            0,
            format_args!("delete address {net} of link {index}"),
        )
    }

    /// Waits, by the kernel's events, until no address of the link is tentative.
    ///
    /// # Errors
    /// Names the address that failed duplicate detection, or that is still tentative at `deadline`.
    pub fn wait_addresses(&self, index: u32, deadline: Duration) -> Result<()> {
        let mut tentative = Vec::new();
        let concerns = |event: &RouteNetlinkMessage| {
            matches!(event, RouteNetlinkMessage::NewAddress(address)
                | RouteNetlinkMessage::DelAddress(address) if address.header.index == index)
        };
        let done = self.wait(MulticastGroup::Ipv6Ifaddr, deadline, concerns, || {
            let addresses = self.addresses(index)?;
            // First: the kernel keeps a failed address tentative.
            if let Some(failed) = addresses.iter().find(|address| address.dad_failed) {
                let (name, ip) = (self.name_of(index), failed.net.addr());
                let text = format!("link {name} has address {ip} in DADFAILED state");
                return Err(Error::Protocol(text));
            }
            let unsettled = addresses.iter().filter(|address| address.tentative);
            tentative = unsettled
                .map(|address| address.net.addr().to_string())
                .collect();
            Ok(tentative.is_empty().then_some(()))
        })?;
        done.ok_or_else(|| {
            let (name, tentative) = (self.name_of(index), tentative.join(", "));
            let text = format!(
                "link {name} still has tentative addresses after {deadline:?}: {tentative}"
            );
            Error::Protocol(text)
        })
    }

    /// Waits, by the kernel's events, until what is sent to these IPv6 addresses of a link is taken in; whether
    /// it is before `deadline`.
    ///
    /// An address is there before it is in use, also without duplicate detection: the kernel puts off the
    /// work that has it answer to those who ask for it (`addrconf_dad_start` of net/ipv6/addrconf.c), which
    /// ends with its local route. Who asked before asks again after a second.
    ///
    /// # Errors
    /// The kernel's.
    pub fn wait_in_use(
        &self,
        index: u32,
        addresses: &[Ipv6Addr],
        deadline: Duration,
    ) -> Result<bool> {
        let concerns =
            |event: &RouteNetlinkMessage| matches!(event, RouteNetlinkMessage::NewRoute(_));
        let done = self.wait(MulticastGroup::Ipv6Route, deadline, concerns, || {
            for address in addresses {
                if !self.is_local(index, (*address).into())? {
                    return Ok(None);
                }
            }
            Ok(Some(()))
        })?;
        Ok(done.is_some())
    }

    /// For a message: the link's name, or its index where it has vanished.
    fn name_of(&self, index: u32) -> String {
        let link = self.link_by_index(index).ok().flatten();
        link.map_or_else(|| index.to_string(), |link| link.name)
    }
}

/// A loopback address is as the kernel makes it itself: of scope host, so that it is never chosen as
/// the source of what goes elsewhere, and without a broadcast address.
fn address_message(index: u32, net: IpNet) -> AddressMessage {
    let mut message = match net {
        IpNet::V4(net) => AddressMessageBuilder::<Ipv4Addr>::new()
            .index(index)
            .address(net.addr(), net.prefix_len())
            .build(),
        IpNet::V6(net) => AddressMessageBuilder::<Ipv6Addr>::new()
            .index(index)
            .address(net.addr(), net.prefix_len())
            .build(),
    };
    if net.addr().is_loopback() {
        message.header.scope = AddressScope::Host;
        let is_broadcast = |it: &_| matches!(it, AddressAttribute::Broadcast(_));
        message.attributes.retain(|it| !is_broadcast(it));
    }
    message
}

/// `IFA_LOCAL` is the own address where there is one; `IFA_ADDRESS` then is the peer's.
pub(crate) fn address(message: &AddressMessage) -> Option<Address> {
    let mut local: Option<IpAddr> = None;
    let mut other: Option<IpAddr> = None;
    let mut flags = AddressFlags::from_bits_retain(message.header.flags.bits().into());
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Local(ip) => local = Some(*ip),
            AddressAttribute::Address(ip) => other = Some(*ip),
            AddressAttribute::Flags(all) => flags = *all,
            _ => {}
        }
    }
    Some(Address {
        net: IpNet::new(local.or(other)?, message.header.prefix_len).ok()?,
        tentative: flags.contains(AddressFlags::Tentative),
        dad_failed: flags.contains(AddressFlags::Dadfailed),
        global: message.header.scope == AddressScope::Universe,
    })
}
