//! `ctr run --cni`: containerd without its CRI. It can ask for no ports or rates.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use std::net::{IpAddr, SocketAddr};

use clients::{CONTAINERD, Containerd, Host, Names, SERVER, are_ours, chain, fetch};
use tests::at;

/// What the reference plugins do worse: `ctr` says that a container is gone when its namespace is.
const WORSE: &str = "the masquerade rule of a pod whose namespace is gone stays";

/// A node with containerd and a network, for each set of names.
fn each(label: &str, test: impl Fn(&Host, &Containerd)) {
    for names in Names::all() {
        let Some(host) = Host::new(label, &CONTAINERD) else {
            return;
        };
        host.configure(&chain(*names, "1.0.0"));
        let containerd = Containerd::start(&host);
        containerd.import(&SERVER, "default");
        test(&host, &containerd);
    }
}

#[test]
fn a_container_that_ends_leaves_nothing() {
    each("ctr-rm", |host, containerd| {
        let run = |name: &str, script: &str| {
            let shell = ["/bin/sh", "-c", script];
            let run = ["run", "--rm", "--cni", SERVER.name, name];
            containerd.ctr(&[&run[..], &shell].concat())
        };
        let seen = run("c1", "ip -o address show dev eth0; ip route");
        assert!(seen.contains("inet 10.244.0.2/24 "), "{seen}");
        assert!(seen.contains("default via 10.244.0.1 "), "{seen}");

        let before = host.snapshot("pods");
        assert_eq!(before.reservations, [""; 0]);
        // Whoever is asked outside sees the node.
        let outside = host.outside.serve_tcp(at("192.0.2.1:0")).unwrap();
        let seen = run("c2", &format!("nc 192.0.2.1 {}", outside.address().port()));
        assert!(seen.contains("192.0.2.10:"), "{seen}");
        assert_eq!(host.snapshot("pods").reservations, [""; 0]);
        if are_ours(WORSE) {
            host.expect_as_before("after its end", &before, "pods");
        }
    });
}

#[test]
fn what_nobody_has_deleted_is_found_by_gc() {
    each("ctr-gc", |host, containerd| {
        let run = |name: &str| {
            containerd.ctr(&["run", "--detach", "--cni", SERVER.name, name]);
        };
        run("stays");
        fetch(&host.node.namespace, server(host, "stays"));
        let before = host.snapshot("pods");

        run("gone");
        fetch(&host.node.namespace, server(host, "gone"));
        containerd.ctr(&["task", "delete", "--force", "gone"]);
        containerd.ctr(&["container", "delete", "gone"]);
        assert_eq!(reserved(host, "gone").len(), 1, "ctr calls no DEL");

        gc(host);
        assert_eq!(reserved(host, "gone"), [""; 0]);
        fetch(&host.node.namespace, server(host, "stays"));
        if are_ours(WORSE) {
            host.expect_as_before("after GC", &before, "pods");
        }

        // The same name can be used again.
        run("gone");
        fetch(&host.node.namespace, server(host, "gone"));
    });
}

fn gc(host: &Host) {
    let podnet = tests::binary_folder()
        .canonicalize()
        .unwrap()
        .join("podnet");
    host.read(&podnet.to_string_lossy(), &["gc", "pods"]);
}

/// The addresses that are reserved for the container.
#[track_caller]
fn reserved(host: &Host, container: &str) -> Vec<String> {
    let owner = format!("default-{container}");
    let all = host.snapshot("pods").reservations;
    let of_it = all
        .iter()
        .filter(|line| line.split(' ').nth(1) == Some(&owner));
    let address = |line: &String| line.split(' ').next().map(str::to_owned);
    of_it.filter_map(address).collect()
}

/// Where it serves.
#[track_caller]
fn server(host: &Host, container: &str) -> SocketAddr {
    let address: IpAddr = at(&reserved(host, container)[0]);
    SocketAddr::new(address, 80)
}
