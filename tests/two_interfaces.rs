//! Two interfaces of one container in one network: each is an attachment of its own.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use cni::AddResult;
use lab::{Server, Window};
use serde_json::{Value, json};
use tests::{Pod, Protocol, Site, at, port, sh};

/// Bits per second, both ways.
const RATE: u64 = 10_000_000;
/// Ports of the node and of the pod: those of `eth0` and those of `eth1`.
const PORTS: [(u16, u16); 2] = [(8080, 80), (8081, 81)];
const NAMES: [&str; 2] = ["eth0", "eth1"];
const NODE: [&str; 2] = ["192.0.2.10", "2001:db8::10"];

/// A container with both interfaces.
struct Container {
    site: Site,
    pod: Pod,
    results: Vec<AddResult>,
    _servers: Vec<Server>,
}

fn container(label: &str) -> Option<Container> {
    let site = Site::new(label, &[])?;
    let mut pod = site.node.pod("pod");
    let mut results = Vec::new();
    let mut servers = Vec::new();
    for (name, (host, inner)) in NAMES.into_iter().zip(PORTS) {
        pod.ifname = name.to_owned();
        results.push(site.node.add(&site.list, &pod, asked(host, inner)).unwrap());
    }
    for (result, (_, inner)) in results.iter().zip(PORTS) {
        for ip in &result.ips {
            let at = SocketAddr::new(ip.address.addr(), inner);
            for protocol in [Protocol::Tcp, Protocol::Udp] {
                servers.push(protocol.serve(&pod.namespace, at).unwrap());
            }
        }
    }
    Some(Container {
        site,
        pod,
        results,
        _servers: servers,
    })
}

fn asked(host: u16, inner: u16) -> Value {
    json!({
        "portMappings": [port(host, inner, "tcp"), port(host, inner, "udp")],
        "bandwidth": {
            "ingressRate": RATE, "ingressBurst": RATE / 50,
            "egressRate": RATE, "egressBurst": RATE / 50
        }
    })
}

impl Container {
    /// That an interface is whole: checked, reached, masqueraded.
    fn expect_whole(&mut self, which: usize) {
        let Container {
            site, pod, results, ..
        } = self;
        pod.ifname = NAMES[which].to_owned();
        site.node.check(&site.list, pod).unwrap();
        let ips = results[which].ips.iter().map(|ip| ip.address.addr());
        for (ip, node) in ips.zip(NODE) {
            let own = SocketAddr::new(ip, PORTS[which].1);
            let target = SocketAddr::new(at(node), PORTS[which].0);
            for protocol in [Protocol::Tcp, Protocol::Udp] {
                let seen = protocol.ask(&site.outside, target).unwrap();
                assert_eq!(seen.local, own);
            }
        }
    }

    /// That nobody answers on an interface's host ports.
    fn expect_gone(&self, which: usize) {
        for node in NODE {
            let target = SocketAddr::new(at(node), PORTS[which].0);
            let asked = self
                .site
                .outside
                .ask_tcp_within(target, Duration::from_millis(300));
            asked.unwrap_err();
        }
    }

    /// DEL of one interface.
    fn del(&mut self, which: usize) {
        self.pod.ifname = NAMES[which].to_owned();
        self.site.node.del(&self.site.list, &self.pod).unwrap();
    }

    /// That what the container sends leaves with the node's address, and that it reaches its
    /// gateway.
    fn expect_outside_reached(&self) {
        let pod = &self.pod.namespace;
        for (gateway, target, node) in [
            ("10.244.0.1", "192.0.2.1:9", NODE[0]),
            ("fd00:10:244::1", "[2001:db8::1]:9", NODE[1]),
        ] {
            pod.ping(at(gateway)).unwrap();
            let _server = self.site.outside.serve_tcp(at(target)).unwrap();
            let seen = pod.ask_tcp(at(target)).unwrap();
            assert_eq!(seen.peer.ip(), at::<IpAddr>(node));
        }
    }

    /// That what remains is shaped both ways.
    fn expect_shaped(&self, which: usize) {
        let (node, pod) = (&self.site.node.namespace, &self.pod.namespace);
        let own = SocketAddr::new(self.results[which].ips[0].address.addr(), 0);
        let window = Window {
            warm_up: Duration::from_millis(200),
            counted: Duration::from_millis(500),
        };
        let into = lab::throughput(node, pod, own, window).unwrap();
        let out = lab::throughput(pod, &self.site.outside, at("192.0.2.1:0"), window).unwrap();
        for (rate, way) in [(into, "in"), (out, "out")] {
            assert!(rate < RATE as f64 * 1.3, "{way}: {rate}");
        }
    }
}

#[test]
fn each_is_whole_and_its_own() {
    let Some(mut container) = container("two") else {
        return;
    };
    for which in [0, 1] {
        container.expect_whole(which);
    }
    let names = |index: usize| {
        container
            .results
            .iter()
            .map(move |r| &r.interfaces[index].name)
    };
    for index in [1, 2, 3] {
        assert_eq!(
            names(index)
                .filter(|name| *name == names(index).next().unwrap())
                .count(),
            1
        );
    }
}

#[test]
fn del_of_one_leaves_the_other_whole() {
    for (gone, stays) in [(0, 1), (1, 0)] {
        let Some(mut container) = container("two") else {
            return;
        };
        container.del(gone);
        container.expect_gone(gone);
        container.expect_whole(stays);
        container.expect_outside_reached();
        container.expect_shaped(stays);
        let links = sh(&container.pod.namespace, "ip -brief link");
        assert!(!links.contains(NAMES[gone]), "{links}");

        container.del(stays);
        container.expect_gone(stays);
        let left = container.site.node.snapshot(&container.site.list.name);
        let of_pod =
            |line: &str| line.contains("veth") || line.contains("bwp") || line.contains("pod");
        let left = left
            .filter(of_pod)
            .filter(|line| !line.starts_with("eth0 veth"));
        assert!(left.is_empty(), "{left}");
    }
}
