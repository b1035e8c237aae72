use super::*;
use crate::fixture::{ip, net, route, site};

/// A node b, 192.0.2.11 on eth0, with more routes.
fn node(more: &[Entry]) -> Node {
    let link = |index, name: &str| net::Link {
        index,
        name: name.to_owned(),
        ..net::Link::default()
    };
    let connected = |dst, index| Entry {
        protocol: BY_KERNEL,
        ..route(dst, None, index)
    };
    let mut routes = vec![
        route("0.0.0.0/0", Some("192.0.2.1"), 2),
        connected("192.0.2.0/24", 2),
        connected("10.1.1.0/24", 3),
        connected("2001:db8::/64", 2),
        connected("fd00:0:0:1::/64", 3),
    ];
    routes.extend_from_slice(more);
    Node {
        links: vec![link(2, "eth0"), link(3, "cni0"), link(4, "eth1")],
        routes,
        ..Node::default()
    }
}

fn ours(dst: &str, gateway: &str) -> Entry {
    Entry {
        protocol: PROTOCOL,
        ..route(dst, Some(gateway), 2)
    }
}

/// What is compared, and what is to be done: a line each.
fn told(node: &Node, site: &Site) -> (Vec<String>, Vec<String>) {
    let lines = compare(node, site);
    let change = Change::to_plan(node, site, &lines);
    let told = lines.iter().map(|line| {
        let found = line.found.as_ref().map(|entry| words(node, entry));
        let planned = line.planned.as_ref();
        let planned = planned.map(|planned| format!("{} to {}", planned.range, planned.to));
        format!("{} {}", line.mark.as_str(), found.or(planned).unwrap())
    });
    let delete = change.delete.iter();
    let delete = delete.map(|entry| format!("- {}", words(node, entry)));
    let add = change.add.iter();
    let add = add.map(|addition| format!("+ {}", words(node, &addition.entry())));
    let blocked = change.blocked.iter();
    let blocked = blocked.map(|blocked| format!("! {}: {}", blocked.route, blocked.why));
    (told.collect(), delete.chain(add).chain(blocked).collect())
}

#[test]
fn a_bare_node_misses_all() {
    let (lines, todo) = told(&node(&[]), &site("b"));
    assert_eq!(
        lines,
        [
            "missing 10.1.0.0/24 to a",
            "missing fd00::/64 to a",
            "missing 10.1.2.0/24 to c",
            "missing fd00:0:0:2::/64 to c"
        ]
    );
    assert_eq!(
        todo,
        [
            "+ 10.1.0.0/24 via 192.0.2.10 dev eth0 proto 145",
            "+ fd00::/64 via 2001:db8::10 dev eth0 proto 145",
            "+ 10.1.2.0/24 via 192.0.2.12 dev eth0 proto 145",
            "+ fd00:0:0:2::/64 via 2001:db8::12 dev eth0 proto 145"
        ]
    );
}

#[test]
fn what_is_there_is_there_whoever_made_it() {
    let node = node(&[
        ours("10.1.0.0/24", "192.0.2.10"),
        route("10.1.2.0/24", Some("192.0.2.12"), 2),
        ours("fd00::/64", "2001:db8::10"),
        ours("fd00:0:0:2::/64", "2001:db8::12"),
    ]);
    let (lines, todo) = told(&node, &site("b"));
    assert!(
        lines.iter().all(|line| line.starts_with("planned ")),
        "{lines:?}"
    );
    assert_eq!(
        lines[2],
        "planned 10.1.2.0/24 via 192.0.2.12 dev eth0 proto static"
    );
    assert_eq!(todo, [""; 0]);
}

#[test]
fn ours_follow_the_plan_and_others_stay() {
    let node = node(&[
        // A node that has moved, one that has gone, and what others made.
        ours("10.1.0.0/24", "192.0.2.99"),
        ours("10.1.7.0/24", "192.0.2.17"),
        ours("172.16.0.0/16", "192.0.2.17"),
        route("10.1.2.0/24", Some("192.0.2.1"), 2),
        route("10.1.8.0/24", Some("192.0.2.18"), 2),
        route("172.17.0.0/16", Some("192.0.2.1"), 2),
    ]);
    let (lines, todo) = told(&node, &site("b"));
    assert_eq!(
        lines[4..],
        [
            "stale 10.1.0.0/24 via 192.0.2.99 dev eth0 proto 145",
            "stale 10.1.7.0/24 via 192.0.2.17 dev eth0 proto 145",
            "stale 172.16.0.0/16 via 192.0.2.17 dev eth0 proto 145",
            "foreign 10.1.2.0/24 via 192.0.2.1 dev eth0 proto static",
            "foreign 10.1.8.0/24 via 192.0.2.18 dev eth0 proto static"
        ]
    );
    assert_eq!(
        todo[..3],
        lines[4..7]
            .iter()
            .map(|line| line.replace("stale", "-"))
            .collect::<Vec<_>>()
    );
    assert_eq!(todo[3], "+ 10.1.0.0/24 via 192.0.2.10 dev eth0 proto 145");
    assert_eq!(
        todo.last().unwrap(),
        "! 10.1.2.0/24 via 192.0.2.1 dev eth0 proto static: another's route to c is there"
    );
}

