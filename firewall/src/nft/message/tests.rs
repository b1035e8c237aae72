use netlink_packet_core::{Emitable, NLA_TYPE_MASK, NlasIterator};

use super::*;
use crate::Owner;
use crate::hostport::{HostPorts, Mark};
use crate::nft::expr::jump_verdict;
use crate::nft::hostport::want;
use crate::nft::listing::read_elements;
use crate::nft::table::{Entry, Table, key};
use crate::nft::tag::Tag;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<_> = hex.split_whitespace().collect::<String>().into_bytes();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// Kinds and values of a message's attributes.
fn attributes(bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
    NlasIterator::new(bytes)
        .map(|nla| nla.unwrap())
        .map(|nla| (nla.kind() & NLA_TYPE_MASK, nla.value().to_vec()))
        .collect()
}

fn sent(message: &Message) -> Vec<(u16, Vec<u8>)> {
    let mut bytes = vec![0; message.body.buffer_len()];
    message.body.emit(&mut bytes);
    attributes(&bytes)
}

/// The table with the chain `from_10.1.2.0/24_0x2000`.
fn hostports() -> Table {
    let addresses = ["10.1.2.2/24".parse().unwrap()];
    let ports = HostPorts {
        mappings: &[],
        addresses: &addresses,
        snat: true,
        masq_all: false,
        mark: Mark::Bit(13),
        conditions_v4: &[],
        conditions_v6: &[],
    };
    let tag = Tag::of(OWNER);
    want(&tag, &ports, Family::V4, |_| false).unwrap().table
}

const OWNER: Owner = Owner {
    network: "mynet",
    container_id: "cont1",
    ifname: "eth0",
};

/// What `nft` 1.0.6 sends has all that we send; beside it the line for `nft`. The numbers of sets
/// within a batch are left out.
fn is_part_of(message: &Message, nft: &str, line: &str) {
    let nft = attributes(&bytes(nft));
    let ours = sent(message);
    assert!(!ours.is_empty());
    for attribute in &ours {
        assert!(
            nft.contains(attribute),
            "{line}: {attribute:x?} of {nft:x?}"
        );
    }
}

const TABLE: &str = "16000100 636e695f6c6974655f686f7374706f7274000000";

#[test]
fn tables_chains_and_sets_are_made_as_nft_does() {
    let hostports = hostports();
    let name = hostports.name;
    is_part_of(
        &name.add(),
        &format!("{TABLE} 0800020000000000"),
        "add table ip cni_lite_hostport",
    );
    let chain = |name: &str| {
        hostports
            .chains
            .iter()
            .find(|chain| chain.name == name)
            .unwrap()
    };
    is_part_of(
        &name.add_chain(chain("prerouting")),
        &format!(
            "{TABLE} 0f000300 707265726f7574696e670000 08000700 6e617400 0800050000000001
             14000480 0800010000000000 08000200ffffff9c"
        ),
        "add chain … prerouting { type nat hook prerouting priority dstnat; policy accept; }",
    );
    is_part_of(
        &name.add_chain(chain("from_10.1.2.0/24_0x2000")),
        &format!("{TABLE} 1c000300 66726f6d5f31302e312e322e302f32345f30783230303000"),
        "add chain … from_10.1.2.0/24_0x2000",
    );
}

#[test]
fn chains_of_bridges_are_made_and_deleted_as_nft_does() {
    const NAT: &str = "08000100 6e617400";
    let table = crate::nft::macspoof::TABLE;
    assert_eq!(u8::from(table.family), 7);
    let c = format!("{NAT} 06000300 63000000");
    for (message, nft, line) in [
        (
            table.add_chain(&crate::nft::macspoof::shared()),
            format!(
                "{NAT} 0f000300 505245524f5554494e470000 0b000700 66696c7465720000
                 0800050000000001 14000480 0800010000000000 08000200fffffed4"
            ),
            "add chain bridge nat PREROUTING { type filter hook prerouting priority -300; }",
        ),
        (
            table.create_chain("c", "abc"),
            format!("{c} 0a000c00 0004616263000000"),
            "create chain bridge nat c { comment \"abc\"; }",
        ),
        (table.delete_chain("c"), c, "delete chain bridge nat c"),
        (
            table.get_rules_in("c"),
            format!("{NAT} 06000200 63000000"),
            "the rules of: list chain bridge nat c",
        ),
    ] {
        is_part_of(&message, &nft, line);
    }
}

