//! What is told, what is there, and what follows.

mod hostile;

use std::net::IpAddr;
use std::path::PathBuf;

use ipnet::IpNet;
use net::route::{Entry, Kind};
use net::{Address, Link, Route};
use node::routes::{Mark, PROTOCOL, words};
use node::{Network, Node, Places, Reservation};
use plan::Cluster;
use plan::conflist::Types;
use plan::keys::ClusterKeys;
use plan::kubernetes::Told;

use crate::*;

const FILE: &str = "/conf/10-podnet.conflist";

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

/// A node that is told of; the later in the alphabet, the later it came.
fn told(name: &str, ranges: &[&str], addresses: &[&str]) -> Told {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    Told {
        name: name.to_owned(),
        since: format!("2026-01-01T00:00:00Z{name}"),
        ranges: texts(ranges),
        addresses: texts(addresses),
    }
}

/// The nodes a, b and c, with ranges and addresses of both families.
fn three() -> Vec<Told> {
    let one = |name: &str, number: u8| {
        let ranges = [
            format!("10.1.{number}.0/24"),
            format!("fd00:0:0:{number}::/64"),
        ];
        let addresses = [format!("192.0.2.1{number}"), format!("2001:db8::1{number}")];
        told(
            name,
            &ranges.each_ref().map(String::as_str),
            &addresses.each_ref().map(String::as_str),
        )
    };
    vec![one("a", 0), one("b", 1), one("c", 2)]
}

fn route(dst: &str, gateway: Option<&str>, protocol: u8) -> Entry {
    let mut route = Route::new(net(dst), gateway.map(ip), 2);
    route.table = Some(254);
    route.priority = Some(if dst.contains(':') { 1024 } else { 0 });
    Entry {
        route,
        kind: Kind::Unicast,
        protocol,
        source: None,
        on_link: false,
        dead: false,
        multipath: false,
    }
}

fn address(text: &str) -> Address {
    Address {
        net: net(text),
        tentative: false,
        dad_failed: false,
        global: true,
    }
}

/// What is on node a: eth0, and the plugins.
fn seen() -> Seen {
    let link = |index, name: &str, mtu| Link {
        index,
        name: name.to_owned(),
        mtu,
        ..Link::default()
    };
    let address = |index, text: &str| (index, address(text));
    let node = Node {
        links: vec![link(2, "eth0", 1400), link(3, "cni0", 1500)],
        addresses: vec![address(2, "192.0.2.10/24"), address(2, "2001:db8::10/64")],
        routes: vec![
            route("192.0.2.0/24", None, 2),
            route("2001:db8::/64", None, 2),
        ],
        ..Node::default()
    };
    let programs = [
        "bridge-lite",
        "host-local-lite",
        "portmap-lite",
        "bandwidth-lite",
    ];
    Seen {
        node,
        programs: programs.map(str::to_owned).into(),
        ..Seen::default()
    }
}

fn settings() -> Settings {
    Settings {
        own: "a".to_owned(),
        cluster: Cluster::new(ClusterKeys::default()).unwrap(),
        device: None,
        types: Types::Lite,
        data: None,
        api: Vec::new(),
        file: FILE.into(),
        places: Places {
            conf: "/conf".into(),
            runtime: cni::runtime::Runtime::new(vec!["/bin".into()], PathBuf::new()),
        },
    }
}

fn look(told: &[Told], seen: Seen) -> Outlook {
    Outlook::new(&settings(), told, seen)
}

/// The changes of routes, a line each.
fn changes(outlook: &Outlook) -> Vec<String> {
    let (node, change) = (&outlook.node, &outlook.change);
    let gone = change
        .delete
        .iter()
        .map(|entry| format!("- {}", words(node, entry)));
    let come = change.add.iter();
    let come = come.map(|one| format!("+ {}", words(node, &one.entry())));
    gone.chain(come).collect()
}

/// Node and reason of each finding.
fn found(outlook: &Outlook) -> Vec<String> {
    let findings = outlook.findings.iter();
    findings
        .map(|one| format!("{} {}", one.node, one.reason))
        .collect()
}

const TO_B: [&str; 2] = [
    "+ 10.1.1.0/24 via 192.0.2.11 dev eth0 proto 145",
    "+ fd00:0:0:1::/64 via 2001:db8::11 dev eth0 proto 145",
];
const TO_C: [&str; 2] = [
    "+ 10.1.2.0/24 via 192.0.2.12 dev eth0 proto 145",
    "+ fd00:0:0:2::/64 via 2001:db8::12 dev eth0 proto 145",
];

