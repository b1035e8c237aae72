use std::net::IpAddr;

use ipnet::IpNet;
use net::Route;

use crate::{Lab, run};

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
    lab.pod
        .add_address(lab.eth0.index, net("10.244.0.5/24"), false)
        .expect("address");
    lab.pod
        .add_address(lab.eth0.index, net("fd00::5/64"), true)
        .expect("address");
    Some(lab)
}

/// The route as it reads back: with what the kernel chose for what was not asked.
fn made(route: &Route) -> Route {
    let ipv6 = matches!(route.dst, IpNet::V6(_));
    let scope = if route.gateway.is_some() { 0 } else { 253 };
    Route {
        dst: route.dst.trunc(),
        priority: route.priority.or(Some(if ipv6 { 1024 } else { 0 })),
        table: route.table.or(Some(254)),
        scope: Some(if ipv6 {
            0
        } else {
            route.scope.unwrap_or(scope)
        }),
        ..route.clone()
    }
}

#[test]
fn routes_read_back_as_made() {
    let Some(lab) = pod() else { return };
    let index = lab.eth0.index;
    let gateway4 = Some(ip("10.244.0.1"));
    let gateway6 = Some(ip("fd00::1"));
    let plain = |dst, gateway| Route::new(net(dst), gateway, index);
    let wanted = [
        plain("0.0.0.0/0", gateway4),
        plain("10.244.0.0/16", gateway4),
        plain("192.0.2.9/24", None),
        Route {
            priority: Some(50),
            ..plain("198.51.100.0/24", gateway4)
        },
        Route {
            table: Some(100),
            ..plain("0.0.0.0/0", gateway4)
        },
        Route {
            table: Some(100_000),
            ..plain("0.0.0.0/0", gateway4)
        },
        Route {
            mtu: Some(1300),
            advmss: Some(1260),
            ..plain("203.0.113.0/24", gateway4)
        },
        Route {
            scope: Some(254),
            ..plain("10.1.1.1/32", None)
        },
        plain("::/0", gateway6),
        plain("fd01::/64", None),
        Route {
            priority: Some(50),
            table: Some(1000),
            ..plain("fd02::/64", gateway6)
        },
        Route {
            mtu: Some(1300),
            advmss: Some(1240),
            ..plain("fd03::/64", gateway6)
        },
    ];
    for route in &wanted {
        lab.pod
            .add_route(route)
            .unwrap_or_else(|error| panic!("{route:?}: {error}"));
    }
    let routes = lab.pod.routes(index).expect("list");
    for route in &wanted {
        assert!(
            routes.contains(&made(route)),
            "{route:?} is not in {routes:#?}"
        );
    }
    // The kernel's own, of the addresses.
    assert!(routes.contains(&made(&plain("10.244.0.0/24", None))));
    // No other link's, and none of other kinds (local, broadcast).
    assert!(routes.iter().all(|route| route.index == index));
    assert!(!routes.iter().any(|route| route.dst == net("10.244.0.5/32")));
}

#[test]
fn the_same_destination_by_another_way_is_accepted_and_the_same_route_is_not() {
    let Some(lab) = pod() else { return };
    let index = lab.eth0.index;
    for (dst, ways) in [
        ("198.51.100.0/24", ["10.244.0.1", "10.244.0.2"]),
        ("fd09::/64", ["fd00::1", "fd00::2"]),
    ] {
        let routes = ways.map(|way| Route::new(net(dst), Some(ip(way)), index));
        for route in &routes {
            lab.pod
                .add_route(route)
                .unwrap_or_else(|error| panic!("{route:?}: {error}"));
        }
        let error = lab.pod.add_route(&routes[0]).expect_err("twice");
        assert_eq!(error.errno(), Some(nix::errno::Errno::EEXIST as i32));
        let there = lab.pod.routes(index).expect("list");
        assert!(
            routes.iter().all(|route| there.contains(&made(route))),
            "{there:#?}"
        );
    }
}

#[test]
fn the_link_that_a_packet_leaves_by() {
    let Some(lab) = pod() else { return };
    let to = |text| lab.pod.route_to(ip(text)).expect("get route");
    assert_eq!(to("10.244.0.77"), Some(lab.eth0.index));
    assert_eq!(to("fd00::77"), Some(lab.eth0.index));
    assert_eq!(to("192.0.2.1"), None);
    assert_eq!(to("2001:db8::1"), None);
}

#[test]
fn a_way_that_leads_nowhere_is_none() {
    let Some(lab) = pod() else { return };
    for (kind, ipv4, ipv6) in [
        ("unreachable", "192.0.2.0/24", "2001:db8:0::/48"),
        ("prohibit", "198.51.100.0/24", "2001:db8:1::/48"),
        ("blackhole", "203.0.113.0/24", "2001:db8:2::/48"),
    ] {
        for dst in [ipv4, ipv6] {
            if run(&lab.pod_netns, "ip", &format!("route add {kind} {dst}")).is_none() {
                return;
            }
            let way = lab.pod.route_to(net(dst).addr());
            assert_eq!(way.expect("get route"), None, "{kind} {dst}");
        }
    }
}

#[test]
fn each_leg_of_a_multipath_route_is_a_route() {
    let Some(lab) = pod() else { return };
    let ways = ["10.244.0.1", "10.244.0.2"];
    let add = ways.map(|way| format!("nexthop via {way}")).join(" ");
    if run(
        &lab.pod_netns,
        "ip",
        &format!("route add 192.0.2.0/24 {add}"),
    )
    .is_none()
    {
        return;
    }
    let routes = lab.pod.routes(lab.eth0.index).expect("list");
    let legs = routes
        .iter()
        .filter(|route| route.dst == net("192.0.2.0/24"));
    let gateways: Vec<_> = legs.map(|leg| leg.gateway).collect();
    assert_eq!(gateways, ways.map(|way| Some(ip(way))));
}

#[test]
fn a_gateway_of_the_other_family_or_out_of_reach_is_refused() {
    let Some(lab) = pod() else { return };
    let index = lab.eth0.index;
    lab.pod
        .add_route(&Route::new(net("192.0.2.0/24"), Some(ip("fd00::1")), index))
        .expect_err("family");
    let route = Route::new(net("192.0.2.0/24"), Some(ip("172.16.0.1")), index);
    let error = lab.pod.add_route(&route).expect_err("out of reach");
    let text = error.to_string();
    assert!(
        text.starts_with("add route to 192.0.2.0/24 via 172.16.0.1 on link"),
        "{text}"
    );
    assert!(text.ends_with("(Nexthop has invalid gateway)"), "{text}");
}
