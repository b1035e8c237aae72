//! What may be in a Node that somebody has written who means ill.

use super::*;

/// What is wrong with node d of these ranges and addresses, which hinders nobody else.
#[track_caller]
fn of_hostile(ranges: &[&str], addresses: &[&str]) -> Vec<String> {
    let mut all = three();
    all.push(told("d", ranges, addresses));
    let mut there = settings();
    there.api = vec![ip("198.51.100.6")];
    let mut seen = seen();
    seen.node
        .routes
        .push(route("0.0.0.0/0", Some("192.0.2.1"), 2));
    let outlook = Outlook::new(&there, &all, seen);
    let changes = changes(&outlook);
    assert_eq!(changes, [TO_B, TO_C].concat(), "{ranges:?} {addresses:?}");
    assert_eq!(outlook.conflist.step, Step::Write, "{ranges:?}");
    found(&outlook)
}

#[test]
fn a_range_that_is_hostile_gets_no_route() {
    for (range, reason) in [
        ("0.0.0.0/0", "BadPodRange"),
        ("::/0", "BadPodRange"),
        ("0.0.0.0/1", "BadPodRange"),
        ("127.0.0.0/8", "BadPodRange"),
        ("::ffff:10.1.0.0/112", "BadPodRange"),
        ("::ffff:0:0/96", "BadPodRange"),
        ("::/1", "BadPodRange"),
        ("10.7.0.1/24", "BadPodRange"),
        ("10.7.0.0/024", "BadPodRange"),
        ("010.7.0.0/24", "BadPodRange"),
        ("10.7.0.0/24 ", "BadPodRange"),
        ("192.0.2.10/32", "PodRangeHoldsNodes"),
        // The default router, and the API that is no node.
        ("192.0.2.1/32", "PodRangeCutsOff"),
        ("192.0.2.0/29", "PodRangeCutsOff"),
        ("198.51.100.0/24", "PodRangeCutsOff"),
    ] {
        let found = of_hostile(&[range], &["192.0.2.13", "2001:db8::13"]);
        assert_eq!(found, [format!("d {reason}")], "{range}");
    }
}

#[test]
fn an_address_of_this_machine_is_in_no_other_s_range() {
    let mut there = seen();
    there.node.addresses.push((2, address("10.7.0.9/32")));
    let mut all = three();
    all.push(told("d", &["10.7.0.0/24"], &["192.0.2.13"]));
    let outlook = look(&all, there);
    assert_eq!(changes(&outlook), [TO_B, TO_C].concat());
    assert_eq!(found(&outlook), ["d PodRangeCutsOff"]);
}

#[test]
fn what_another_network_has_left_cuts_nothing_off() {
    // As flannel leaves it: an address of the own range, and a router in the other's.
    let mut there = seen();
    there.node.addresses.push((2, address("10.1.0.0/32")));
    let left = route("10.1.1.0/24", Some("10.1.1.0"), 2);
    there.node.routes.push(left);
    let outlook = look(&three(), there);
    assert_eq!(found(&outlook), ["b ForeignRoute"]);
    assert_eq!(outlook.conflist.step, Step::Write);
    // A router in the own range, by the bridge, is a pod.
    let mut there = seen();
    let mut by_pod = route("203.0.113.0/24", Some("10.1.0.7"), 4);
    by_pod.route.index = 3;
    there.node.routes.push(by_pod);
    assert_eq!(found(&look(&three(), there)), [""; 0]);
}

#[test]
fn own_range_with_the_router_in_it_is_not_used() {
    let mut there = seen();
    there
        .node
        .routes
        .push(route("0.0.0.0/0", Some("10.1.0.1"), 2));
    let outlook = look(&three(), there);
    assert_eq!(found(&outlook), ["a PodRangeCutsOff"]);
    // The other family is none the worse.
    let list: serde_json::Value = serde_json::from_str(&outlook.conflist.text).unwrap();
    assert_eq!(plan::conflist::subnets(&list), [net("fd00::/64")]);
}

#[test]
fn no_newcomer_s_address_takes_a_route_away() {
    // In the range of b, in that of this node, and in both.
    for addresses in [
        &["10.1.1.9"][..],
        &["10.1.0.9"],
        &["10.1.1.9", "fd00:0:0:2::9"],
        &["fd00::9"],
    ] {
        let found = of_hostile(&["10.7.0.0/24"], addresses);
        assert!(found.contains(&"d BadAddress".to_owned()), "{found:?}");
        let of_others = found.iter().filter(|one| !one.starts_with("d "));
        assert_eq!(of_others.count(), 0, "{found:?}");
    }
    // Where the ranges of all pods are known it matters not who is older.
    let mut all = three();
    let mut oldest = told("d", &[], &["10.1.1.9"]);
    oldest.since = String::new();
    all.push(oldest);
    assert_eq!(changes(&look(&all, seen())).len(), 3);
    let mut known = settings();
    known.cluster = Cluster::new(
        plan::Document::parse("c", "podSubnet: [10.1.0.0/16, 'fd00::/56']")
            .unwrap()
            .read()
            .unwrap(),
    )
    .unwrap();
    let outlook = Outlook::new(&known, &all, seen());
    assert_eq!(changes(&outlook), [TO_B, TO_C].concat());
    assert_eq!(found(&outlook), ["d NoPodRange", "d BadAddress"]);
}

#[test]
fn thousands_of_ranges_and_addresses_are_few_findings() {
    let ranges: Vec<String> = (0..5000_u32)
        .map(|number| format!("10.{}.{}.0/24", 64 + number / 250, number % 250))
        .collect();
    let ranges: Vec<&str> = ranges.iter().map(String::as_str).collect();
    let many = vec!["x"; 5000];
    let mut all = three();
    all.push(told("d", &ranges, &many));
    let outlook = look(&all, seen());
    assert_eq!(changes(&outlook), [TO_B, TO_C].concat());
    assert!(outlook.findings.len() < 40, "{}", outlook.findings.len());
}

#[test]
fn a_name_that_no_node_can_have() {
    let long = "x".repeat(10 << 20);
    for name in ["", "D", "d\u{1b}[2J", "d\nnode=a", "../d", &long] {
        let mut all = three();
        all.push(told(name, &["10.7.0.0/24"], &["192.0.2.13"]));
        let outlook = look(&all, seen());
        assert_eq!(changes(&outlook), [TO_B, TO_C].concat());
        let reasons: Vec<_> = outlook.findings.iter().map(|one| one.reason).collect();
        assert_eq!(reasons, [Reason::BadName]);
        let text = outlook.findings[0].to_string();
        assert!(text.len() < 2000 && !text.contains(char::is_control));
    }
}
