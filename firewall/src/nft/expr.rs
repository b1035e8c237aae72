//! Parts of rules: expressions as the kernel takes and lists them, each with its words in `nft`.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use netlink_packet_core::DefaultNla;
use netlink_packet_netfilter::nftables::{
    Bitwise, Cmp, DataAttribute, Expressions, Immediate, Lookup, Meta, MetaKey, Operator, Register,
    Verdict, VerdictAttribute,
};

use super::field::{Field, first, meta, register, source_mac};
use super::table::proto_family;
use crate::hostport::Protocol;
use crate::rule::Family;

/// Part of a rule, or all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// As `nft` prints it.
    pub text: String,
    /// As the kernel runs it.
    pub expressions: Vec<Expressions>,
}

impl Part {
    fn new(text: impl Into<String>, expressions: impl Into<Vec<Expressions>>) -> Part {
        Part {
            text: text.into(),
            expressions: expressions.into(),
        }
    }

    /// The parts behind each other.
    pub fn all(parts: impl IntoIterator<Item = Part>) -> Part {
        let mut texts = Vec::new();
        let mut expressions = Vec::new();
        for part in parts {
            texts.push(part.text);
            expressions.extend(part.expressions);
        }
        Part::new(texts.join(" "), expressions)
    }
}

fn compare(operator: Operator, value: impl Into<Vec<u8>>) -> Expressions {
    Expressions::Cmp(vec![
        Cmp::SourceRegister(first()),
        Cmp::Op(operator),
        Cmp::Data(DataAttribute::Value(value.into())),
    ])
}

fn equality(inverted: bool) -> (Operator, &'static str) {
    if inverted {
        (Operator::NotEqual, "!= ")
    } else {
        (Operator::Equal, "")
    }
}

/// `register & mask ^ xor`.
fn bitwise(mask: Vec<u8>, xor: Vec<u8>) -> Expressions {
    Expressions::Bitwise(vec![
        Bitwise::SourceRegister(first()),
        Bitwise::DestinationRegister(first()),
        Bitwise::Length(u32::try_from(mask.len()).unwrap_or(u32::MAX)),
        Bitwise::Mask(DataAttribute::Value(mask)),
        Bitwise::Xor(DataAttribute::Value(xor)),
    ])
}

fn immediate(to: Register, value: Vec<u8>) -> Expressions {
    Expressions::Immediate(vec![
        Immediate::DestinationRegister(to),
        Immediate::Data(DataAttribute::Value(value)),
    ])
}

fn lookup(map: &str, to: Register) -> Expressions {
    Expressions::Lookup(vec![
        Lookup::SourceRegister(first()),
        Lookup::DestinationRegister(to),
        Lookup::Set(map.to_owned()),
    ])
}

fn other(name: &str, attributes: &[(u16, u32)]) -> Expressions {
    let attribute = |(kind, value): &(u16, u32)| DefaultNla::new(*kind, value.to_be_bytes().into());
    Expressions::Other {
        expression_type: name.to_owned(),
        attributes: attributes.iter().map(attribute).collect(),
    }
}

/// The verdict that jumps to a chain, also as the value of a map's element.
pub fn jump_verdict(chain: &str) -> DataAttribute {
    DataAttribute::Verdict(vec![
        VerdictAttribute::Code(Verdict::Jump),
        VerdictAttribute::Chain(chain.to_owned()),
    ])
}

/// `jump CHAIN`.
pub fn jump(chain: &str) -> Part {
    verdict(format!("jump {chain}"), jump_verdict(chain))
}

/// `return`: back to the rule behind the jump.
pub fn back() -> Part {
    let back = vec![VerdictAttribute::Code(Verdict::Return)];
    verdict("return", DataAttribute::Verdict(back))
}

/// `drop`.
pub fn drop_it() -> Part {
    /// Of linux/netfilter.h.
    const NF_DROP: u32 = 0;
    let drop = vec![VerdictAttribute::Code(Verdict::Other(NF_DROP))];
    verdict("drop", DataAttribute::Verdict(drop))
}

fn verdict(text: impl Into<String>, data: DataAttribute) -> Part {
    let verdict = Expressions::Immediate(vec![
        Immediate::DestinationRegister(Register::Verdict),
        Immediate::Data(data),
    ]);
    Part::new(text, [verdict])
}

