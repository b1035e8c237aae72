//! podman with its backend that runs plugins: networks that it writes itself, with its bridge, portmap
//! and host-local served by the plugins under test.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use std::net::{IpAddr, SocketAddr};
use std::process::Stdio;
use std::time::Duration;

use clients::{Host, Names, PODMAN, Podman, chain, fetch, patiently};
use lab::{Namespace, Snapshot};
use serde_json::json;
use tests::{at, sh};

/// How long what is expected to fail is tried.
const SHORT: Duration = Duration::from_millis(500);

/// A node on which a container of the network `web` was, and what it holds; for each set of names.
fn each_used(label: &str, options: &str, test: impl Fn(&Host, &Podman, Names, &Snapshot)) {
    for names in Names::all() {
        let Some(host) = Host::new(label, &PODMAN) else {
            return;
        };
        let podman = Podman::new(&host);
        podman.create_network("web", options, *names);
        podman.serve("first", "--network web --publish 7080:80");
        podman.run("rm --force --time 0 first");
        let before = host.snapshot("web");
        assert_eq!(before.reservations, [""; 0]);
        test(&host, &podman, *names, &before);
    }
}

/// That nothing is left of any container.
#[track_caller]
fn expect_gone(host: &Host, before: &Snapshot) {
    host.expect_as_before("after the end", before, "web");
    assert_eq!(host.namespaces(), [""; 0]);
    let cached = std::fs::read_dir(host.node.cache.join("results")).unwrap();
    assert_eq!(cached.count(), 0, "cached results");
}

fn port(address: IpAddr, port: u16) -> SocketAddr {
    SocketAddr::new(address, port)
}

#[test]
fn a_published_port_is_reached_from_everywhere() {
    each_used("ports", "", |host, podman, _, before| {
        podman.serve(
            "w1",
            "--network web --publish 8080:80 --publish 5353:53/udp --publish 8081:81",
        );
        let pod = podman.netns("w1");
        let own = podman.address("w1", "web");
        let servers = [
            pod.serve_udp(port(own, 53)).unwrap(),
            pod.serve_tcp(port(own, 81)).unwrap(),
        ];
        podman.serve("w2", "--network web");
        let neighbour = podman.netns("w2");

        let [node, _] = host.addresses();
        let loopback = at("127.0.0.1");
        let ways = [
            (&host.outside, node),
            (&host.node.namespace, node),
            (&host.node.namespace, loopback),
            (&neighbour, node),
            (&pod, node),
        ];
        for (from, to) in ways {
            fetch(from, port(to, 8080));
            let seen = from.ask_udp(port(to, 5353)).unwrap();
            assert_eq!(seen.local, port(own, 53));
        }
        fetch(&host.node.namespace, port(own, 80));
        fetch(&neighbour, port(own, 80));
        // Who asks from outside is known by its own address.
        let seen = host.outside.ask_tcp(port(node, 8081)).unwrap();
        assert_eq!(seen.peer.ip(), at::<IpAddr>("192.0.2.1"));
        // And who asks outside by the node's.
        let outside = host.outside.serve_tcp(at("192.0.2.1:0")).unwrap();
        let seen = pod.ask_tcp(outside.address()).unwrap();
        assert_eq!(seen.peer.ip(), node);

        drop((servers, pod, neighbour));
        podman.run("rm --force --time 0 w1 w2");
        let closed = host.outside.ask_tcp_within(port(node, 8080), SHORT);
        assert!(closed.is_err(), "{closed:?}");
        expect_gone(host, before);
    });
}

#[test]
fn a_network_of_both_families() {
    let options = "--ipv6 --subnet fd00:90::/64 --subnet 10.90.0.0/24";
    each_used("families", options, |host, podman, _, before| {
        podman.serve("w1", "--network web --publish 8080:80");
        for address in host.addresses() {
            for from in [&host.outside, &host.node.namespace] {
                fetch(from, port(address, 8080));
            }
        }
        let pod = podman.netns("w1");
        for (outside, node) in ["192.0.2.1:0", "[2001:db8::1]:0"]
            .into_iter()
            .zip(host.addresses())
        {
            let outside = host.outside.serve_tcp(at(outside)).unwrap();
            let seen = pod.ask_tcp(outside.address()).unwrap();
            assert_eq!(seen.peer.ip(), node);
        }
        drop(pod);
        podman.run("rm --force --time 0 w1");
        expect_gone(host, before);
    });
}

