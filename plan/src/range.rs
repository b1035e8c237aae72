//! Ranges of addresses: arithmetic over networks of both families.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// Reads a range.
///
/// # Errors
/// It is none, has bits beyond its prefix, or is all of the address space.
pub fn parse(text: &str) -> Result<IpNet, String> {
    let Some((address, prefix)) = text.split_once('/') else {
        return Err(format!(
            "{text:?} is no range: expected an address and a prefix length, as 10.244.0.0/16"
        ));
    };
    let address: IpAddr = address.parse().map_err(|_| {
        format!("{text:?} is no range: {address:?} is neither an IPv4 nor an IPv6 address")
    })?;
    let longest = bits(address);
    // Nothing but the number itself: other programs read `016` otherwise, or not at all.
    let digits = |text: &&str| text.chars().all(|c| c.is_ascii_digit()) && !text.starts_with('0');
    let range = Some(prefix)
        .filter(digits)
        .and_then(|prefix| prefix.parse().ok())
        .and_then(|prefix| IpNet::new(address, prefix).ok())
        .filter(|range| range.prefix_len() > 0)
        .ok_or_else(|| {
            let family = family(address);
            format!("{text:?} is no range: the prefix of an {family} range is 1 to {longest}")
        })?;
    if range.trunc() != range {
        return Err(format!(
            "{text:?} has bits set beyond its prefix: {} was probably meant",
            range.trunc()
        ));
    }
    Ok(range)
}

/// `IPv4` or `IPv6`.
pub fn family(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "IPv4" } else { "IPv6" }
}

/// How many bits an address of that family has.
fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Whether both are IPv4 or both IPv6.
pub fn same_family(a: IpNet, b: IpNet) -> bool {
    a.addr().is_ipv4() == b.addr().is_ipv4()
}

/// 2 to the power of `exponent`, of which no range has more than 127.
fn power(exponent: u8) -> u128 {
    1_u128.checked_shl(exponent.into()).unwrap_or(u128::MAX)
}

/// How many addresses a range has.
pub fn size(range: IpNet) -> u128 {
    power(range.max_prefix_len().saturating_sub(range.prefix_len()))
}

/// How many ranges of that prefix a range has; none where it is itself smaller.
pub fn subnets(range: IpNet, prefix: u8) -> u128 {
    prefix.checked_sub(range.prefix_len()).map_or(0, power)
}

/// The address as a number.
pub fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

/// The first and the last address of a range, as numbers.
pub fn bounds(range: IpNet) -> (u128, u128) {
    (number(range.network()), number(range.broadcast()))
}

/// The address that stands `offset` behind the first of a range; the first itself where the
/// family has none that high.
pub fn nth(range: IpNet, offset: u128) -> IpAddr {
    let number = number(range.network()).saturating_add(offset);
    match range.network() {
        IpAddr::V4(first) => u32::try_from(number).map_or(first, Into::into).into(),
        IpAddr::V6(_) => IpAddr::V6(number.into()),
    }
}

/// The range of that prefix with that place in `range`, counted from 0.
pub fn subnet(range: IpNet, prefix: u8, index: u128) -> IpNet {
    let size = power(range.max_prefix_len().saturating_sub(prefix));
    let address = nth(range, index.saturating_mul(size));
    IpNet::new(address, prefix).unwrap_or(range)
}

/// The addresses that two ranges share: the smaller one, since one contains the other or they
/// share none.
pub fn shared(a: IpNet, b: IpNet) -> Option<IpNet> {
    if a.contains(&b) {
        Some(b)
    } else if b.contains(&a) {
        Some(a)
    } else {
        None
    }
}

/// The first address that a plugin can use: the one behind the network address.
pub fn first_usable(range: IpNet) -> IpAddr {
    nth(range, 1)
}

/// Everything, of the family of `range`: where a default route leads.
pub fn everything(range: IpNet) -> IpNet {
    match range {
        IpNet::V4(_) => Ipv4Net::default().into(),
        IpNet::V6(_) => Ipv6Net::default().into(),
    }
}

/// What an address is for that no route can lead by: neither another node nor a router has it.
pub fn no_next_hop(address: IpAddr) -> Option<&'static str> {
    if address == IpAddr::V4(Ipv4Addr::BROADCAST) {
        return Some("broadcast");
    }
    if address.is_unspecified() {
        return Some("unspecified");
    }
    let mut special = special().filter(|(_, what)| *what != "link-local");
    let found = special.find(|(range, _)| range.contains(&address));
    found.map(|(_, what)| what)
}

