//! Ranges of addresses: pure values, checked when they are made.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use ipnet::{IpAddrRange, IpNet, Ipv4AddrRange, Ipv6AddrRange};

/// Consecutive addresses of one subnet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// Its network address has no host bits.
    pub subnet: IpNet,
    /// First address, inclusive; of the subnet.
    pub start: IpAddr,
    /// Last address, inclusive; of the subnet, not before `start`.
    pub end: IpAddr,
    /// Reported with every address and never given; of the subnet's family, but possibly outside it.
    pub gateway: IpAddr,
}

/// One pool: an ADD gets one address from each set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeSet(Vec<Range>);

/// Why ranges cannot be used. Programs match on the texts; they are the reference plugin's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRange {
    /// There is no `subnet`.
    #[error("IP <nil> not v4 nor v6")]
    NoSubnet,
    /// Fewer than two host bits.
    #[error("Network {0} too small to allocate from")]
    TooSmall(IpNet),
    /// An IPv4 network written as an IPv6 one.
    #[error("IPNet IP and Mask version mismatch")]
    Mapped(IpNet),
    /// The subnet is not a network address.
    #[error(
        "Network has host bits set. For a subnet mask of length {} the network address is {}",
        .0.prefix_len(), .0.network()
    )]
    HostBits(IpNet),
    /// The gateway is of the other family.
    #[error("Gateway {0} is not of the family of network {1}")]
    GatewayFamily(IpAddr, IpNet),
    /// The first address is outside the subnet, or after the last.
    #[error("RangeStart {0} not in network {1}")]
    Start(IpAddr, IpNet),
    /// The last address is outside the subnet, or before the default first.
    #[error("RangeEnd {0} not in network {1}")]
    End(IpAddr, IpNet),
    /// A set without ranges.
    #[error("empty range set")]
    EmptySet,
    /// IPv4 and IPv6 in one set.
    #[error("mixed address families")]
    MixedFamilies,
    /// Two ranges of one set share addresses.
    #[error("subnets {0} and {1} overlap")]
    Overlap(String, String),
}

impl Range {
    /// A range of `subnet`. Without `start`, it begins behind the network address; without `end`,
    /// it ends at the last address, which for IPv4 is the one before the broadcast address unless
    /// `start` is that; without `gateway`, that is the address behind the network address.
    pub fn new(
        subnet: IpNet,
        start: Option<IpAddr>,
        end: Option<IpAddr>,
        gateway: Option<IpAddr>,
    ) -> Result<Range, InvalidRange> {
        if subnet.max_prefix_len() - subnet.prefix_len() < 2 {
            return Err(InvalidRange::TooSmall(subnet));
        }
        if is_mapped(subnet.addr()) {
            return Err(InvalidRange::Mapped(subnet));
        }
        if subnet.addr() != subnet.network() {
            return Err(InvalidRange::HostBits(subnet));
        }
        let (first, last) = host_bounds(&subnet);
        let from = start.unwrap_or(first);
        let to = end.unwrap_or(last.max(from));
        let gateway = gateway.unwrap_or(first);
        if gateway.is_ipv4() != first.is_ipv4() {
            return Err(InvalidRange::GatewayFamily(gateway, subnet));
        }
        if !subnet.contains(&from) || start.is_some_and(|start| start > to) {
            return Err(InvalidRange::Start(from, subnet));
        }
        if !subnet.contains(&to) || from > to {
            return Err(InvalidRange::End(to, subnet));
        }
        Ok(Range {
            subnet,
            start: from,
            end: to,
            gateway,
        })
    }

    /// Whether the address lies in the range.
    pub fn contains(&self, ip: IpAddr) -> bool {
        // IpAddr orders all of IPv4 before all of IPv6, so the other family is never between.
        self.start <= ip && ip <= self.end
    }

    fn is_ipv4(&self) -> bool {
        self.start.is_ipv4()
    }

    /// Whether the two ranges share an address.
    pub fn overlaps(&self, other: &Range) -> bool {
        self.start <= other.end && other.start <= self.end
    }

    /// The address with the prefix of the range's subnet.
    pub fn with_prefix(&self, ip: IpAddr) -> IpNet {
        IpNet::new(ip, self.subnet.prefix_len()).unwrap_or_else(|_| IpNet::from(ip))
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.start, self.end)
    }
}

impl RangeSet {
    /// A set of ranges of one family that share no address.
    pub fn new(ranges: Vec<Range>) -> Result<RangeSet, InvalidRange> {
        let Some(first) = ranges.first() else {
            return Err(InvalidRange::EmptySet);
        };
        if ranges.iter().any(|r| r.is_ipv4() != first.is_ipv4()) {
            return Err(InvalidRange::MixedFamilies);
        }
        for (i, range) in ranges.iter().enumerate() {
            if let Some(other) = ranges.iter().skip(i + 1).find(|r| r.overlaps(range)) {
                return Err(InvalidRange::Overlap(range.to_string(), other.to_string()));
            }
        }
        Ok(RangeSet(ranges))
    }