#[test]
fn a_fixed_address_and_mac() {
    each_used(
        "fixed",
        "--subnet 10.90.0.0/24",
        |host, podman, _, before| {
            let wish = "--network web:ip=10.90.0.77,mac=02:11:22:33:44:55";
            podman.serve("w1", wish);
            for _ in 0..2 {
                let inside = podman.run("exec w1 ip address show dev eth0");
                assert!(inside.contains("inet 10.90.0.77/24 "), "{inside}");
                assert!(inside.contains("link/ether 02:11:22:33:44:55 "), "{inside}");
                fetch(&host.node.namespace, at("10.90.0.77:80"));
                podman.run("restart --time 0 w1");
            }

            // An address that is taken is refused, and nothing is left of the attempt.
            let with_one = host.snapshot("web");
            let again = podman.output(&format!("run --rm {wish} localhost/server:1"));
            let said = String::from_utf8_lossy(&again.stderr);
            assert!(
                !again.status.success() && said.contains("10.90.0.77"),
                "{said}"
            );
            host.expect_as_before("refused", &with_one, "web");

            podman.run("rm --force --time 0 w1");
            expect_gone(host, before);
            podman.serve("w2", wish);
            fetch(&host.node.namespace, at("10.90.0.77:80"));
            podman.run("rm --force --time 0 w2");
            expect_gone(host, before);
        },
    );
}

/// Without the plugins that podman puts into its own lists, one of which sets MACs too.
#[test]
fn a_network_that_was_written_by_hand() {
    for names in Names::all() {
        let Some(host) = Host::new("byhand", &PODMAN) else {
            return;
        };
        let podman = Podman::new(&host);
        let mut list = chain(*names, "1.0.0");
        let ipam = list["plugins"][0]["ipam"].as_object_mut().unwrap();
        // Only from these does podman know its networks' subnets.
        let subnet = ipam.remove("subnet").unwrap();
        ipam.insert("ranges".to_owned(), json!([[{ "subnet": subnet }]]));
        host.configure(&list);
        let [node, _] = host.addresses();
        let wish = "--network pods:ip=10.244.0.77,mac=02:11:22:33:44:55";
        let mut before = None;
        for _ in 0..2 {
            podman.serve("w1", &format!("{wish} --publish 8080:80"));
            let inside = podman.run("exec w1 ip address show dev eth0");
            assert!(inside.contains("inet 10.244.0.77/24 "), "{inside}");
            assert!(inside.contains("link/ether 02:11:22:33:44:55 "), "{inside}");
            fetch(&host.outside, port(node, 8080));
            podman.run("rm --force --time 0 w1");
            let now = host.snapshot("pods");
            assert_eq!(now.reservations, [""; 0]);
            assert_eq!(before.get_or_insert_with(|| now.clone()), &now);
        }
    }
}

#[test]
fn connected_to_another_network_and_disconnected() {
    let options = "--subnet 10.90.0.0/24";
    each_used("connected", options, |host, podman, names, before| {
        podman.create_network("other", "--subnet 10.91.0.0/24", names);
        let [node, _] = host.addresses();
        podman.serve("w1", "--network web --publish 8080:80");
        podman.run("network connect --ip 10.91.0.9 other w1");
        let pod = podman.netns("w1");
        assert_eq!(addresses(&pod), ["eth0 10.90.0.3/24", "eth1 10.91.0.9/24"]);
        fetch(&host.node.namespace, at("10.91.0.9:80"));
        fetch(&host.outside, port(node, 8080));

        podman.run("network disconnect web w1");
        assert_eq!(addresses(&pod), ["eth1 10.91.0.9/24"]);
        assert_eq!(host.snapshot("web").reservations, [""; 0]);
        // By the other network.
        fetch(&host.outside, port(node, 8080));

        podman.run("network connect web w1");
        assert_eq!(addresses(&pod), ["eth0 10.90.0.4/24", "eth1 10.91.0.9/24"]);
        fetch(&host.node.namespace, at("10.90.0.4:80"));
        fetch(&host.node.namespace, at("10.91.0.9:80"));
        fetch(&host.outside, port(node, 8080));
        drop(pod);

        podman.run("network disconnect web w1");
        podman.run("network disconnect other w1");
        podman.run("rm --force --time 0 w1");
        assert_eq!(host.snapshot("other").reservations, [""; 0]);
        podman.run("network rm other");
        // podman removes the bridge itself where it knows the type's name.
        let bridge = "! ip link show cni-podman2 2>/dev/null || ip link delete cni-podman2";
        sh(&host.node.namespace, bridge);
        expect_gone(host, before);
    });
}

