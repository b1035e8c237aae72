//! The lab at work: two namespaces, joined, with servers and probes in them.

// What these tests share fails as they do.
#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use ipnet::IpNet;
use lab::{End, Lab, Namespace, Snapshot, Window};

/// Two joined namespaces, of both families.
struct Pair {
    left: Namespace,
    right: Namespace,
    _lab: Lab,
}

/// `None`, said aloud, where this machine cannot make them.
fn pair(label: &str) -> Option<Pair> {
    if let Err(reason) = lab::supported() {
        lab::skip(&reason);
        return None;
    }
    let lab = Lab::new(label).unwrap();
    let (left, right) = (
        lab.namespace("left").unwrap(),
        lab.namespace("right").unwrap(),
    );
    let end = |namespace, addresses| End {
        namespace,
        link: "eth0",
        addresses,
    };
    lab::connect(
        end(&left, &[net("192.0.2.1/24"), net("2001:db8::1/64")]),
        end(&right, &[net("192.0.2.2/24"), net("2001:db8::2/64")]),
    )
    .unwrap();
    Some(Pair {
        left,
        right,
        _lab: lab,
    })
}

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

const FAMILIES: [(&str, &str); 2] = [("192.0.2.1", "192.0.2.2"), ("2001:db8::1", "2001:db8::2")];

#[test]
fn a_server_tells_who_asked_and_where() {
    let Some(pair) = pair("ask") else { return };
    for (left, right) in FAMILIES {
        let at = SocketAddr::new(ip(right), 80);
        let servers = [
            pair.right.serve_tcp(at).unwrap(),
            pair.right.serve_udp(at).unwrap(),
        ];
        for seen in [
            pair.left.ask_tcp(at).unwrap(),
            pair.left.ask_udp(at).unwrap(),
        ] {
            assert_eq!((seen.peer.ip(), seen.local), (ip(left), at));
        }
        drop(servers);
        pair.left.ask_tcp(at).unwrap_err();
        pair.left
            .ask_udp_within(at, Duration::from_millis(50))
            .unwrap_err();
    }
}

#[test]
fn a_ping_is_answered_by_what_is_there_only() {
    let Some(pair) = pair("ping") else { return };
    for (_, right) in FAMILIES {
        pair.left.ping(ip(right)).unwrap();
        pair.left.ping(ip(right)).unwrap();
    }
    pair.left.ping(ip("198.51.100.1")).unwrap_err();
}

#[test]
fn throughput_is_what_the_shaper_lets_pass() {
    let Some(pair) = pair("rate") else { return };
    let shape = "qdisc add dev eth0 root tbf rate 16mbit burst 100kb latency 25ms";
    pair.left
        .read("tc", &shape.split(' ').collect::<Vec<_>>())
        .unwrap();
    let window = Window {
        warm_up: Duration::from_millis(500),
        counted: Duration::from_millis(700),
    };
    for (_, right) in FAMILIES {
        let at = SocketAddr::new(ip(right), 0);
        let rate = lab::throughput(&pair.left, &pair.right, at, window).unwrap();
        // Wide, since other tests run beside it; unshaped it would be a thousand times as much.
        assert!((8e6..20e6).contains(&rate), "{rate}");
    }
    let nowhere = SocketAddr::new(ip("192.0.2.3"), 0);
    lab::throughput(&pair.left, &pair.right, nowhere, window).unwrap_err();
}

#[test]
fn throughput_waits_as_it_is_told() {
    let Some(pair) = pair("wait") else { return };
    let hours = |count: u64| Duration::from_secs(3600 * count);
    let window = Window {
        warm_up: hours(1),
        counted: hours(2),
    };
    let waited = RefCell::new(Vec::new());
    let wait = |time| waited.borrow_mut().push(time);
    let at = SocketAddr::new(ip(FAMILIES[0].1), 0);
    lab::throughput_with(&pair.left, &pair.right, at, window, wait).unwrap();
    assert_eq!(waited.into_inner(), [hours(1), hours(2)]);
}

#[test]
fn a_snapshot_tells_what_was_added() {
    let Some(pair) = pair("snapshot") else { return };
    let store = Path::new("/nonexistent");
    let before = Snapshot::of(&pair.left, store).unwrap();
    assert_eq!(before.links.len(), 2, "{before}");
    assert_eq!(Snapshot::of(&pair.left, store).unwrap(), before);

    let ip = |line: &str| {
        pair.left
            .read("ip", &line.split(' ').collect::<Vec<_>>())
            .unwrap()
    };
    ip("link add br0 type bridge");
    ip("address add 10.0.0.1/24 dev br0");
    pair.left
        .read(
            "tc",
            &["qdisc", "add", "dev", "br0", "handle", "ffff:", "ingress"],
        )
        .unwrap();
    if lab::find_tool("iptables").is_some() {
        let rule = [
            "-t",
            "nat",
            "-A",
            "POSTROUTING",
            "-s",
            "10.0.0.2",
            "-j",
            "ACCEPT",
        ];
        pair.left.read("iptables", &rule).unwrap();
    }
    let added = Snapshot::of(&pair.left, store).unwrap().since(&before);
    assert!(added.links[0].starts_with("br0 bridge mac"), "{added}");
    assert!(added.links[0].ends_with("address 10.0.0.1/24"), "{added}");
    assert_eq!(added.qdiscs, ["br0 ingress handle ffff:"]);
    let rules = added.filter(|line| line.ends_with("nat: -A POSTROUTING -s 10.0.0.2/32 -j ACCEPT"));
    assert_eq!(rules.rules.len(), 1);
}

#[test]
fn a_panic_leaves_no_namespace() {
    let Some(pair) = pair("panic") else { return };
    let path = pair.left.path().to_owned();
    assert!(path.exists());
    let thread = std::thread::spawn(move || {
        let _pair = pair;
        std::panic::resume_unwind(Box::new("on purpose"));
    });
    thread.join().unwrap_err();
    assert!(!path.exists());
}

#[test]
fn a_kept_lab_outlives_its_drop() {
    let Some(pair) = pair("kept") else { return };
    let (path, folder) = (pair.left.path().to_owned(), pair._lab.folder().to_owned());
    pair._lab.keep().unwrap();
    drop(pair);
    assert!(path.exists());
    lab::sweep(false).unwrap();
    assert!(path.exists(), "a kept lab is passed by");

    // As after the kill of a run that was not to be kept.
    std::fs::remove_file(folder.join("kept")).unwrap();
    lab::sweep(false).unwrap();
    assert!(!path.exists() && !folder.exists());
}
