//! What of a packet a rule looks at.

use netlink_packet_netfilter::nftables::{Expressions, Meta, MetaKey, Payload, Register};

use crate::rule::Family;

/// Bases of a payload: `NFT_PAYLOAD_*` of linux/netfilter/nf_tables.h.
const LINK_HEADER: u32 = 0;
const NETWORK_HEADER: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;

/// Something that every packet has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// Source address.
    Source,
    /// Destination address.
    Destination,
    /// Number of the transport protocol.
    Protocol,
    /// Destination port.
    Port,
    /// Name of the interface that it came in by.
    Interface,
}

impl Field {
    /// Type of a set's key: its number and name in `nft` (include/datatype.h), and its bytes.
    pub fn kind(self, family: Family) -> (u32, &'static str, u32) {
        match (self, family) {
            (Field::Source | Field::Destination, Family::V4) => (7, "ipv4_addr", 4),
            (Field::Source | Field::Destination, Family::V6) => (8, "ipv6_addr", 16),
            (Field::Protocol, _) => (12, "inet_proto", 1),
            (Field::Port, _) => (13, "inet_service", 2),
            (Field::Interface, _) => (41, "ifname", 16),
        }
    }

    /// Registers of 4 bytes that it takes.
    pub fn words(self, family: Family) -> u32 {
        self.kind(family).2.div_ceil(4)
    }

    /// As `nft` prints it.
    pub fn text(self, family: Family) -> &'static str {
        match (self, family) {
            (Field::Source, Family::V4) => "ip saddr",
            (Field::Source, Family::V6) => "ip6 saddr",
            (Field::Destination, Family::V4) => "ip daddr",
            (Field::Destination, Family::V6) => "ip6 daddr",
            (Field::Protocol, _) => "meta l4proto",
            (Field::Port, _) => "th dport",
            (Field::Interface, _) => "iifname",
        }
    }

    /// Loads it into a register.
    pub fn load(self, family: Family, to: Register) -> Expressions {
        self.load_first(family, self.kind(family).2, to)
    }

    /// Loads its first bytes into a register.
    pub fn load_first(self, family: Family, length: u32, to: Register) -> Expressions {
        let address = |v4, v6| {
            let offset = match family {
                Family::V4 => v4,
                Family::V6 => v6,
            };
            payload(NETWORK_HEADER, offset, length, to)
        };
        match self {
            // Offsets in the headers of RFC 791 and RFC 8200.
            Field::Source => address(12, 8),
            Field::Destination => address(16, 24),
            Field::Protocol => meta(MetaKey::L4Proto, to),
            Field::Interface => meta(MetaKey::Iifname, to),
            // The same place in TCP, UDP and SCTP.
            Field::Port => payload(TRANSPORT_HEADER, 2, length, to),
        }
    }
}

/// The register that begins at the given word of 4 bytes, by the number that the kernel lists it
/// under: every fourth has a number of its own as a register of 16 bytes.
pub fn register(word: u32) -> Register {
    const FIRST_OF_16: u32 = 1;
    const FIRST_OF_4: u32 = 8;
    if word.is_multiple_of(4) {
        Register::from(word / 4 + FIRST_OF_16)
    } else {
        Register::from(word.saturating_add(FIRST_OF_4))
    }
}

/// The register that all comparisons and lookups begin at.
pub fn first() -> Register {
    register(0)
}

fn payload(base: u32, offset: u32, length: u32, to: Register) -> Expressions {
    Expressions::Payload(vec![
        Payload::DestinationRegister(to),
        Payload::Base(base),
        Payload::Offset(offset),
        Payload::Len(length),
    ])
}

/// `ether saddr` into a register: behind the destination, in the header of IEEE 802.3.
pub fn source_mac(to: Register) -> Expressions {
    payload(LINK_HEADER, 6, 6, to)
}

/// `meta KEY` into a register.
pub fn meta(key: MetaKey, to: Register) -> Expressions {
    Expressions::Meta(vec![Meta::Key(key), Meta::DestinationRegister(to)])
}
