//! Pods as a kubelet runs them, through containerd's CRI.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use clients::{
    CONTAINERD, Containerd, Cri, Host, HostPort, Names, SERVER, are_ours, chain, fetch, patiently,
    pod, with_dns, with_rates,
};
use cri::State;
use cri::v1::Protocol::{Tcp, Udp};
use lab::{Namespace, Snapshot, Window};
use serde_json::{Value, json};
use tests::at;

const PORTS: [HostPort; 2] = [(8080, 80, Tcp), (5353, 53, Udp)];

/// How long what is expected to fail is tried.
const SHORT: Duration = Duration::from_millis(500);

/// A node whose containerd has run a pod, and what it holds now; for each set of names.
fn each_used(
    label: &str,
    network: impl Fn(Names) -> Value,
    test: impl Fn(&Host, &mut Containerd, &mut Cri, &Snapshot),
) {
    for names in Names::all() {
        let Some(host) = Host::new(label, &CONTAINERD) else {
            return;
        };
        host.configure(&network(*names));
        let mut containerd = Containerd::start(&host);
        containerd.import(&SERVER, "k8s.io");
        let mut cri = Cri::connect(&host, &containerd);
        await_network(&mut cri);
        let first = cri.run(&with_rates(pod("first", &PORTS), "10M", "10M"));
        cri.end(&first);
        let before = host.snapshot("pods");
        assert_eq!(before.reservations, [""; 0]);
        test(&host, &mut containerd, &mut cri, &before);
    }
}

