use netlink_packet_core::{Emitable, NlaBuffer, NlasIterator, Parseable};
use netlink_packet_netfilter::nftables::{ExpressionAttribute, ListAttribute};

use super::Field::{Destination, Port, Protocol as Number, Source};
use super::*;
use crate::rule::Family::{V4, V6};

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

type Case = (fn() -> Part, &'static str, &'static str);

/// Each part, its line in `nft`, and the bytes that `nft` 1.0.6 sends for the line: the elements of
/// `NFTA_RULE_EXPRESSIONS`, one expression a row. Left out are the numbers of sets of the same batch.
#[cfg(target_endian = "little")]
const CASES: &[Case] = &[
    (
        || to_local(),
        "fib daddr type local",
        "2800018008000100666962001c000280080003000000000208000200000000030800010000000001 \
             2c00018008000100636d700020000280080001000000000108000200000000000c0003800800010002000000",
    ),
    (
        || is_in(V4, &[Source, Destination], "inside", true),
        "ip saddr . ip daddr != @inside",
        "340001800c0001007061796c6f6164002400028008000100000000010800020000000001080003000000000c0800040000000004 \
             340001800c0001007061796c6f616400240002800800010000000009080002000000000108000300000000100800040000000004 \
             300001800b0001006c6f6f6b757000002000028008000200000000010b000100696e7369646500000800050000000001",
    ),
    (
        || has_mark(0x2000),
        "meta mark & 0x00002000 == 0x00002000",
        "24000180090001006d657461000000001400028008000200000000030800010000000001 \
             4c0001800c00010062697477697365003c00028008000100000000010800020000000001080006000000000008000300000000040c00048008000100002000000c0005800800010000000000 \
             2c00018008000100636d700020000280080001000000000108000200000000000c0003800800010000200000",
    ),
    (
        || net_is(Source, net("127.0.0.1/32"), false),
        "ip saddr 127.0.0.1",
        "340001800c0001007061796c6f6164002400028008000100000000010800020000000001080003000000000c0800040000000004 \
             2c00018008000100636d700020000280080001000000000108000200000000000c000380080001007f000001",
    ),
    (
        || net_is(Destination, net("224.0.0.0/4"), true),
        "ip daddr != 224.0.0.0/4",
        "340001800c0001007061796c6f616400240002800800010000000001080002000000000108000300000000100800040000000004 \
             440001800c0001006269747769736500340002800800010000000001080002000000000108000300000000040c00048008000100f00000000c0005800800010000000000 \
             2c00018008000100636d700020000280080001000000000108000200000000010c00038008000100e0000000",
    ),
    (
        || input_is("eth*", false),
        "iifname \"eth*\"",
        "24000180090001006d657461000000001400028008000200000000060800010000000001 \
             2c00018008000100636d700020000280080001000000000108000200000000000c0003800700010065746800",
    ),
    (
        || input_is("eth0", true),
        "iifname != \"eth0\"",
        "24000180090001006d657461000000001400028008000200000000060800010000000001 \
             3800018008000100636d70002c00028008000100000000010800020000000001180003801400010065746830000000000000000000000000",
    ),
    (
        || port_is(Protocol::Tcp, 8080),
        "tcp dport 8080",
        "24000180090001006d657461000000001400028008000200000000100800010000000001 \
             2c00018008000100636d700020000280080001000000000108000200000000000c0003800500010006000000 \
             340001800c0001007061796c6f616400240002800800010000000001080002000000000208000300000000020800040000000002 \
             2c00018008000100636d700020000280080001000000000108000200000000000c000380060001001f900000",
    ),
    (
        || net_is(Destination, net("ff00::/8"), true),
        "ip6 daddr != ff00::/8",
        "340001800c0001007061796c6f616400240002800800010000000001080002000000000108000300000000180800040000000001 \
             2c00018008000100636d700020000280080001000000000108000200000000010c00038005000100ff000000",
    ),
    (
        || net_is(Source, net("fd00::2/128"), false),
        "ip6 saddr fd00::2",
        "340001800c0001007061796c6f616400240002800800010000000001080002000000000108000300000000080800040000000010 \
             3800018008000100636d70002c000280080001000000000108000200000000001800038014000100fd000000000000000000000000000002",
    ),
    (
        || jump("d"),
        "jump d",
        "380001800e000100696d6d656469617465000000240002800800010000000000180002801400028008000100fffffffd0600020064000000",
    ),
    (
        || dnat_by(V4, &[Destination, Number, Port], "address_ports"),
        "dnat ip to ip daddr . meta l4proto . th dport map @address_ports",
        "340001800c0001007061796c6f616400240002800800010000000001080002000000000108000300000000100800040000000004 \
             24000180090001006d657461000000001400028008000200000000100800010000000009 \
             340001800c0001007061796c6f61640024000280080001000000000a080002000000000208000300000000020800040000000002 \
             380001800b0001006c6f6f6b75700000280002800800020000000001080003000000000112000100616464726573735f706f727473000000 \
             30000180080001006e617400240002800800010000000001080002000000000208000300000000010800050000000009",
    ),
    (
        || dnat_to("10.1.2.2".parse().unwrap(), 80),
        "dnat to 10.1.2.2:80",
        "2c0001800e000100696d6d6564696174650000001800028008000100000000010c000280080001000a010202 \
             2c0001800e000100696d6d6564696174650000001800028008000100000000020c0002800600010000500000 \
             38000180080001006e6174002c00028008000100000000010800020000000002080003000000000108000500000000020800070000000002",
    ),
    (
        || masquerade(),
        "masquerade",
        "14000180090001006d6173710000000004000280",
    ),
    (
        || set_mark(0x2000),
        "meta mark set meta mark | 0x00002000",
        "24000180090001006d657461000000001400028008000200000000030800010000000001 \
             4c0001800c00010062697477697365003c00028008000100000000010800020000000001080006000000000008000300000000040c00048008000100ffdfffff0c0005800800010000200000 \
             24000180090001006d657461000000001400028008000200000000030800030000000001",
    ),
    (
        || verdict_of(V4, &[Number, Port, Source], "sources"),
        "meta l4proto . th dport . ip saddr vmap @sources",
        "24000180090001006d657461000000001400028008000200000000100800010000000001 \
             400001800e000100627974656f726465720000002c00028008000100000000010800020000000001080003000000000108000400000000010800050000000002 \
             340001800c0001007061796c6f616400240002800800010000000009080002000000000208000300000000020800040000000002 \
             340001800c0001007061796c6f61640024000280080001000000000a0800020000000001080003000000000c0800040000000004 \
             300001800b0001006c6f6f6b7570000020000280080002000000000108000300000000000c000100736f757263657300",
    ),
    (
        || dnat_by(V6, &[Number, Port], "ports"),
        "dnat ip6 to meta l4proto . th dport map @ports",
        "24000180090001006d657461000000001400028008000200000000100800010000000001 \
             340001800c0001007061796c6f616400240002800800010000000009080002000000000208000300000000020800040000000002 \
             300001800b0001006c6f6f6b7570000020000280080002000000000108000300000000010a000100706f727473000000 \
             30000180080001006e617400240002800800010000000001080002000000000a08000300000000010800050000000002",
    ),
    (
        || dnat_to("fd00::2".parse().unwrap(), 80),
        "dnat to [fd00::2]:80",
        "380001800e000100696d6d6564696174650000002400028008000100000000011800028014000100fd000000000000000000000000000002 \
             2c0001800e000100696d6d6564696174650000001800028008000100000000020c0002800600010000500000 \
             38000180080001006e6174002c0002800800010000000001080002000000000a080003000000000108000500000000020800070000000002",
    ),
];

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<_> = hex.split_whitespace().collect::<String>().into_bytes();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