/// `INTERFACE ADDRESS` of a container's IPv4 addresses, but the loopback's.
#[track_caller]
fn addresses(pod: &Namespace) -> Vec<String> {
    let shown = pod
        .read("ip", &["-4", "-o", "address", "show", "scope", "global"])
        .unwrap();
    let mut found: Vec<_> = shown
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .map(|words| format!("{} {}", words[1], words[3]))
        .collect();
    found.sort();
    found
}

#[test]
fn reloaded_restarted_stopped_and_started() {
    let options = "--subnet 10.90.0.0/24";
    each_used("again", options, |host, podman, _, before| {
        let [node, _] = host.addresses();
        podman.serve(
            "w1",
            "--network web:ip=10.90.0.9 --publish 8080:80 --publish 5353:53/udp",
        );
        let served = |case: &str| {
            let pod = podman.netns("w1");
            assert_eq!(addresses(&pod), ["eth0 10.90.0.9/24"], "{case}");
            fetch(&host.outside, port(node, 8080));
            let _server = pod.serve_udp(at("10.90.0.9:53")).unwrap();
            host.outside.ask_udp(port(node, 5353)).unwrap();
        };
        served("run");
        let running = host.snapshot("web");

        // As a firewall's restart does it.
        sh(&host.node.namespace, "iptables -t nat -F; iptables -F");
        let closed = host.outside.ask_tcp_within(port(node, 8080), SHORT);
        assert!(closed.is_err(), "{closed:?}");
        podman.run("network reload w1");
        served("reloaded");
        let now = host.snapshot("web");
        assert_eq!(rules(&now), rules(&running), "reloaded");

        podman.run("restart --time 0 w1");
        served("restarted");
        podman.run("stop --time 0 w1");
        expect_gone(host, before);
        podman.run("start w1");
        served("started");
        assert_eq!(rules(&host.snapshot("web")), rules(&running), "started");
        // Its process ends without podman.
        podman.run("kill w1");
        podman.run("wait w1");
        patiently(|| {
            let left = host.snapshot("web").reservations;
            if left.is_empty() { Ok(()) } else { Err(left) }
        });
        podman.run("rm --force --time 0 w1");
        expect_gone(host, before);
    });
}

/// The rules, in an order of their own.
fn rules(snapshot: &Snapshot) -> Vec<String> {
    let mut rules = snapshot.rules.clone();
    rules.sort();
    rules
}

#[test]
fn many_at_once() {
    each_used("many", "", |host, podman, _, before| {
        let starts: Vec<_> = (0..8)
            .map(|number| {
                let mut run = podman.command(&format!(
                    "run --detach --name c{number} --network web --publish 80{number}0:80 localhost/server:1"
                ));
                host.node.namespace.spawn(run.stdout(Stdio::null())).unwrap()
            })
            .collect();
        for mut start in starts {
            assert!(start.wait().unwrap().success());
        }
        let [node, _] = host.addresses();
        for number in 0..8 {
            fetch(&host.outside, port(node, 8000 + 10 * number));
        }
        assert_eq!(host.snapshot("web").reservations.len(), 8);
        podman.run("rm --force --time 0 --all");
        expect_gone(host, before);
    });
}
