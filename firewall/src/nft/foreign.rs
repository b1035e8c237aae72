//! Tables that the reference plugins make, of which DEL removes what is the attachment's.

use ipnet::IpNet;
use netlink_packet_netfilter::NetfilterProtoFamily;

use super::listing::FoundRule;
use super::read;
use super::table::TableName;
use crate::Owner;

/// Host ports. The comment of a rule is the container's id.
pub const HOSTPORT: [TableName; 2] = [
    TableName {
        family: NetfilterProtoFamily::IPv4,
        name: "cni_hostport",
    },
    TableName {
        family: NetfilterProtoFamily::IPv6,
        name: "cni_hostport",
    },
];

/// Masquerade, for both families. The comment of a rule begins as ours does.
pub const MASQUERADE: [TableName; 1] = [TableName {
    family: NetfilterProtoFamily::Inet,
    name: "cni_plugins_masquerade",
}];

/// Whether a rule of [`HOSTPORT`] is the attachment's. Its comment names neither network nor
/// interface: for another interface than `eth0` it must be about one of the addresses that the
/// attachment is known to have.
pub fn is_port_of(owner: Owner, addresses: &[IpNet], rule: &FoundRule) -> bool {
    let about = |bytes: &[u8]| {
        let is = |net: &IpNet| super::expr::octets(net.addr()) == bytes;
        addresses.iter().any(is)
    };
    rule.comment == owner.container_id
        && (owner.ifname == "eth0" || read::values(&rule.expressions).any(about))
}