#[test]
fn a_route_for_each_range_of_the_others_and_a_conflist_of_the_own() {
    let outlook = look(&three(), seen());
    assert_eq!(changes(&outlook), [TO_B, TO_C].concat());
    assert_eq!(found(&outlook), [""; 0]);
    assert_eq!(outlook.conflist.step, Step::Write);
    let list: serde_json::Value = serde_json::from_str(&outlook.conflist.text).unwrap();
    assert_eq!(list["plugins"][0]["mtu"], 1400);
    assert_eq!(
        plan::conflist::subnets(&list),
        [net("10.1.0.0/24"), net("fd00::/64")]
    );
    // Written, there is nothing left to do.
    let mut seen = seen();
    seen.conflist = Some(outlook.conflist.text.clone());
    let routes = outlook.change.add.iter().map(|one| {
        let mut entry = one.entry();
        entry.route.table = Some(254);
        entry
    });
    seen.node.routes.extend(routes);
    let again = look(&three(), seen);
    assert!(again.is_done(), "{again:?}");
    assert_eq!((again.wanted(), again.present()), (4, 4));
    assert_eq!(again.obstacles().count(), 0);
}

#[test]
fn one_bad_node_stops_none_of_the_others() {
    for (bad, expected) in [
        (told("d", &[], &["192.0.2.13"]), "d NoPodRange"),
        (
            told("d", &["fd00:0:0:9::/64"], &["192.0.2.13"]),
            "d NoAddress",
        ),
        (
            told("d", &["10.1.9.0/33"], &["192.0.2.13"]),
            "d BadPodRange",
        ),
        (told("d", &["0.0.0.0/0"], &["192.0.2.13"]), "d BadPodRange"),
        (
            told("d", &["224.0.0.0/8"], &["192.0.2.13"]),
            "d BadPodRange",
        ),
        (told("d", &[""], &["192.0.2.13"]), "d BadPodRange"),
        (told("d", &["10.1.9.0/24"], &[]), "d NoAddress"),
        (
            told("d", &["10.1.9.0/24"], &["198.51.100.9"]),
            "d NextHopOffLink",
        ),
        (
            told("d", &["10.1.9.0/24"], &["192.0.2.10"]),
            "d AddressIsOurs",
        ),
        (
            told("d", &["192.0.0.0/16"], &["192.0.2.13"]),
            "d PodRangeHoldsNodes",
        ),
        (
            told("d", &["10.1.0.0/16"], &["192.0.2.13"]),
            "d PodRangeOverlaps",
        ),
        (
            told("d", &["10.1.1.128/25"], &["192.0.2.13"]),
            "d PodRangeOverlaps",
        ),
    ] {
        let mut all = three();
        all.insert(1, bad.clone());
        let outlook = look(&all, seen());
        assert_eq!(changes(&outlook), [TO_B, TO_C].concat(), "{bad:?}");
        let found = found(&outlook);
        assert!(found.contains(&expected.to_owned()), "{bad:?}: {found:?}");
        assert_eq!(outlook.conflist.step, Step::Write, "{bad:?}");
        assert_eq!(outlook.obstacles().filter(|one| one.node == "d").count(), 0);
    }
}

#[test]
fn an_address_that_is_none_leaves_the_others_of_its_node() {
    let mut all = three();
    all[1].addresses.insert(0, "127.0.0.1".to_owned());
    all[1].addresses.insert(0, "x".to_owned());
    let outlook = look(&all, seen());
    assert_eq!(changes(&outlook), [TO_B, TO_C].concat());
    assert_eq!(found(&outlook), ["b BadAddress", "b BadAddress"]);
}

#[test]
fn of_overlapping_ranges_the_first_keeps_its_route_and_both_are_named() {
    let mut all = three();
    all[2].ranges = all[1].ranges.clone();
    for _ in 0..2 {
        let outlook = look(&all, seen());
        assert_eq!(changes(&outlook), TO_B);
        let overlaps = ["b", "b", "c", "c"].map(|node| format!("{node} PodRangeOverlaps"));
        assert_eq!(found(&outlook), overlaps);
        // In whichever order they are told.
        all.reverse();
    }
}

#[test]
fn nothing_ever_leads_to_the_own_range() {
    // An older node has a part of it.
    let mut all = three();
    all[1].ranges = vec!["10.1.0.0/25".to_owned()];
    all[1].since = String::new();
    let outlook = look(&all, seen());
    assert_eq!(changes(&outlook), TO_C);
    assert_eq!(
        found(&outlook),
        ["a PodRangeOverlaps", "b PodRangeOverlaps"]
    );
    // Only the family that nobody else has.
    let list: serde_json::Value = serde_json::from_str(&outlook.conflist.text).unwrap();
    assert_eq!(plan::conflist::subnets(&list), [net("fd00::/64")]);
}