#[cfg(target_endian = "little")]
#[test]
fn sets_are_made_as_nft_does() {
    let hostports = hostports();
    let set = |name: &str| hostports.sets.iter().find(|set| set.name == name).unwrap();
    for (name, id, nft, line) in [
        (
            "attachments",
            1,
            "10000200 6174746163686d656e747300 0800030000000000 0800040000000029 0800050000000010
             08000a0000000001 0a000d00 0004010000000000",
            "add set … attachments { type ifname; }",
        ),
        (
            "address_sources",
            2,
            "14000200 616464726573735f736f757263657300 0800030000000008 080004000000730d
             080005000000000c 08000600ffffff00 0800070000000000 08000a0000000002",
            "add map … address_sources { type ipv4_addr . inet_proto . inet_service : verdict; }",
        ),
        (
            "ports",
            3,
            "0a000200 706f727473000000 0800030000000008 080004000000030d 0800050000000008
             08000600000001cd 0800070000000008 08000a0000000003",
            "add map … ports { type inet_proto . inet_service : ipv4_addr . inet_service; }",
        ),
    ] {
        let message = hostports.name.add_set(Family::V4, set(name), id);
        is_part_of(&message, &format!("{TABLE} {nft}"), line);
    }
}

#[test]
fn elements_are_made_and_read_as_nft_does() {
    let tcp_8080 = key([&[6][..], &8080_u16.to_be_bytes()[..]]);
    let tag = Tag::of(OWNER);
    let entry = |set: &str, key, value| Entry {
        set: set.to_owned(),
        key,
        value,
        comment: "c".to_owned(),
    };
    let target = DataAttribute::Value(vec![10, 1, 2, 2, 0, 80, 0, 0]);
    for (entry, nft, line) in [
        (
            entry("attachments", tag.element().entry.key, None),
            "10000200 6174746163686d656e747300 0800040000000001
             28000380 24000180 18000180 14000100 61323865373531613831646131633600 08000600 00026300",
            "attachments { \"a28e751a81da1c6\" comment \"c\" }",
        ),
        (
            entry("ports", tcp_8080.clone(), Some(target)),
            "0a000200 706f727473000000 0800040000000003
             30000380 2c000180 10000180 0c000100 060000001f900000 10000280 0c000100 0a01020200500000
             08000600 00026300",
            "ports { tcp . 8080 comment \"c\" : 10.1.2.2 . 80 }",
        ),
        (
            entry(
                "address_sources",
                [&[192, 0, 2, 1][..], &tcp_8080].concat(),
                Some(jump_verdict("from_10.1.2.0/24_0x2000")),
            ),
            "14000200 616464726573735f736f757263657300 0800040000000002
             50000380 4c000180 14000180 10000100 c0000201060000001f900000
             2c000280 28000280 08000100fffffffd
             1c000200 66726f6d5f31302e312e322e302f32345f30783230303000 08000600 00026300",
            "address_sources { 192.0.2.1 . tcp . 8080 comment \"c\" : jump from_10.1.2.0/24_0x2000 }",
        ),
    ] {
        let nft = format!("{TABLE} {nft}");
        let messages = hostports().name.create_elements(&[&entry]);
        assert_eq!(messages.len(), 1);
        is_part_of(&messages[0], &nft, line);
        assert_eq!(read_elements(&bytes(&nft)), [entry], "{line}");
    }
}

#[test]
fn questions_are_as_nft_asks_them() {
    let name = hostports().name;
    is_part_of(&name.get(), TABLE, "list table ip cni_lite_hostport");
    is_part_of(
        &name.get_chain("c"),
        &format!("{TABLE} 06000300 63000000"),
        "list chain … c",
    );
    assert_eq!(sent(&name.get_chains_of_family()), []);
}

#[test]
fn many_elements_are_spread_over_messages() {
    let name = hostports().name;
    let entries: Vec<_> = (0..1000_u16)
        .map(|port| Entry {
            set: if port % 2 == 0 { "ports" } else { "sources" }.to_owned(),
            key: vec![0; 24],
            value: Some(jump_verdict(&"x".repeat(50))),
            comment: "x".repeat(127),
        })
        .collect();
    let entries: Vec<_> = entries.iter().collect();
    for messages in [
        name.create_elements(&entries),
        name.delete_elements(&entries),
    ] {
        assert_eq!(messages.len(), 8);
        for message in messages {
            for (_, value) in sent(&message) {
                assert!(value.len() < usize::from(u16::MAX));
            }
        }
    }
    assert_eq!(name.create_elements(&[]), []);
}

#[test]
fn comments_are_kept_as_nft_does() {
    assert_eq!(user_data("abc"), [0, 4, b'a', b'b', b'c', 0]);
    assert_eq!(comment(&user_data("abc")), "abc");
    // Others may keep more beside it.
    assert_eq!(comment(&[1, 2, 9, 9, 0, 2, b'x', 0]), "x");
    for broken in [&[][..], &[0], &[0, 9, b'x'], &[1, 200]] {
        assert!(comment(broken).len() <= 1);
    }
}
