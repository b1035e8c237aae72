//! What the bandwidth plugin lets pass, measured, and what it makes of unusual limits.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use lab::{Namespace, Window};
use net::Qdisc;
use serde_json::{Value, json};
use tests::{Attached, Family, at, expect_none, with};

/// `TC_H_ROOT` of linux/pkt_sched.h.
const ROOT: u32 = 0xffff_ffff;
/// What runtimes send for a burst that nobody chose: the largest signed and unsigned 32-bit number.
const STAND_INS: [u64; 2] = [2_147_483_647, 4_294_967_295];

/// Which way packets go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    In,
    Out,
}

fn limits(ingress: (u64, u64), egress: (u64, u64)) -> Value {
    json!({
        "ingressRate": ingress.0, "ingressBurst": ingress.1,
        "egressRate": egress.0, "egressBurst": egress.1
    })
}

/// A shaped pod, and a host beyond the node's uplink.
struct Shaped {
    attached: Attached,
    outside: Namespace,
}

fn shaped(label: &str, family: Family, limits: &Value) -> Option<Shaped> {
    let asked = json!({ "bandwidth": limits });
    let attached = Attached::new(label, family.conflist(), &[], &asked)?;
    let outside = attached.node.outside_of(&[family]);
    Some(Shaped { attached, outside })
}

fn attached(label: &str, changes: &[(&str, Value)], limits: &Value) -> Option<Attached> {
    let asked = json!({ "bandwidth": limits });
    Attached::new(label, Family::V4.conflist(), changes, &asked)
}

/// Bits per second into the pod from the node, or out of it to the host outside.
fn measure(shaped: &Shaped, way: Way, window: Window) -> f64 {
    let Attached {
        node, pod, result, ..
    } = &shaped.attached;
    let own: IpAddr = result.ips[0].address.addr();
    let host = at(Family::of(own).pick("192.0.2.1:0", "[2001:db8::1]:0"));
    let measured = match way {
        Way::In => lab::throughput(
            &node.namespace,
            &pod.namespace,
            SocketAddr::new(own, 0),
            window,
        ),
        Way::Out => lab::throughput(&pod.namespace, &shaped.outside, host, window),
    };
    measured.unwrap()
}

/// What is wrong with a rate: it must come within a tenth of `asked`, if not at once, on a machine
/// that has other things to do. What is not shaped never does.
fn off(shaped: &Shaped, way: Way, asked: f64) -> Option<String> {
    let window = Window {
        warm_up: Duration::from_millis(300),
        counted: Duration::from_millis(1000),
    };
    let mut measured = Vec::new();
    for _ in 0..4 {
        let rate = measure(shaped, way, window);
        if (rate - asked).abs() <= asked / 10.0 {
            return None;
        }
        measured.push(rate);
    }
    Some(format!("{way:?}: {measured:?} instead of {asked}"))
}

#[test]
fn the_asked_rates_are_had() {
    // A burst of 20 ms.
    let table = [(5_000_000, 50_000_000), (50_000_000, 5_000_000)];
    let mut failed = Vec::new();
    for family in Family::ALL {
        for (ingress, egress) in table {
            let limits = limits((ingress, ingress / 50), (egress, egress / 50));
            let Some(shaped) = shaped("rates", family, &limits) else {
                return;
            };
            failed.extend(off(&shaped, Way::In, ingress as f64));
            failed.extend(off(&shaped, Way::Out, egress as f64));
        }
    }
    expect_none(failed);
}

/// A frame's time at the rate is longer than the kernel counts by itself, and the burst that was asked
/// for less than a frame.
#[test]
fn a_whole_frame_passes_however_low_the_rate() {
    const PAYLOAD: usize = 1400;
    for family in Family::ALL {
        let low = limits((1000, 8), (1000, 8));
        let Some(shaped) = shaped("low", family, &low) else {
            return;
        };
        let Attached {
            node, pod, result, ..
        } = &shaped.attached;
        let bind = |namespace: &Namespace, address: IpAddr| {
            let socket = namespace
                .run(|| UdpSocket::bind((address, 0)))
                .unwrap()
                .unwrap();
            // What the kernel says for itself at first takes some of the bucket.
            let patience = Duration::from_secs(120);
            socket.set_read_timeout(Some(patience)).unwrap();
            socket
        };
        let inside = bind(&pod.namespace, result.ips[0].address.addr());
        let outside = bind(&node.namespace, result.ips[0].gateway.unwrap());
        for (from, to) in [(&outside, &inside), (&inside, &outside)] {
            from.send_to(&[0; PAYLOAD], to.local_addr().unwrap())
                .unwrap();
            let received = to.recv(&mut [0; 2 * PAYLOAD]);
            assert_eq!(received.ok(), Some(PAYLOAD), "{family:?}");
        }
        shaped.attached.check().unwrap();
    }
}

#[test]
fn a_stand_in_for_a_burst_lets_nothing_pass_unshaped() {
    let rate = 20_000_000;
    let first_second = Window {
        warm_up: Duration::ZERO,
        counted: Duration::from_secs(1),
    };
    for burst in STAND_INS {
        let Some(shaped) = shaped("burst", Family::V4, &limits((rate, burst), (rate, burst)))
        else {
            return;
        };
        for way in [Way::In, Way::Out] {
            let passed = measure(&shaped, way, first_second);
            // A tenth of a second's worth may pass at once.
            assert!(passed < rate as f64 * 1.3, "{burst} {way:?}: {passed}");
        }
    }
}

