//! VLANs of the ports of a bridge. They count once the bridge filters by VLAN.

use std::fmt::Arguments;

use netlink_packet_route::link::{
    AfSpecBridge, BridgeVlanInfo, BridgeVlanInfoFlags, LinkAttribute, LinkExtentMask, LinkMessage,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rtnetlink::{LinkBridgeVlan, LinkMessageBuilder, LinkUnspec};

use crate::{Netlink, Result};

/// A VLAN that a port is a member of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vlan {
    /// VLAN id, 1 to 4094.
    pub id: u16,
    /// Untagged frames that come in by the port are of it (`BRIDGE_VLAN_INFO_PVID`).
    pub pvid: bool,
    /// Its frames leave by the port without a tag (`BRIDGE_VLAN_INFO_UNTAGGED`).
    pub untagged: bool,
}

impl Vlan {
    /// Frames carry the VLAN's tag.
    pub fn tagged(id: u16) -> Vlan {
        Vlan {
            id,
            pvid: false,
            untagged: false,
        }
    }

    /// Frames that carry no tag are of this VLAN, in both directions.
    pub fn native(id: u16) -> Vlan {
        Vlan {
            id,
            pvid: true,
            untagged: true,
        }
    }
}

impl Netlink {
    /// Makes the port a member of each, with these flags and no others. Equivalent to
    /// `bridge vlan add dev INDEX vid ID … [pvid] [untagged]`, all by one message.
    ///
    /// # Errors
    /// The kernel's; EOPNOTSUPP where it cannot filter by VLAN, or the link is no port.
    pub fn add_vlans(&self, port: u32, vlans: &[Vlan]) -> Result<()> {
        let message = RouteNetlinkMessage::SetLink(message(port, vlans));
        self.change_vlans(vlans, message, format_args!("add VLANs to port {port}"))
    }

    /// Equivalent to `bridge vlan del dev INDEX vid ID …`, all by one message. That the port is no
    /// member is no error.
    ///
    /// # Errors
    /// The kernel's.
    pub fn delete_vlans(&self, port: u32, ids: &[u16]) -> Result<()> {
        let vlans: Vec<Vlan> = ids.iter().map(|id| Vlan::tagged(*id)).collect();
        let message = RouteNetlinkMessage::DelLink(message(port, &vlans));
        let doing = format_args!("delete VLANs from port {port}");
        self.change_vlans(&vlans, message, doing)
    }

    /// The port's VLANs, by ascending id. Equivalent to `bridge -compressvlans vlan show dev INDEX`.
    /// The kernel lists those of all ports, and cannot be asked for one.
    ///
    /// # Errors
    /// The kernel's; that there is no such port is not one.
    pub fn vlans(&self, port: u32) -> Result<Vec<Vlan>> {
        let vlans = self.dump(list_message(), format_args!("list VLANs"), |answer| {
            let RouteNetlinkMessage::NewLink(link) = answer else {
                return None;
            };
            (link.header.index == port).then(|| read(&link))
        })?;
        Ok(vlans.into_iter().flatten().collect())
    }

    fn change_vlans(
        &self,
        vlans: &[Vlan],
        message: RouteNetlinkMessage,
        doing: Arguments,
    ) -> Result<()> {
        if vlans.is_empty() {
            return Ok(());
        }
        self.change(message, 0, doing)
    }
}

/// A change of the port's membership. Without `IFLA_BRIDGE_FLAGS` it is meant for the port's
/// bridge, as with `BRIDGE_FLAGS_MASTER`.
fn message(port: u32, vlans: &[Vlan]) -> LinkMessage {
    let infos = pack(vlans).into_iter().map(AfSpecBridge::VlanInfo);
    let start = LinkBridgeVlan::new(port);
    infos
        .fold(start, LinkMessageBuilder::append_af_spec)
        .build()
}

fn list_message() -> RouteNetlinkMessage {
    let mask = LinkAttribute::ExtMask(vec![LinkExtentMask::BrvlanCompressed]);
    let all = LinkMessageBuilder::<LinkUnspec>::new()
        .interface_family(AddressFamily::Bridge)
        .append_extra_attribute(mask);
    RouteNetlinkMessage::GetLink(all.build())
}

/// The kernel's form: ids that follow each other are two, the first and the last of a range. It
/// takes no PVID within one.
fn pack(vlans: &[Vlan]) -> Vec<BridgeVlanInfo> {
    let mut sorted = vlans.to_vec();
    sorted.sort_by_key(|vlan| vlan.id);
    let follows = |a: &Vlan, b: &Vlan| {
        let alike = a.untagged == b.untagged && !a.pvid && !b.pvid;
        alike && a.id.checked_add(1) == Some(b.id)
    };
    let mut infos = Vec::new();
    for run in sorted.chunk_by(follows) {
        match run {
            [first, .., last] => {
                infos.push(info(first, BridgeVlanInfoFlags::RangeBegin));
                infos.push(info(last, BridgeVlanInfoFlags::RangeEnd));
            }
            alone => infos.extend(
                alone
                    .iter()
                    .map(|vlan| info(vlan, BridgeVlanInfoFlags::empty())),
            ),
        }
    }
    infos
}

fn info(vlan: &Vlan, more: BridgeVlanInfoFlags) -> BridgeVlanInfo {
    let mut flags = more;
    flags.set(BridgeVlanInfoFlags::Pvid, vlan.pvid);
    flags.set(BridgeVlanInfoFlags::Untagged, vlan.untagged);
    BridgeVlanInfo {
        flags,
        vid: vlan.id,
    }
}

/// The members that a port's message tells.
pub(crate) fn read(link: &LinkMessage) -> Vec<Vlan> {
    let specs = link
        .attributes
        .iter()
        .filter_map(|attribute| match attribute {
            LinkAttribute::AfSpecBridge(specs) => Some(specs),
            _ => None,
        });
    let mut vlans = Vec::new();
    let mut begun = None;
    for spec in specs.flatten() {
        let AfSpecBridge::VlanInfo(info) = spec else {
            continue;
        };
        if info.flags.contains(BridgeVlanInfoFlags::RangeBegin) {
            begun = Some(info.vid);
            continue;
        }
        let first = begun.take().unwrap_or(info.vid);
        vlans.extend((first..=info.vid).map(|id| Vlan {
            id,
            pvid: info.flags.contains(BridgeVlanInfoFlags::Pvid),
            untagged: info.flags.contains(BridgeVlanInfoFlags::Untagged),
        }));
    }
    vlans
}

#[cfg(test)]
mod tests;