/// containerd reads the folder of configurations when it starts, and says when it is done.
#[track_caller]
fn await_network(cri: &mut Cri) {
    patiently(|| {
        let conditions = cri.client().conditions().unwrap();
        let ready = |kind: &str| {
            conditions
                .iter()
                .any(|one| one.r#type == kind && one.status)
        };
        (ready("NetworkReady") && ready("RuntimeReady"))
            .then_some(())
            .ok_or(conditions)
    });
}

/// That nothing is left of any pod.
#[track_caller]
fn expect_gone(host: &Host, before: &Snapshot) {
    host.expect_as_before("after the end", before, "pods");
    assert_eq!(host.namespaces(), [""; 0]);
    let cached = std::fs::read_dir(host.node.cache.join("results")).unwrap();
    assert_eq!(cached.count(), 0, "cached results");
}

/// A chain with addresses of both families.
fn dual_stack(names: Names) -> Value {
    let mut list = chain(names, "1.0.0");
    list["plugins"][0]["ipam"] = json!({
        "type": names.of("host-local"),
        "ranges": [[{ "subnet": "10.244.0.0/24" }], [{ "subnet": "fd00:10:244::/64" }]],
        "routes": [{ "dst": "0.0.0.0/0" }, { "dst": "::/0" }]
    });
    list
}

fn ipv4(names: Names) -> Value {
    chain(names, "1.0.0")
}

#[test]
fn a_host_port_is_reached_from_everywhere() {
    each_used("cri-ports", ipv4, |host, _, cri, before| {
        let web = with_dns(pod("web", &PORTS), "192.0.2.53", "example.test");
        let (web, container) = cri.serve(&web);
        let inside = cri.netns(&web);
        let own = cri.addresses(&web)[0];
        let _names = inside.serve_udp(SocketAddr::new(own, 53)).unwrap();
        let neighbour = cri.run(&pod("neighbour", &[]));
        let neighbour_inside = cri.netns(&neighbour);

        let resolving = cri.exec(&container, &["cat", "/etc/resolv.conf"]);
        for line in [
            "nameserver 192.0.2.53",
            "search example.test",
            "options ndots:5",
        ] {
            assert!(resolving.lines().any(|have| have == line), "{resolving}");
        }
        let addresses = cri.exec(&container, &["ip", "-o", "address"]);
        for address in ["127.0.0.1/8", &format!("{own}/24")] {
            assert!(addresses.contains(address), "{addresses}");
        }

        let [node, _] = host.addresses();
        let loopback = at("127.0.0.1");
        for (from, to) in [
            (&host.outside, node),
            (&host.node.namespace, node),
            (&host.node.namespace, loopback),
            (&neighbour_inside, node),
            (&inside, node),
        ] {
            fetch(from, SocketAddr::new(to, 8080));
            let seen = from.ask_udp(SocketAddr::new(to, 5353)).unwrap();
            assert_eq!(seen.local, SocketAddr::new(own, 53), "{}", from.name());
        }
        drop((inside, neighbour_inside));
        cri.end(&web);
        let closed = host
            .outside
            .ask_tcp_within(SocketAddr::new(node, 8080), SHORT);
        assert!(closed.is_err(), "{closed:?}");
        cri.end(&neighbour);
        expect_gone(host, before);
    });
}

/// Nobody has chosen a burst: the CRI gives the largest number that there is.
#[test]
fn annotated_rates_hold_from_the_first_second_on() {
    each_used("cri-rates", ipv4, |host, _, cri, before| {
        if !are_ours("the burst that nobody has chosen lets 536 MB pass at once") {
            return;
        }
        let (web, _) = cri.serve(&with_rates(pod("web", &PORTS), "10M", "20M"));
        let inside = cri.netns(&web);
        let own = SocketAddr::new(cri.addresses(&web)[0], 0);
        expect_rate("into the pod", 10e6, &host.node.namespace, &inside, own);
        let outside = at("192.0.2.1:0");
        expect_rate("out of the pod", 20e6, &inside, &host.outside, outside);
        drop(inside);
        cri.end(&web);
        expect_gone(host, before);
    });
}

/// That so many bits per second pass within a tenth, if not at once, on a machine that has other
/// things to do. More never do: the first try is the first traffic.
#[track_caller]
fn expect_rate(case: &str, rate: f64, from: &Namespace, to: &Namespace, address: SocketAddr) {
    let window = Window {
        warm_up: Duration::ZERO,
        counted: Duration::from_secs(2),
    };
    let mut measured = Vec::new();
    while measured.last().is_none_or(|passed| passed < &(rate * 0.9)) {
        assert!(measured.len() < 4, "{case}: {measured:?} instead of {rate}");
        let passed = lab::throughput(from, to, address, window).unwrap();
        assert!(passed < rate * 1.1, "{case}: {passed} instead of {rate}");
        measured.push(passed);
    }
}

#[test]
fn a_pod_of_both_families() {
    each_used("cri-dual", dual_stack, |host, _, cri, before| {
        let (web, _) = cri.serve(&pod("web", &PORTS));
        let own = cri.addresses(&web);
        assert!(
            own.len() == 2 && own[0].is_ipv4() && own[1].is_ipv6(),
            "{own:?}"
        );
        let inside = cri.netns(&web);
        for (node, own) in host.addresses().into_iter().zip(own) {
            let _names = inside.serve_udp(SocketAddr::new(own, 53)).unwrap();
            for from in [&host.outside, &host.node.namespace, &inside] {
                fetch(from, SocketAddr::new(node, 8080));
                let seen = from.ask_udp(SocketAddr::new(node, 5353)).unwrap();
                assert_eq!(seen.local.ip(), own);
            }
        }
        for outside in ["192.0.2.1:0", "[2001:db8::1]:0"] {
            let server = host.outside.serve_tcp(at(outside)).unwrap();
            let seen = inside.ask_tcp(server.address()).unwrap();
            assert!(host.addresses().contains(&seen.peer.ip()), "{}", seen.peer);
        }
        drop(inside);
        cri.end(&web);
        expect_gone(host, before);
    });
}

/// The kernel asks the rules only for a flow's first packet.
#[test]
fn a_flow_of_datagrams_reaches_the_next_pod() {
    each_used("cri-flow", ipv4, |host, _, cri, before| {
        let [node, _] = host.addresses();
        let client = host
            .outside
            .udp_client(SocketAddr::new(node, 5353))
            .unwrap();
        for name in ["one", "two"] {
            let sandbox = cri.run(&pod(name, &PORTS));
            let own = SocketAddr::new(cri.addresses(&sandbox)[0], 53);
            let inside = cri.netns(&sandbox);
            let server = inside.serve_udp(own).unwrap();
            assert_eq!(client.ask().unwrap().local, own, "{name}");
            drop((server, inside));
            cri.end(&sandbox);
            // A flow to the node itself now.
            client.ask_within(Duration::ZERO).unwrap_err();
            if are_ours("the flow goes on to the address of the pod that has gone") {
                let own = SocketAddr::new(node, 5353);
                let _server = host.node.namespace.serve_udp(own).unwrap();
                assert_eq!(client.ask().unwrap().local, own, "after {name}");
            }
        }
        expect_gone(host, before);
    });
}

#[test]
fn twenty_pods_at_once() {
    each_used("cri-many", ipv4, |host, containerd, cri, before| {
        let socket = &*containerd;
        thread::scope(|scope| {
            let pods = (0..20).map(|number| {
                scope.spawn(move || {
                    let mut cri = Cri::connect(host, socket);
                    let ports = [(9000 + number, 80, Tcp), (9000 + number, 53, Udp)];
                    let web = with_rates(pod(&format!("web-{number}"), &ports), "50M", "50M");
                    cri.serve(&web).0
                })
            });
            let pods: Vec<_> = pods.collect();
            let pods = pods.into_iter().map(|pod| pod.join().unwrap());
            drop(pods.collect::<Vec<_>>());
        });
        let listed = cri.client().sandboxes().unwrap();
        assert_eq!(listed.len(), 20);
        assert!(listed.iter().all(|one| one.state == State::Ready));
        let mut addresses: Vec<_> = listed.iter().map(|one| cri.addresses(&one.id)[0]).collect();
        addresses.sort();
        addresses.dedup();
        assert_eq!(addresses.len(), 20);
        let [node, _] = host.addresses();
        for number in 0..20 {
            fetch(&host.outside, SocketAddr::new(node, 9000 + number));
        }
        thread::scope(|scope| {
            for one in &listed {
                scope.spawn(move || Cri::connect(host, socket).end(&one.id));
            }
        });
        expect_gone(host, before);
    });
}

/// The pod's processes are killed, and its namespace is unmounted, before anybody asks for its end.
#[test]
fn a_pod_that_is_no_more_is_removed() {
    each_used("cri-killed", ipv4, |host, containerd, cri, before| {
        let (web, _) = cri.serve(&with_rates(pod("web", &PORTS), "10M", "10M"));
        let path = cri.netns_path(&web);
        let tasks = containerd.ctr(&["-n", "k8s.io", "tasks", "list"]);
        let pids = tasks.lines().skip(1);
        let pids: Vec<_> = pids
            .map(|task| task.split_whitespace().nth(1).unwrap())
            .collect();
        assert_eq!(pids.len(), 2, "{tasks}");
        // The second may end with the first.
        let kill = format!("kill -KILL {} || true", pids.join(" "));
        host.read("sh", &["-c", &kill]);
        patiently(|| {
            let listed = cri.client().sandboxes().unwrap();
            let ended = listed.iter().all(|one| one.state == State::NotReady);
            if ended { Ok(()) } else { Err(listed) }
        });
        host.read("umount", &[&path]);
        host.read("rm", &[&path]);
        cri.end(&web);
        if are_ours("the masquerade rules of a pod whose namespace is gone stay") {
            expect_gone(host, before);
        }
    });
}

#[test]
fn a_pod_that_outlives_the_runtime_is_removed_by_the_next() {
    each_used("cri-restart", ipv4, |host, containerd, cri, before| {
        let (web, _) = cri.serve(&with_rates(pod("web", &PORTS), "10M", "10M"));
        let [node, _] = host.addresses();
        containerd.kill();
        // It serves while nobody looks after it.
        fetch(&host.outside, SocketAddr::new(node, 8080));
        containerd.restart();
        patiently(|| cri.client().version());
        fetch(&host.outside, SocketAddr::new(node, 8080));
        let second = cri.run(&pod("second", &[]));
        cri.end(&web);
        cri.end(&second);
        expect_gone(host, before);
    });
}