#[test]
fn one_way_only_leaves_the_other_alone() {
    let rate = 5_000_000;
    let window = Window {
        warm_up: Duration::from_millis(200),
        counted: Duration::from_millis(300),
    };
    for way in [Way::In, Way::Out] {
        let one = match way {
            Way::In => json!({ "ingressRate": rate, "ingressBurst": rate / 50 }),
            Way::Out => json!({ "egressRate": rate, "egressBurst": rate / 50 }),
        };
        let Some(shaped) = shaped("oneway", Family::V4, &one) else {
            return;
        };
        let other = match way {
            Way::In => Way::Out,
            Way::Out => Way::In,
        };
        assert_eq!(off(&shaped, way, rate as f64), None);
        let free = measure(&shaped, other, window);
        assert!(free > rate as f64 * 4.0, "{other:?}: {free}");

        let attached = &shaped.attached;
        let made = [
            root(&attached.node.namespace, attached.veth()).is_some_and(|tbf| tbf.kind == "tbf"),
            !attached.ifb().is_empty(),
        ];
        assert_eq!(made, [way == Way::In, way == Way::Out]);
        let snapshot = attached.node.snapshot(&attached.list.name);
        let ingress = snapshot
            .qdiscs
            .iter()
            .any(|line| line.contains(" ingress "));
        assert_eq!(ingress, way == Way::Out, "{snapshot}");
        assert_eq!(
            snapshot.links.iter().any(|line| line.contains(" ifb ")),
            way == Way::Out
        );
    }
}

/// The qdisc at a link's root.
fn root(node: &Namespace, link: &str) -> Option<Qdisc> {
    let netlink = node.netlink().unwrap();
    let index = netlink.link(link).unwrap()?.index;
    let mut qdiscs = netlink.qdiscs(index).unwrap().into_iter();
    qdiscs.find(|qdisc| qdisc.parent == ROOT)
}

/// The rate of the bucket at a link's root, in bits per second.
fn rate(node: &Namespace, link: &str) -> Option<u64> {
    root(node, link)?.tbf.map(|tbf| tbf.rate * 8)
}

#[test]
fn large_and_odd_limits_are_read_back_right() {
    // More is refused.
    let most = 1 << 55;
    // 2^32 bytes per second is the first rate that needs 64 bits.
    let edge = (1 << 32) * 8;
    let table = [
        (edge - 8, 800_000),
        (edge, 800_000),
        (edge + 8, 800_000),
        (40_000_000_000, 80_000_000),
        (400_000_000_000, 2_147_483_647),
        (most, 4_294_967_295),
        (1_000_000, 34_359_738_359),
        (8, 8),
        (1000, 1_000_000),
    ];
    for (asked, burst) in table {
        let limits = limits((asked, burst), (asked, burst));
        let Some(attached) = attached("large", &[], &limits) else {
            return;
        };
        for link in [attached.veth(), attached.ifb()] {
            let found = rate(&attached.node.namespace, link);
            assert_eq!(found, Some(asked), "burst {burst}");
        }
        attached.node.del(&attached.list, &attached.pod).unwrap();
    }
}

#[test]
fn static_limits_win_over_the_capability() {
    let capability = limits((8_000_000, 800_000), (8_000_000, 800_000));
    // Keys of the configuration, and the rates into and out of the pod that they leave.
    let table = [
        (json!({}), Some(8_000_000), Some(8_000_000)),
        (
            limits((1_000_000, 80_000), (2_000_000, 80_000)),
            Some(1_000_000),
            Some(2_000_000),
        ),
        (
            json!({ "egressRate": 2_000_000, "egressBurst": 80_000 }),
            None,
            Some(2_000_000),
        ),
        (
            json!({ "INGRESSRATE": 1_000_000, "ingressburst": 80_000 }),
            Some(1_000_000),
            None,
        ),
        (json!({ "ingressRate": 0 }), None, None),
    ];
    for (keys, ingress, egress) in table {
        let what = keys.to_string();
        let Some(attached) = attached("static", &[("bandwidth", keys)], &capability) else {
            return;
        };
        let node = &attached.node.namespace;
        let found = [attached.veth(), attached.ifb()].map(|link| rate(node, link));
        assert_eq!(found, [ingress, egress], "{what}");
    }
}

#[test]
fn a_second_add_replaces_the_first() {
    let first = limits((1_000_000, 80_000), (2_000_000, 80_000));
    let Some(attached) = attached("again", &[], &first) else {
        return;
    };
    let node = &attached.node;
    let result = attached.result.to_json(attached.list.cni_version).unwrap();
    let without_ifb = |mut result: Value| {
        result["interfaces"].as_array_mut().unwrap().truncate(3);
        result
    };
    let snapshot = || node.snapshot(&attached.list.name);
    let (links, qdiscs) = (snapshot().links.len(), snapshot().qdiscs.len());
    // What is asked for then, and the rates that it leaves.
    let table = [
        (
            limits((3_000_000, 80_000), (4_000_000, 80_000)),
            [Some(3_000_000), Some(4_000_000)],
        ),
        (first, [Some(1_000_000), Some(2_000_000)]),
    ];
    for (asked, expected) in table {
        let configs = node.configs(&attached.list, &json!({ "bandwidth": asked }));
        let config = with(&configs[2], "prevResult", &without_ifb(result.clone()));
        let call = |command, config: &Value| {
            let answer = node.call("bandwidth", command, &attached.pod, config, &[]);
            answer.ok().clone()
        };
        let added = call("ADD", &config);
        call("CHECK", &with(&config, "prevResult", &added));
        let rates = [attached.veth(), attached.ifb()].map(|link| rate(&node.namespace, link));
        assert_eq!(rates, expected);
        let now = snapshot();
        assert_eq!(
            (now.links.len(), now.qdiscs.len()),
            (links, qdiscs),
            "{now}"
        );
    }
}