fn encode(part: &Part) -> Vec<u8> {
    let expressions = part.expressions.iter().cloned().map(Expressions::into);
    let list: Vec<ListAttribute<ExpressionAttribute>> = expressions.collect();
    let mut bytes = vec![0; list.as_slice().buffer_len()];
    list.as_slice().emit(&mut bytes);
    bytes
}

fn decode(bytes: &[u8]) -> Vec<Expressions> {
    let element = |nla: NlaBuffer<&[u8]>| ListAttribute::parse(&nla).unwrap();
    NlasIterator::new(bytes)
        .map(|nla| crate::nft::listing::read_expression(element(nla.unwrap())).unwrap())
        .collect()
}

#[cfg(target_endian = "little")]
#[test]
fn what_nft_sends_is_recognised_and_what_we_send_is_the_same() {
    for (part, line, nft) in CASES {
        let part = part();
        assert_eq!(part.text, *line);
        let nft = bytes(nft);
        assert!(are(&decode(&nft), &part.expressions), "{line}");
        let ours = encode(&part);
        assert_eq!(decode(&ours), part.expressions, "{line}");
        // Beside what `nft` says of a default, and of nothing.
        let more = [" & ", " | ", "dnat to 10", "dnat to [", "vmap @sources"];
        let more = more.iter().any(|words| line.contains(words));
        assert_eq!(ours == nft, !more, "{line}");
    }
}

#[test]
fn another_expression_is_told_apart() {
    let parts = [
        jump("a"),
        jump("b"),
        to_local(),
        is_in(V4, &[Source], "a", false),
        is_in(V4, &[Source], "a", true),
        is_in(V4, &[Source], "b", false),
        is_in(V4, &[Destination], "a", false),
        is_in(V6, &[Source], "a", false),
        verdict_of(V4, &[Source], "a"),
        dnat_by(V4, &[Source], "a"),
        dnat_to("10.0.0.1".parse().unwrap(), 1),
        dnat_to("10.0.0.1".parse().unwrap(), 2),
        dnat_to("10.0.0.2".parse().unwrap(), 1),
        masquerade(),
        set_mark(1),
        set_mark(2),
        has_mark(1),
        net_is(Source, net("10.0.0.0/8"), false),
        net_is(Source, net("10.0.0.0/9"), false),
        net_is(Source, net("10.0.0.0/8"), true),
        net_is(Destination, net("10.0.0.0/8"), false),
        input_is("eth1", false),
        input_is("eth1*", false),
        port_is(Protocol::Tcp, 1),
        port_is(Protocol::Tcp, 256),
        port_is(Protocol::Udp, 1),
    ];
    for (i, one) in parts.iter().enumerate() {
        for (j, other) in parts.iter().enumerate() {
            let same = are(&one.expressions, &other.expressions);
            assert_eq!(same, i == j, "{} / {}", one.text, other.text);
        }
    }
    assert!(!are(&[], &masquerade().expressions));
}

#[test]
fn registers_follow_each_other_as_the_kernel_numbers_them() {
    let numbers: Vec<u32> = (0..6).map(|word| register(word).into()).collect();
    assert_eq!(numbers, [1, 9, 10, 11, 2, 13]);
}