#[test]
fn there_is_never_a_conflist_without_a_range() {
    for ranges in [&[][..], &["10.1.0.0/31"], &["x"]] {
        let mut all = three();
        all[0].ranges = ranges.iter().map(|range| (*range).to_owned()).collect();
        let outlook = look(&all, seen());
        let conflist = (outlook.conflist.step, outlook.conflist.text.as_str());
        assert_eq!(conflist, (Step::Wait, ""), "{ranges:?}");
        assert_eq!(outlook.obstacles().count(), 1, "{ranges:?}");
        assert_eq!(changes(&outlook), [TO_B, TO_C].concat());
    }
}

/// Of another cluster, or of none: not even that others are gone is believed.
#[test]
fn where_this_node_is_unknown_nothing_is_changed() {
    for told in [&[][..], &three()[1..], &three()[2..]] {
        let mut there = seen();
        there
            .node
            .routes
            .push(route("10.1.1.0/24", Some("192.0.2.11"), PROTOCOL));
        let outlook = look(told, there);
        assert_eq!(found(&outlook), ["a NodeUnknown"]);
        assert_eq!(outlook.conflist.step, Step::Wait);
        assert!(outlook.is_done(), "{:?}", changes(&outlook));
        let stale = outlook.lines.iter().filter(|line| line.mark == Mark::Stale);
        assert_eq!(stale.count(), 0);
    }
}

/// The node as it was with another range, and pods with these addresses.
fn of_former_range(addresses: &[&str]) -> Seen {
    let mut before = three();
    before[0].ranges = vec!["10.9.0.0/24".to_owned()];
    let text = look(&before, seen()).conflist.text;
    let list = cni::runtime::NetworkList::parse(text.clone().into_bytes()).unwrap();
    let mut network = Network::new(std::path::Path::new(FILE), &list);
    let reservations = addresses
        .iter()
        .enumerate()
        .map(|(number, address)| Reservation {
            address: ip(address),
            container_id: format!("pod{number}"),
            ifname: None,
            file: PathBuf::new(),
        });
    network.reservations = Some(reservations.collect());
    let mut seen = seen();
    seen.conflist = Some(text);
    seen.node.networks = vec![network];
    seen.node.addresses.push((3, address("10.9.0.1/24")));
    seen
}

#[test]
fn another_range_is_refused_while_pods_hold_addresses_of_the_former() {
    let outlook = look(&three(), of_former_range(&["10.9.0.2", "10.9.0.3"]));
    assert_eq!(found(&outlook), ["a PodRangeChanged"]);
    assert_eq!(outlook.conflist.step, Step::Wait);
    let message = &outlook.findings[0].message;
    assert!(
        message.contains("was 10.9.0.0/24")
            && message.contains("2 pods")
            && message.contains("drain a"),
        "{message}"
    );
    assert_eq!(outlook.obstacles().count(), 1);
    // The others' routes are none the worse.
    assert_eq!(changes(&outlook), [TO_B, TO_C].concat());
    let mut unread = of_former_range(&[]);
    unread.node.networks[0].reservations = None;
    assert_eq!(look(&three(), unread).conflist.step, Step::Wait);
}

#[test]
fn another_range_is_taken_when_no_pod_has_an_address_of_the_former() {
    let outlook = look(&three(), of_former_range(&[]));
    assert_eq!(outlook.conflist.step, Step::Write);
    assert_eq!(outlook.conflist.former, [(3, net("10.9.0.1/24"))]);
}

#[test]
fn what_is_stale_goes_and_what_is_another_s_stays() {
    let mut there = seen();
    there.node.routes.extend([
        route("10.1.7.0/24", Some("192.0.2.17"), PROTOCOL),
        route("10.1.8.0/24", Some("192.0.2.18"), 4),
        route("10.1.1.0/24", Some("192.0.2.99"), 4),
        route("10.1.2.0/24", Some("192.0.2.99"), PROTOCOL),
    ]);
    let outlook = look(&three(), there);
    let expected = [
        "- 10.1.7.0/24 via 192.0.2.17 dev eth0 proto 145",
        "- 10.1.2.0/24 via 192.0.2.99 dev eth0 proto 145",
        TO_B[1],
        TO_C[0],
        TO_C[1],
    ];
    assert_eq!(changes(&outlook), expected);
    assert_eq!(found(&outlook), ["b ForeignRoute"]);
}

#[test]
fn what_is_missing_in_the_folders_is_found() {
    let mut there = seen();
    there.programs.clear();
    let outlook = look(&three(), there);
    assert_eq!(found(&outlook), ["a PluginMissing"; 4]);
    assert_eq!(outlook.obstacles().count(), 4);
}

#[test]
fn every_reason_has_a_word_of_its_own() {
    let words: std::collections::BTreeSet<_> = Reason::ALL.iter().map(|one| one.as_str()).collect();
    assert_eq!(words.len(), Reason::ALL.len());
}