fn concatenation(family: Family, fields: &[Field]) -> Part {
    let mut word = 0_u32;
    let mut expressions = Vec::new();
    for field in fields {
        expressions.push(field.load(family, register(word)));
        word = word.saturating_add(field.words(family));
    }
    let texts: Vec<_> = fields.iter().map(|field| field.text(family)).collect();
    Part::new(texts.join(" . "), expressions)
}

/// `FIELDS vmap @MAP`.
pub fn verdict_of(family: Family, fields: &[Field], map: &str) -> Part {
    let mut part = concatenation(family, fields);
    part.text = format!("{} vmap @{map}", part.text);
    let verdict = lookup(map, Register::Verdict);
    part.expressions.push(verdict);
    part
}

/// `dnat ip to FIELDS map @MAP`, a map of addresses and ports.
pub fn dnat_by(family: Family, fields: &[Field], map: &str) -> Part {
    let mut part = concatenation(family, fields);
    let ip = match family {
        Family::V4 => "ip",
        Family::V6 => "ip6",
    };
    part.text = format!("dnat {ip} to {} map @{map}", part.text);
    part.expressions.push(lookup(map, first()));
    let port = register(Field::Destination.words(family));
    part.expressions.push(dnat(family, port));
    part
}

/// `dnat to ADDRESS:PORT`.
pub fn dnat_to(address: IpAddr, port: u16) -> Part {
    let family = Family::of(&address.into());
    // Behind an address of either family.
    let second = register(4);
    Part::new(
        format!("dnat to {}", SocketAddr::new(address, port)),
        [
            immediate(first(), octets(address)),
            immediate(second, port.to_be_bytes().into()),
            dnat(family, second),
        ],
    )
}

/// The `nat` expression (`NFTA_NAT_*` of linux/netfilter/nf_tables.h), with the address in the
/// first register.
fn dnat(family: Family, port: Register) -> Expressions {
    const TYPE: u16 = 1;
    const FAMILY: u16 = 2;
    const ADDRESS: u16 = 3;
    const PORT: u16 = 5;
    const NFT_NAT_DNAT: u32 = 1;
    other(
        "nat",
        &[
            (TYPE, NFT_NAT_DNAT),
            (FAMILY, u8::from(proto_family(family)).into()),
            (ADDRESS, first().into()),
            (PORT, port.into()),
        ],
    )
}

/// `masquerade`.
pub fn masquerade() -> Part {
    Part::new("masquerade", [other("masq", &[])])
}

/// `fib daddr type local` (`NFTA_FIB_*` of linux/netfilter/nf_tables.h, `RTN_LOCAL` of
/// linux/rtnetlink.h).
pub fn to_local() -> Part {
    const REGISTER: u16 = 1;
    const RESULT: u16 = 2;
    const FLAGS: u16 = 3;
    const ADDRESS_TYPE: u32 = 3;
    const DESTINATION: u32 = 2;
    const RTN_LOCAL: u32 = 2;
    let fib = other(
        "fib",
        &[
            (FLAGS, DESTINATION),
            (RESULT, ADDRESS_TYPE),
            (REGISTER, first().into()),
        ],
    );
    let local = compare(Operator::Equal, RTN_LOCAL.to_ne_bytes());
    Part::new("fib daddr type local", [fib, local])
}

/// `meta mark set meta mark | MARK`.
pub fn set_mark(mark: u32) -> Part {
    let change = bitwise((!mark).to_ne_bytes().into(), mark.to_ne_bytes().into());
    let set = Expressions::Meta(vec![
        Meta::Key(MetaKey::Mark),
        Meta::SourceRegister(first()),
    ]);
    Part::new(
        format!("meta mark set meta mark | {mark:#010x}"),
        [meta(MetaKey::Mark, first()), change, set],
    )
}

/// `meta mark & MARK == MARK`.
pub fn has_mark(mark: u32) -> Part {
    let bytes = mark.to_ne_bytes();
    Part::new(
        format!("meta mark & {mark:#010x} == {mark:#010x}"),
        [
            meta(MetaKey::Mark, first()),
            bitwise(bytes.into(), vec![0; bytes.len()]),
            compare(Operator::Equal, bytes),
        ],
    )
}