    /// Whether its addresses are IPv4.
    pub fn is_ipv4(&self) -> bool {
        self.0.iter().all(Range::is_ipv4)
    }

    /// The range that the address lies in.
    pub fn range_of(&self, ip: IpAddr) -> Option<&Range> {
        self.0.iter().find(|range| range.contains(ip))
    }

    /// Whether the address lies in one of the ranges.
    pub fn contains(&self, ip: IpAddr) -> bool {
        self.range_of(ip).is_some()
    }

    /// Whether the address is the gateway of one of the ranges.
    pub fn is_gateway(&self, ip: IpAddr) -> bool {
        self.0.iter().any(|range| range.gateway == ip)
    }

    /// Whether the two sets share an address.
    pub fn overlaps(&self, other: &RangeSet) -> bool {
        self.0.iter().any(|a| other.0.iter().any(|b| a.overlaps(b)))
    }

    /// How many addresses it can give: all but the gateways.
    pub fn capacity(&self) -> u128 {
        let size = |range: &Range| {
            number(range.end)
                .abs_diff(number(range.start))
                .saturating_add(1)
        };
        let sizes = self.0.iter().map(size);
        let gateways = self.0.iter().map(|range| range.gateway);
        let gateways: BTreeSet<IpAddr> = gateways.filter(|ip| self.contains(*ip)).collect();
        let all = sizes.fold(0, u128::saturating_add);
        all.saturating_sub(gateways.len() as u128)
    }

    /// Whether it can give the address.
    pub fn gives(&self, ip: IpAddr) -> bool {
        self.contains(ip) && !self.is_gateway(ip)
    }

    /// Every address once, each with its range, beginning behind `last` and ending with it; with
    /// no `last`, or one that is not of the set, from the first range's first address. The ranges
    /// follow each other in their order.
    pub fn turn(&self, last: Option<IpAddr>) -> impl Iterator<Item = (IpAddr, &Range)> {
        let begin = last.and_then(|ip| {
            let index = self.0.iter().position(|range| range.contains(ip))?;
            Some((index, ip))
        });
        let index = begin.map_or(0, |(index, _)| index);
        let (before, after) = self.0.split_at(index);
        let (current, after) = after.split_at(after.len().min(1));
        let rest = current.iter().flat_map(move |range| {
            let from = begin.map_or(range.start, |(_, ip)| ip);
            addresses(from, range.end)
                .skip(usize::from(begin.is_some()))
                .map(move |ip| (ip, range))
        });
        let others = after.iter().chain(before).flat_map(whole);
        let again = current.iter().flat_map(move |range| {
            let until = begin.map(|(_, ip)| addresses(range.start, ip));
            until.into_iter().flatten().map(move |ip| (ip, range))
        });
        rest.chain(others).chain(again)
    }
}

impl fmt::Display for RangeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, range) in self.0.iter().enumerate() {
            write!(f, "{}{range}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

/// Whether it is an IPv4 address in IPv6 clothes (::ffff:a.b.c.d), which has two texts.
pub fn is_mapped(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some())
}

fn number(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => ip.to_bits().into(),
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

fn whole(range: &Range) -> impl Iterator<Item = (IpAddr, &Range)> {
    addresses(range.start, range.end).map(move |ip| (ip, range))
}

/// All addresses from `first` to `last`, both inclusive; none where the families differ.
fn addresses(first: IpAddr, last: IpAddr) -> impl Iterator<Item = IpAddr> {
    let range = match (first, last) {
        (IpAddr::V4(first), IpAddr::V4(last)) => {
            Some(IpAddrRange::V4(Ipv4AddrRange::new(first, last)))
        }
        (IpAddr::V6(first), IpAddr::V6(last)) => {
            Some(IpAddrRange::V6(Ipv6AddrRange::new(first, last)))
        }
        _ => None,
    };
    range.into_iter().flatten()
}

/// The first and the last address that a subnet gives by default: behind the network address, and
/// before the broadcast address, which IPv6 has not.
fn host_bounds(subnet: &IpNet) -> (IpAddr, IpAddr) {
    match subnet {
        IpNet::V4(net) => {
            let last = net.broadcast().to_bits().saturating_sub(1);
            let first = net.network().to_bits().saturating_add(1);
            (IpAddr::V4(first.into()), IpAddr::V4(last.into()))
        }
        IpNet::V6(net) => {
            let first = net.network().to_bits().saturating_add(1);
            (IpAddr::V6(first.into()), IpAddr::V6(net.broadcast()))
        }
    }
}

#[cfg(test)]
mod tests;
