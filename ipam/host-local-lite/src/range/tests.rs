use ipnet::Ipv4Net;
use proptest::prelude::*;

use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn range(subnet: &str, start: &str, end: &str, gateway: &str) -> Result<Range, InvalidRange> {
    let optional = |text: &str| (!text.is_empty()).then(|| ip(text));
    Range::new(
        subnet.parse().unwrap(),
        optional(start),
        optional(end),
        optional(gateway),
    )
}

fn set(ranges: &[(&str, &str, &str)]) -> RangeSet {
    let ranges = ranges
        .iter()
        .map(|(subnet, start, end)| range(subnet, start, end, ""));
    RangeSet::new(ranges.collect::<Result<_, _>>().unwrap()).unwrap()
}

fn turn(set: &RangeSet, last: &str) -> Vec<String> {
    let last = (!last.is_empty()).then(|| ip(last));
    set.turn(last)
        .take(20)
        .map(|(ip, _)| ip.to_string())
        .collect()
}

#[test]
fn defaults_leave_out_network_and_broadcast() {
    for (subnet, text, gateway) in [
        ("10.1.0.0/16", "10.1.0.1-10.1.255.254", "10.1.0.1"),
        ("10.0.0.4/30", "10.0.0.5-10.0.0.6", "10.0.0.5"),
        ("0.0.0.0/0", "0.0.0.1-255.255.255.254", "0.0.0.1"),
        (
            "2001:db8::/64",
            "2001:db8::1-2001:db8::ffff:ffff:ffff:ffff",
            "2001:db8::1",
        ),
        ("fd00::fff0/126", "fd00::fff1-fd00::fff3", "fd00::fff1"),
        ("::/0", "::1-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "::1"),
    ] {
        let range = range(subnet, "", "", "").unwrap();
        assert_eq!(
            (range.to_string().as_str(), range.gateway),
            (text, ip(gateway))
        );
    }
}

#[test]
fn ends_may_be_network_and_broadcast() {
    let range = range("10.0.0.0/29", "10.0.0.0", "10.0.0.7", "192.168.0.1").unwrap();
    assert!(range.contains(ip("10.0.0.0")) && range.contains(ip("10.0.0.7")));
    assert!(!range.contains(ip("10.0.0.8")) && !range.contains(ip("::a00:1")));
    assert_eq!(range.gateway, ip("192.168.0.1"));
    let broadcast = self::range("10.0.0.0/29", "10.0.0.7", "", "").unwrap();
    assert_eq!(broadcast.to_string(), "10.0.0.7-10.0.0.7");
    assert_eq!(range.with_prefix(ip("10.0.0.3")).to_string(), "10.0.0.3/29");
}

#[test]
fn refusals_in_the_reference_plugins_words() {
    for (keys, text) in [
        (
            ["10.0.0.0/31", "", "", ""],
            "Network 10.0.0.0/31 too small to allocate from",
        ),
        (
            ["10.0.0.1/32", "", "", ""],
            "Network 10.0.0.1/32 too small to allocate from",
        ),
        (
            ["fd00::/127", "", "", ""],
            "Network fd00::/127 too small to allocate from",
        ),
        (
            ["::ffff:10.0.0.0/120", "", "", ""],
            "IPNet IP and Mask version mismatch",
        ),
        (
            ["10.1.2.3/16", "", "", ""],
            "Network has host bits set. For a subnet mask of length 16 the network address is 10.1.0.0",
        ),
        (
            ["10.1.0.0/16", "10.2.0.1", "", ""],
            "RangeStart 10.2.0.1 not in network 10.1.0.0/16",
        ),
        (
            ["10.1.0.0/16", "fd00::1", "", ""],
            "RangeStart fd00::1 not in network 10.1.0.0/16",
        ),
        (
            ["10.1.0.0/16", "", "10.2.0.1", ""],
            "RangeEnd 10.2.0.1 not in network 10.1.0.0/16",
        ),
        (
            ["10.1.0.0/16", "10.1.0.9", "10.1.0.8", ""],
            "RangeStart 10.1.0.9 not in network 10.1.0.0/16",
        ),
        (
            ["10.1.0.0/16", "", "10.1.0.0", ""],
            "RangeEnd 10.1.0.0 not in network 10.1.0.0/16",
        ),
        (
            ["10.1.0.0/16", "", "", "fd00::1"],
            "Gateway fd00::1 is not of the family of network 10.1.0.0/16",
        ),
    ] {
        let [subnet, start, end, gateway] = keys;
        let error = range(subnet, start, end, gateway).unwrap_err();
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn a_set_is_of_one_family_and_without_overlap() {
    let make = |ranges: &[(&str, &str, &str)]| {
        let ranges = ranges
            .iter()
            .map(|(subnet, start, end)| range(subnet, start, end, ""));
        RangeSet::new(ranges.collect::<Result<_, _>>().unwrap()).map_err(|e| e.to_string())
    };
    assert_eq!(make(&[]).unwrap_err(), "empty range set");
    let mixed = make(&[("10.1.0.0/24", "", ""), ("fd00::/64", "", "")]);
    assert_eq!(mixed.unwrap_err(), "mixed address families");
    let overlap = make(&[
        ("10.1.0.0/24", "", "10.1.0.100"),
        ("10.1.0.0/24", "10.1.0.200", ""),
        ("10.1.0.0/24", "10.1.0.100", "10.1.0.150"),
    ]);
    assert_eq!(
        overlap.unwrap_err(),
        "subnets 10.1.0.1-10.1.0.100 and 10.1.0.100-10.1.0.150 overlap"
    );
    let whole = make(&[
        ("10.0.0.0/8", "", ""),
        ("10.1.0.0/24", "10.1.0.5", "10.1.0.6"),
    ]);
    assert!(whole.is_err());
    let beside = set(&[
        ("10.1.0.0/24", "", "10.1.0.9"),
        ("10.1.0.0/24", "10.1.0.10", ""),
    ]);
    assert_eq!(beside.to_string(), "10.1.0.1-10.1.0.9,10.1.0.10-10.1.0.254");
}

#[test]
fn sets_overlap() {
    let one = set(&[("10.1.0.0/24", "", "10.1.0.9")]);
    assert!(!one.overlaps(&set(&[("fd00::/64", "", ""), ("fd01::/64", "", "")])));
    assert!(one.overlaps(&set(&[
        ("10.2.0.0/24", "", ""),
        ("10.1.0.0/24", "10.1.0.9", "")
    ])));
    assert!(!one.overlaps(&set(&[("10.1.0.0/24", "10.1.0.10", "")])));
}

#[test]
fn a_turn_meets_every_address_once() {
    let two = set(&[
        ("10.1.0.0/24", "10.1.0.3", "10.1.0.5"),
        ("10.2.0.0/29", "10.2.0.6", "10.2.0.7"),
    ]);
    let cases: &[(&str, &[&str])] = &[
        (
            "",
            &["10.1.0.3", "10.1.0.4", "10.1.0.5", "10.2.0.6", "10.2.0.7"],
        ),
        (
            "10.1.0.3",
            &["10.1.0.4", "10.1.0.5", "10.2.0.6", "10.2.0.7", "10.1.0.3"],
        ),
        (
            "10.1.0.5",
            &["10.2.0.6", "10.2.0.7", "10.1.0.3", "10.1.0.4", "10.1.0.5"],
        ),
        (
            "10.2.0.6",
            &["10.2.0.7", "10.1.0.3", "10.1.0.4", "10.1.0.5", "10.2.0.6"],
        ),
        (
            "10.2.0.7",
            &["10.1.0.3", "10.1.0.4", "10.1.0.5", "10.2.0.6", "10.2.0.7"],
        ),
        (
            "10.9.9.9",
            &["10.1.0.3", "10.1.0.4", "10.1.0.5", "10.2.0.6", "10.2.0.7"],
        ),
        (
            "fd00::1",
            &["10.1.0.3", "10.1.0.4", "10.1.0.5", "10.2.0.6", "10.2.0.7"],
        ),
    ];
    for (last, expected) in cases {
        assert_eq!(turn(&two, last), *expected, "after {last:?}");
    }
}

#[test]
fn a_turn_does_not_run_over_the_last_address_there_is() {
    let top = set(&[("255.255.255.252/30", "255.255.255.254", "255.255.255.255")]);
    assert_eq!(turn(&top, ""), ["255.255.255.254", "255.255.255.255"]);
    assert_eq!(
        turn(&top, "255.255.255.255"),
        ["255.255.255.254", "255.255.255.255"]
    );
    let all_ones = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
    let top = set(&[("ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffc/126", all_ones, "")]);
    assert_eq!(turn(&top, all_ones), [all_ones]);
}

/// No byte of an address says how many it has.
#[test]
fn a_turn_counts_from_zeros_too() {
    let low = set(&[("::/64", "::fffe", "::1:0")]);
    assert_eq!(turn(&low, "::fffe"), ["::ffff", "::1:0", "::fffe"]);
    let low = set(&[("0.0.0.0/8", "0.0.0.254", "0.0.1.0")]);
    assert_eq!(
        turn(&low, "0.0.0.254"),
        ["0.0.0.255", "0.0.1.0", "0.0.0.254"]
    );
}

#[test]
fn a_turn_crosses_the_borders_of_bytes() {
    let wide = set(&[("10.1.0.0/16", "10.1.2.254", "10.1.3.1")]);
    assert_eq!(
        turn(&wide, "10.1.2.254"),
        ["10.1.2.255", "10.1.3.0", "10.1.3.1", "10.1.2.254"]
    );
}

#[test]
fn a_set_gives_all_but_its_gateways() {
    let capacity = |ranges: &[(&str, &str, &str)]| set(ranges).capacity();
    assert_eq!(capacity(&[("10.1.0.0/24", "", "")]), 253);
    assert_eq!(capacity(&[("10.1.0.0/24", "10.1.0.10", "10.1.0.19")]), 10);
    // Two ranges of one subnet have one gateway.
    let two = [
        ("10.1.0.0/24", "", "10.1.0.9"),
        ("10.1.0.0/24", "10.1.0.20", "10.1.0.29"),
    ];
    assert_eq!(capacity(&two), 18);
    assert_eq!(capacity(&[("10.1.0.0/24", "10.1.0.1", "10.1.0.1")]), 0);
    assert_eq!(
        capacity(&[("2001:db8::/64", "", "")]),
        u128::from(u64::MAX) - 1
    );
    assert_eq!(capacity(&[("::/0", "::", "")]), u128::MAX - 1);
    let one = set(&[("10.1.0.0/24", "", "")]);
    assert!(one.gives(ip("10.1.0.2")));
    assert!(!one.gives(ip("10.1.0.1")) && !one.gives(ip("10.1.0.0")));
}

/// A few ranges of 10.1.0.0/16, in any order, which may overlap.
fn ranges() -> impl Strategy<Value = Vec<Range>> {
    let subnet = || IpNet::from(Ipv4Net::new_assert([10, 1, 0, 0].into(), 16));
    let address = |number: u16| IpAddr::from((0x0a01_0000 | u32::from(number)).to_be_bytes());
    let range = (any::<u16>(), 0..40_u16, any::<u16>()).prop_map(move |(start, more, gateway)| {
        let end = start.saturating_add(more);
        let gateway = Some(address(gateway));
        Range::new(subnet(), Some(address(start)), Some(address(end)), gateway).unwrap()
    });
    proptest::collection::vec(range, 1..5)
}

proptest! {
    #[test]
    fn any_turn_meets_every_address_once_and_ends_with_the_last(
        ranges in ranges(),
        at in any::<proptest::sample::Index>(),
        foreign in any::<IpAddr>(),
    ) {
        let overlap = ranges.iter().enumerate().any(|(at, one)| {
            ranges.iter().skip(at + 1).any(|other| one.overlaps(other))
        });
        let set = RangeSet::new(ranges);
        prop_assert_eq!(set.is_err(), overlap);
        let Ok(set) = set else { return Ok(()) };
        let all: Vec<IpAddr> = set.turn(None).map(|(ip, _)| ip).collect();
        let once: BTreeSet<IpAddr> = all.iter().copied().collect();
        prop_assert_eq!(once.len(), all.len());
        let given = all.iter().filter(|ip| set.gives(**ip)).count();
        prop_assert_eq!(given as u128, set.capacity());
        for last in [*at.get(&all), foreign] {
            let turn: Vec<IpAddr> = set.turn(Some(last)).map(|(ip, _)| ip).collect();
            prop_assert_eq!(turn.len(), all.len());
            prop_assert_eq!(turn.iter().copied().collect::<BTreeSet<_>>(), once.clone());
            prop_assert!(!set.contains(last) || turn.last() == Some(&last));
            prop_assert!(set.turn(Some(last)).all(|(ip, range)| range.contains(ip)));
        }
    }
}
