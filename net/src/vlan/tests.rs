use netlink_packet_core::{Emitable, Parseable};

use super::*;

fn bytes_of(message: &LinkMessage) -> Vec<u8> {
    let mut bytes = vec![0; message.buffer_len()];
    message.emit(&mut bytes);
    bytes
}

/// `bridge vlan add dev veth0 vid 100 pvid untagged` sends this as RTM_SETLINK, where the link has
/// the index 5.
#[rustfmt::skip]
const ADD_NATIVE: [u8; 28] = [
    0x07, 0x00, 0x00, 0x00, // ifi_family AF_BRIDGE
    0x05, 0x00, 0x00, 0x00, // ifi_index 5
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // ifi_flags, ifi_change
    0x0c, 0x00, 0x1a, 0x00, // IFLA_AF_SPEC
    0x08, 0x00, 0x02, 0x00, 0x06, 0x00, 0x64, 0x00, // VLAN_INFO: PVID, UNTAGGED, 100
];

/// `bridge vlan add dev veth0 vid 10-20` likewise.
#[rustfmt::skip]
const ADD_RANGE: [u8; 36] = [
    0x07, 0x00, 0x00, 0x00, // ifi_family AF_BRIDGE
    0x05, 0x00, 0x00, 0x00, // ifi_index 5
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // ifi_flags, ifi_change
    0x14, 0x00, 0x1a, 0x00, // IFLA_AF_SPEC
    0x08, 0x00, 0x02, 0x00, 0x08, 0x00, 0x0a, 0x00, // VLAN_INFO: RANGE_BEGIN, 10
    0x08, 0x00, 0x02, 0x00, 0x10, 0x00, 0x14, 0x00, // VLAN_INFO: RANGE_END, 20
];

/// `bridge vlan del dev veth0 vid 1` sends this as RTM_DELLINK.
#[rustfmt::skip]
const DELETE: [u8; 28] = [
    0x07, 0x00, 0x00, 0x00, // ifi_family AF_BRIDGE
    0x05, 0x00, 0x00, 0x00, // ifi_index 5
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // ifi_flags, ifi_change
    0x0c, 0x00, 0x1a, 0x00, // IFLA_AF_SPEC
    0x08, 0x00, 0x02, 0x00, 0x00, 0x00, 0x01, 0x00, // VLAN_INFO: 1
];

/// `bridge -compressvlans vlan show` sends this as RTM_GETLINK.
#[rustfmt::skip]
const LIST: [u8; 24] = [
    0x07, 0x00, 0x00, 0x00, // ifi_family AF_BRIDGE
    0x00, 0x00, 0x00, 0x00, // ifi_index
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // ifi_flags, ifi_change
    0x08, 0x00, 0x1d, 0x00, 0x04, 0x00, 0x00, 0x00, // IFLA_EXT_MASK BRVLAN_COMPRESSED
];

/// What Linux 6.1 answers to it (less the names, addresses and flags of the port), after `bridge
/// vlan add` of 100 as above, of 10-20 and of 7, to a port that came with VLAN 1.
#[rustfmt::skip]
const LISTED: [u8; 68] = [
    0x07, 0x00, 0x01, 0x00, // ifi_family AF_BRIDGE, ifi_type ARPHRD_ETHER
    0x0f, 0x00, 0x00, 0x00, // ifi_index 15
    0x02, 0x10, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // ifi_flags BROADCAST, MULTICAST
    0x08, 0x00, 0x0a, 0x00, 0x0d, 0x00, 0x00, 0x00, // IFLA_MASTER 13
    0x2c, 0x00, 0x1a, 0x00, // IFLA_AF_SPEC
    0x08, 0x00, 0x02, 0x00, 0x04, 0x00, 0x01, 0x00, // VLAN_INFO: UNTAGGED, 1
    0x08, 0x00, 0x02, 0x00, 0x00, 0x00, 0x07, 0x00, // VLAN_INFO: 7
    0x08, 0x00, 0x02, 0x00, 0x08, 0x00, 0x0a, 0x00, // VLAN_INFO: RANGE_BEGIN, 10
    0x08, 0x00, 0x02, 0x00, 0x10, 0x00, 0x14, 0x00, // VLAN_INFO: RANGE_END, 20
    0x08, 0x00, 0x02, 0x00, 0x06, 0x00, 0x64, 0x00, // VLAN_INFO: PVID, UNTAGGED, 100
];

#[test]
fn packed_as_the_bridge_tool_does() {
    assert_eq!(bytes_of(&message(5, &[Vlan::native(100)])), ADD_NATIVE);
    let range: Vec<Vlan> = (10..=20).map(Vlan::tagged).collect();
    assert_eq!(bytes_of(&message(5, &range)), ADD_RANGE);
    assert_eq!(bytes_of(&message(5, &[Vlan::tagged(1)])), DELETE);
    let RouteNetlinkMessage::GetLink(list) = list_message() else {
        panic!("a list is asked for by RTM_GETLINK");
    };
    assert_eq!(bytes_of(&list), LIST);
}

#[test]
fn a_list_is_read_as_the_kernel_wrote_it() {
    let link = LinkMessage::parse(&LISTED).expect("parse");
    let untagged = Vlan {
        pvid: false,
        ..Vlan::native(1)
    };
    let mut expected = vec![untagged, Vlan::tagged(7)];
    expected.extend((10..=20).map(Vlan::tagged));
    expected.push(Vlan::native(100));
    assert_eq!(read(&link), expected);
}

#[test]
fn a_range_holds_what_follows_and_is_alike() {
    let packed = |vlans: &[Vlan]| -> Vec<(u16, u16)> {
        let infos = pack(vlans);
        infos.iter().map(|i| (i.flags.bits(), i.vid)).collect()
    };
    let untagged = |id| Vlan {
        untagged: true,
        ..Vlan::tagged(id)
    };
    let tagged = Vlan::tagged;
    assert_eq!(packed(&[]), []);
    assert_eq!(packed(&[tagged(7), tagged(5)]), [(0, 5), (0, 7)]);
    assert_eq!(packed(&[tagged(6), tagged(5)]), [(8, 5), (16, 6)]);
    // The PVID in the midst stands alone.
    let around = [tagged(4), Vlan::native(5), tagged(6)];
    assert_eq!(packed(&around), [(0, 4), (6, 5), (0, 6)]);
    let other_flags = [tagged(4), untagged(5), untagged(6)];
    assert_eq!(packed(&other_flags), [(0, 4), (12, 5), (20, 6)]);
    let all: Vec<Vlan> = (1..=4094).map(tagged).collect();
    assert_eq!(packed(&all), [(8, 1), (16, 4094)]);
}

#[test]
fn a_range_that_never_ends_holds_nothing() {
    let mut link = message(5, &[Vlan::tagged(1), Vlan::tagged(2)]);
    if let Some(LinkAttribute::AfSpecBridge(specs)) = link.attributes.first_mut() {
        specs.truncate(1);
    }
    assert_eq!(read(&link), []);
}