#[test]
fn the_own_range_is_never_touched() {
    let node = node(&[
        ours("10.1.1.0/24", "192.0.2.11"),
        ours("10.1.1.128/25", "192.0.2.11"),
        route("fd00:0:0:1::/64", Some("2001:db8::12"), 2),
    ]);
    let (lines, todo) = told(&node, &site("b"));
    assert_eq!(
        lines[4],
        "stale 10.1.1.0/24 via 192.0.2.11 dev eth0 proto 145"
    );
    assert!(
        lines[6].starts_with("foreign fd00:0:0:1::/64 "),
        "{lines:?}"
    );
    assert!(todo.iter().all(|line| !line.starts_with('-')), "{todo:?}");
    let blocked =
        "! 10.1.1.0/24 via 192.0.2.11 dev eth0 proto 145: the range is b's own, and left alone";
    assert!(todo.iter().any(|line| line == blocked), "{todo:?}");
    // Asked to remove all that was added here, it is.
    let change = Change::to_nothing(&node);
    assert_eq!(change.delete.len(), 2);
    assert!(change.add.is_empty() && change.blocked.is_empty());
}

#[test]
fn a_next_hop_that_is_in_no_network_is_named() {
    let mut far = site("b");
    far.planned[0].via = ip("198.51.100.10");
    let (_, todo) = told(&node(&[]), &far);
    assert_eq!(
        todo.last().unwrap(),
        "! 10.1.0.0/24 via 198.51.100.10: its next hop is in no network of any link"
    );
    let mut by_device = site("b");
    by_device.device = Some("eth1".to_owned());
    let (_, todo) = told(&node(&[]), &by_device);
    assert_eq!(todo.len(), 4);
    assert!(
        todo[0].ends_with("its next hop is in no network of link eth1"),
        "{todo:?}"
    );
    let second = Entry {
        protocol: BY_KERNEL,
        ..route("192.0.2.0/24", None, 4)
    };
    let (_, todo) = told(&node(&[second]), &by_device);
    assert_eq!(todo[0], "+ 10.1.0.0/24 via 192.0.2.10 dev eth1 proto 145");
    // By another link it is not as planned.
    let here = ours("10.1.0.0/24", "192.0.2.10");
    let (lines, _) = told(&node(&[here]), &by_device);
    assert_eq!(lines[0], "missing 10.1.0.0/24 to a");
}

#[test]
fn of_several_ways_none_is_ours() {
    let ways = ["2001:db8::10", "2001:db8::99"].map(|way| Entry {
        multipath: true,
        ..ours("fd00::/64", way)
    });
    let (lines, todo) = told(&node(&ways), &site("b"));
    assert_eq!(lines[1], "missing fd00::/64 to a");
    assert_eq!(lines[4], "foreign fd00::/64 proto 145 metric 1024");
    assert!(!todo.iter().any(|line| line.starts_with('-')), "{todo:?}");
    assert!(
        todo.iter().any(|line| line.starts_with("! fd00::/64 ")),
        "{todo:?}"
    );
}

#[test]
fn routes_in_the_words_of_ip() {
    let node = node(&[]);
    let mut default = route("0.0.0.0/0", Some("fe80::1"), 2);
    default.route.priority = Some(7);
    default.route.table = Some(100);
    assert_eq!(
        words(&node, &default),
        "default via inet6 fe80::1 dev eth0 table 100 proto static metric 7"
    );
    let mut hole = route("10.1.1.0/24", None, 0);
    hole.kind = Kind::Blackhole;
    hole.protocol = 3;
    assert_eq!(words(&node, &hole), "blackhole 10.1.1.0/24 proto boot");
    let gone = route("10.9.0.0/16", None, 77);
    assert_eq!(words(&node, &gone), "10.9.0.0/16 dev 77 proto static");
    assert_eq!(net("10.9.0.0/16"), gone.route.dst);
}