/// `ip saddr NET` and the like, for an address field.
pub fn net_is(field: Field, net: IpNet, inverted: bool) -> Part {
    let family = Family::of(&net);
    let (operator, not) = equality(inverted);
    let mut value = octets(net.network());
    // Of whole bytes no others are loaded, as `nft` does it.
    let expressions = match net.prefix_len() {
        bits if bits > 0 && bits.is_multiple_of(8) => {
            value.truncate((bits / 8).into());
            let load = field.load_first(family, (bits / 8).into(), first());
            vec![load, compare(operator, value)]
        }
        _ => {
            let none = vec![0; value.len()];
            let masked = bitwise(octets(net.netmask()), none);
            vec![
                field.load(family, first()),
                masked,
                compare(operator, value),
            ]
        }
    };
    let net = net_text(net);
    Part::new(format!("{} {not}{net}", field.text(family)), expressions)
}

/// Part of a chain's name that tells of networks: `nft` takes no colon in one.
pub fn net_name(nets: &[IpNet]) -> String {
    let texts: Vec<_> = nets.iter().map(|net| net_text(*net)).collect();
    texts.join("_").replace(':', "_")
}

/// A network as `nft` prints it; a host without prefix.
pub fn net_text(net: IpNet) -> String {
    if net.prefix_len() == net.max_prefix_len() {
        net.addr().to_string()
    } else {
        net.trunc().to_string()
    }
}

/// `iifname "NAME"`, where the name may end in `*`.
pub fn input_is(name: &str, inverted: bool) -> Part {
    /// `IFNAMSIZ` of linux/if.h.
    const LENGTH: usize = 16;
    let (operator, not) = equality(inverted);
    let mut value = name.as_bytes().to_vec();
    if value.last() == Some(&b'*') {
        value.pop();
    } else {
        value.resize(LENGTH, 0);
    }
    Part::new(
        format!("iifname {not}\"{name}\""),
        [meta(MetaKey::Iifname, first()), compare(operator, value)],
    )
}

/// `ether saddr MAC`.
pub fn source_mac_is(mac: [u8; 6]) -> Part {
    let text = mac.map(|byte| format!("{byte:02x}")).join(":");
    let is = compare(Operator::Equal, mac);
    Part::new(format!("ether saddr {text}"), [source_mac(first()), is])
}

/// `tcp dport PORT`.
pub fn port_is(protocol: Protocol, port: u16) -> Part {
    // Neither depends on the family.
    let load = |field: Field| field.load(Family::V4, first());
    Part::new(
        format!("{protocol} dport {port}"),
        [
            load(Field::Protocol),
            compare(Operator::Equal, [protocol.number()]),
            load(Field::Port),
            compare(Operator::Equal, port.to_be_bytes()),
        ],
    )
}

/// Bytes as in a packet.
pub fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(ip) => ip.octets().into(),
        IpAddr::V6(ip) => ip.octets().into(),
    }
}

/// Whether the kernel's expressions are the wanted ones. It lists attributes that were not sent, at
/// their defaults, more of them with each release.
pub fn are(found: &[Expressions], wanted: &[Expressions]) -> bool {
    let mut pairs = found.iter().zip(wanted);
    found.len() == wanted.len() && pairs.all(|(found, wanted)| is(found, wanted))
}

fn is(found: &Expressions, wanted: &Expressions) -> bool {
    fn has_all<T: PartialEq>(found: &[T], wanted: &[T]) -> bool {
        wanted.iter().all(|attribute| found.contains(attribute))
    }
    match (found, wanted) {
        (Expressions::Bitwise(found), Expressions::Bitwise(wanted)) => has_all(found, wanted),
        (Expressions::Cmp(found), Expressions::Cmp(wanted)) => has_all(found, wanted),
        (Expressions::Immediate(found), Expressions::Immediate(wanted)) => has_all(found, wanted),
        (Expressions::Lookup(found), Expressions::Lookup(wanted)) => has_all(found, wanted),
        (Expressions::Meta(found), Expressions::Meta(wanted)) => has_all(found, wanted),
        (Expressions::Payload(found), Expressions::Payload(wanted)) => has_all(found, wanted),
        (
            Expressions::Other {
                expression_type: found_type,
                attributes: found,
            },
            Expressions::Other {
                expression_type,
                attributes,
            },
        ) => found_type == expression_type && has_all(found, attributes),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