/// Ranges that no cluster can use, and what they are for (RFC 6890, and RFC 5771 and RFC 4291 for
/// multicast).
pub fn special() -> impl Iterator<Item = (IpNet, &'static str)> {
    let v4 = [
        ([0, 0, 0, 0], 8, "this network"),
        ([127, 0, 0, 0], 8, "loopback"),
        ([169, 254, 0, 0], 16, "link-local"),
        ([224, 0, 0, 0], 4, "multicast"),
    ];
    let v6 = [
        ([0, 0, 0, 0, 0, 0, 0, 1], 128, "loopback"),
        ([0, 0, 0, 0, 0, 0xffff, 0, 0], 96, "IPv4-mapped"),
        ([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, "link-local"),
        ([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, "multicast"),
    ];
    let v4 = v4
        .into_iter()
        .map(|(address, prefix, what)| (Ipv4Net::new_assert(address.into(), prefix).into(), what));
    let v6 = v6
        .into_iter()
        .map(|(address, prefix, what)| (Ipv6Net::new_assert(address.into(), prefix).into(), what));
    v4.chain(v6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    #[test]
    fn what_is_a_range() {
        for text in [
            "10.244.0.0/16",
            "fd00:10:244::/56",
            "10.0.0.1/32",
            "128.0.0.0/1",
        ] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
        for (text, said) in [
            ("10.244.0.0", "expected an address and a prefix length"),
            ("10.244.0/16", "\"10.244.0\" is neither"),
            ("10.244.0.0/33", "the prefix of an IPv4 range is 1 to 32"),
            ("10.244.0.0/x", "the prefix of an IPv4 range is 1 to 32"),
            ("10.244.0.0/+16", "the prefix of an IPv4 range is 1 to 32"),
            ("10.244.0.0/016", "the prefix of an IPv4 range is 1 to 32"),
            ("10.244.0.0/", "the prefix of an IPv4 range is 1 to 32"),
            ("0.0.0.0/0", "is 1 to 32"),
            ("fd00::/129", "the prefix of an IPv6 range is 1 to 128"),
            ("::/0", "is 1 to 128"),
            ("10.244.3.0/16", "10.244.0.0/16 was probably meant"),
            ("fd00::1/64", "fd00::/64 was probably meant"),
            ("", "expected"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn what_no_route_leads_by() {
        for (address, what) in [
            ("0.0.0.0", Some("unspecified")),
            ("0.1.2.3", Some("this network")),
            ("127.0.0.1", Some("loopback")),
            ("224.0.0.1", Some("multicast")),
            ("255.255.255.255", Some("broadcast")),
            ("::", Some("unspecified")),
            ("::1", Some("loopback")),
            ("ff02::1", Some("multicast")),
            ("169.254.1.1", None),
            ("fe80::1", None),
            ("192.168.10.1", None),
            ("fd00::1", None),
        ] {
            assert_eq!(no_next_hop(address.parse().unwrap()), what, "{address}");
        }
    }

    #[test]
    fn counts() {
        for (range, prefix, subnets_, size_) in [
            ("10.244.0.0/16", 24, 256, 1 << 16),
            ("10.0.0.0/8", 24, 1 << 16, 1 << 24),
            ("10.0.0.0/24", 24, 1, 256),
            ("10.0.0.0/24", 16, 0, 256),
            ("fd00::/8", 64, 1 << 56, 1 << 120),
            ("8000::/1", 126, 1 << 125, 1 << 127),
        ] {
            let range = net(range);
            assert_eq!(
                (subnets(range, prefix), size(range)),
                (subnets_, size_),
                "{range}"
            );
        }
    }

    #[test]
    fn places() {
        for (range, prefix, index, expected) in [
            ("10.244.0.0/16", 24, 255, "10.244.255.0/24"),
            ("255.255.0.0/16", 24, 255, "255.255.255.0/24"),
            ("10.0.0.0/8", 25, 3, "10.0.1.128/25"),
            ("fd00:10:244::/56", 64, 255, "fd00:10:244:ff::/64"),
            ("ff00::/8", 64, (1 << 56) - 1, "ffff:ffff:ffff:ffff::/64"),
        ] {
            assert_eq!(subnet(net(range), prefix, index), net(expected));
        }
        assert_eq!(first_usable(net("10.244.2.0/24")).to_string(), "10.244.2.1");
        assert_eq!(first_usable(net("fd00::/64")).to_string(), "fd00::1");
        assert_eq!(everything(net("fd00::/64")).to_string(), "::/0");
    }

    #[test]
    fn what_two_share() {
        let shared = |a, b| shared(net(a), net(b)).map(|both| both.to_string());
        let both = shared("10.96.0.0/12", "10.96.0.0/16");
        assert_eq!(both.as_deref(), Some("10.96.0.0/16"));
        assert_eq!(
            shared("10.244.3.0/24", "10.244.0.0/16"),
            shared("10.244.0.0/16", "10.244.3.0/24")
        );
        assert_eq!(shared("10.244.0.0/16", "10.245.0.0/16"), None);
        assert_eq!(shared("::/1", "10.0.0.0/8"), None);
    }

    #[test]
    fn what_is_special() {
        let special: Vec<_> = special()
            .map(|(range, what)| format!("{range} {what}"))
            .collect();
        assert_eq!(special.len(), 8);
        assert_eq!(special[5], "::ffff:0.0.0.0/96 IPv4-mapped");
        assert_eq!(special[6], "fe80::/10 link-local");
    }
}
