use std::net::IpAddr;

use ipnet::IpNet;
use net::route::{Entry, Kind};
use net::{Errno, Netlink, Route};

use crate::{Lab, link, run};

/// A number that no other maker of routes uses.
const PROTOCOL: u8 = 145;

fn net(text: &str) -> IpNet {
    text.parse().expect(text)
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect(text)
}

/// A pod with addresses of both families, its link up.
fn pod() -> Option<Lab> {
    let lab = Lab::new()?;
    lab.pod.set_up(lab.eth0.index).expect("up");
    for address in ["10.244.0.5/24", "fd00::5/64"] {
        let added = lab.pod.add_address(lab.eth0.index, net(address), true);
        added.expect("address");
    }
    Some(lab)
}

/// What the tables hold for a destination, in the order in which it is asked.
fn to(netlink: &Netlink, dst: &str) -> Vec<Entry> {
    let mut entries = netlink.tables().expect("list");
    entries.retain(|entry| entry.route.dst == net(dst));
    entries
}

#[test]
fn routes_of_every_kind_tell_who_made_them() {
    let Some(lab) = pod() else { return };
    let index = lab.eth0.index;
    for words in [
        "blackhole 192.0.2.0/24 proto static",
        "unreachable 2001:db8::/32 proto bird metric 7",
        "prohibit 198.51.100.0/24 table 1000",
        "throw 203.0.113.0/24",
        "172.16.0.0/16 via 172.31.0.1 dev eth0 onlink src 10.244.0.5",
    ] {
        if run(&lab.pod_netns, "ip", &format!("route add {words}")).is_none() {
            return;
        }
    }
    let one = |dst| {
        let entries = to(&lab.pod, dst);
        assert_eq!(entries.len(), 1, "{dst}: {entries:?}");
        entries.into_iter().next().expect("one")
    };
    let kind = |dst| (one(dst).kind, one(dst).protocol, one(dst).route.index);
    assert_eq!(kind("192.0.2.0/24"), (Kind::Blackhole, 4, 0));
    assert_eq!(kind("2001:db8::/32").0, Kind::Unreachable);
    assert_eq!(one("2001:db8::/32").protocol, 12);
    assert_eq!(one("2001:db8::/32").route.priority, Some(7));
    assert_eq!(kind("198.51.100.0/24"), (Kind::Prohibit, 3, 0));
    assert_eq!(one("198.51.100.0/24").route.table, Some(1000));
    assert_eq!(kind("203.0.113.0/24"), (Kind::Throw, 3, 0));
    assert_eq!(kind("10.244.0.0/24"), (Kind::Unicast, 2, index));
    assert_eq!(kind("10.244.0.5/32"), (Kind::Local, 2, index));
    assert_eq!(one("10.244.0.5/32").route.table, Some(255));
    let on_link = one("172.16.0.0/16");
    assert!(on_link.on_link && !on_link.dead && !on_link.multipath);
    assert_eq!(on_link.source, Some(ip("10.244.0.5")));
    assert_eq!(on_link.route.gateway, Some(ip("172.31.0.1")));
}

#[test]
fn a_route_without_a_carrier_is_told() {
    let Some(lab) = pod() else { return };
    let set = run(&lab.node_netns, "ip", "link set veth0 down");
    if set.is_none() {
        return;
    }
    let dead = || link(&lab.pod, "eth0").up && to(&lab.pod, "10.244.0.0/24")[0].dead;
    // The kernel tells of a carrier up to a second later.
    let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while !dead() {
        assert!(std::time::Instant::now() < end, "still alive");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn a_second_route_of_one_destination_is_refused_and_its_maker_kept() {
    let Some(lab) = pod() else { return };
    let index = lab.eth0.index;
    for (dst, ways) in [
        ("198.51.100.0/24", ["10.244.0.1", "10.244.0.2"]),
        ("fd09::/64", ["fd00::1", "fd00::2"]),
    ] {
        let [first, second] = ways.map(|way| Route::new(net(dst), Some(ip(way)), index));
        lab.pod.insert_route(&first, PROTOCOL).expect("first");
        for route in [&first, &second] {
            let error = lab.pod.insert_route(route, PROTOCOL).expect_err("second");
            assert!(error.is(Errno::EEXIST), "{error}");
            let text = error.to_string();
            let begins = format!("add route to {dst} via ");
            assert!(text.starts_with(&begins), "{text}");
        }
        let there = to(&lab.pod, dst);
        assert_eq!(there.len(), 1);
        assert_eq!(there[0].protocol, PROTOCOL);
        lab.pod.delete_route(&there[0]).expect("delete");
        assert_eq!(to(&lab.pod, dst), []);
        let error = lab.pod.delete_route(&there[0]).expect_err("again");
        assert!(error.is(Errno::ESRCH), "{error}");
    }
}

#[test]
fn only_the_route_that_is_meant_is_deleted() {
    let Some(lab) = pod() else { return };
    for words in [
        "198.51.100.0/24 via 10.244.0.1 proto static",
        "198.51.100.0/24 via 10.244.0.2 proto 145 metric 7",
        "198.51.100.0/24 via 10.244.0.2 proto 145 table 77",
        "blackhole 192.0.2.0/24",
        "192.0.2.0/24 via 10.244.0.1 metric 9",
        "203.0.113.0/24 nexthop via 10.244.0.1 nexthop via 10.244.0.2",
        "fd09::/64 via fd00::1 proto static metric 5",
        "fd09::/64 via fd00::2 proto 145",
        "fd0a::/64 nexthop via fd00::1 nexthop via fd00::2",
    ] {
        if run(&lab.pod_netns, "ip", &format!("route add {words}")).is_none() {
            return;
        }
    }
    for dst in [
        "198.51.100.0/24",
        "192.0.2.0/24",
        "203.0.113.0/24",
        "fd09::/64",
        "fd0a::/64",
    ] {
        let mut expected = to(&lab.pod, dst);
        while let Some(last) = expected.pop() {
            lab.pod.delete_route(&last).expect(dst);
            // Of a multipath route all ways; in IPv6 the one that is left is none.
            if last.multipath && dst.contains('.') {
                expected.clear();
            }
            if let [only] = &mut expected[..] {
                only.multipath = false;
            }
            assert_eq!(to(&lab.pod, dst), expected);
        }
    }
}
