//! Pods beside others that use the same ports, rules and networks.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;
use std::time::Duration;

use lab::Namespace;
use serde_json::{Value, json};
use tests::{Family, Site, at, port, port_at, sh};

/// For what is expected not to be answered.
const SHORTLY: Duration = Duration::from_millis(300);
/// The node's addresses, with a port of a pod.
fn node(site: &Site, port: u16) -> Vec<SocketAddr> {
    let own = site.families.iter().map(|family| family.node());
    own.map(|own| SocketAddr::new(own, port)).collect()
}

fn ports() -> [Value; 1] {
    [port(8080, 80, "tcp")]
}

fn is_answered(client: &Namespace, target: SocketAddr) -> bool {
    client.ask_tcp_within(target, SHORTLY).is_ok()
}

/// A host port is not reserved: who listens on it is not asked, and gets it back.
#[test]
fn a_port_that_the_node_serves_is_the_pod_s_for_its_time() {
    for site in Site::by_each_backend("lent", &[]) {
        let targets = node(&site, 8080);
        let serve = |own: &SocketAddr| site.node.namespace.serve_tcp(*own).unwrap();
        let _servers: Vec<_> = targets.iter().map(serve).collect();
        let own = |target: &SocketAddr| site.outside.ask_tcp(*target).unwrap().local == *target;
        assert!(targets.iter().all(own));
        let pod = site.pod("pod", &ports());
        for target in &targets {
            let seen = site.outside.ask_tcp(*target).unwrap();
            assert!(pod.answered(&seen), "{seen}");
        }
        site.del(&pod);
        assert!(targets.iter().all(own));
    }
}

/// As a firewall manager does when it is started again: all rules of iptables go.
#[test]
fn a_reload_of_the_firewall() {
    for site in Site::by_each_backend("reload", &[]) {
        let pod = site.pod("pod", &ports());
        for tool in ["iptables", "ip6tables"] {
            let flush = format!("{tool} -t nat -F; {tool} -t nat -X");
            sh(&site.node.namespace, &flush);
        }
        let by_iptables = site.list.plugins[1]["backend"] == "iptables";
        let checked = site.node.check(&site.list, &pod.pod);
        assert_eq!(checked.is_err(), by_iptables, "{checked:?}");
        for target in node(&site, 8080) {
            assert_eq!(is_answered(&site.outside, target), !by_iptables, "{target}");
        }
        // Nobody else's pod suffers.
        let next = site.pod("next", &[port(8081, 80, "tcp")]);
        site.node.check(&site.list, &next.pod).unwrap();
        for target in node(&site, 8081) {
            let seen = site.outside.ask_tcp(target).unwrap();
            assert!(next.answered(&seen), "{seen}");
        }
        site.del(&pod);
        site.del(&next);
    }
}

/// The kernel routes nothing that comes from there to a pod.
#[test]
fn a_port_of_the_ipv6_loopback_makes_no_rule() {
    for site in Site::by_each_backend("loopback", &[]) {
        let before = site.node.snapshot(&site.list.name).rules;
        let ports = [port_at("::1", 8080, 80, "tcp"), port(8081, 80, "tcp")];
        let pod = site.pod("pod", &ports);
        site.node.check(&site.list, &pod.pod).unwrap();
        let rules = site.node.snapshot(&site.list.name).rules;
        let of_it = rules.iter().filter(|line| !before.contains(line));
        let mut of_it = of_it.filter(|line| line.contains("8080") && !line.contains("dports"));
        assert_eq!(of_it.next(), None);
        for target in node(&site, 8081) {
            let seen = site.outside.ask_tcp(target).unwrap();
            assert!(pod.answered(&seen), "{seen}");
        }
        let elsewhere = node(&site, 8080).into_iter().chain([at("[::1]:8080")]);
        for target in elsewhere {
            assert!(!is_answered(&site.node.namespace, target), "{target}");
        }
        site.del(&pod);
    }
}

/// The configuration of a second network on the same bridge, with other addresses of its subnet.
fn second_network(site: &Site, masquerade: bool) -> Value {
    let range = |family: &Family| {
        let from = family.pick("10.244.0.100", "fd00:10:244::100");
        json!([{ "subnet": family.expand("$NET"), "rangeStart": from }])
    };
    let route = |family: &Family| json!({ "dst": family.expand("$ALL") });
    let backend = &site.list.plugins[0]["ipMasqBackend"];
    site.node.bridge_config(json!({
        "name": "second", "ipMasq": masquerade, "ipMasqBackend": backend,
        "ipam": {
            "type": "host-local", "dataDir": site.node.data,
            "ranges": site.families.iter().map(range).collect::<Vec<_>>(),
            "routes": site.families.iter().map(route).collect::<Vec<_>>()
        }
    }))
}

#[test]
fn networks_of_one_subnet_are_masqueraded_each_as_asked() {
    let servers = ["192.0.2.1:81", "[2001:db8::1]:81"];
    let node = ["192.0.2.10", "2001:db8::10"];
    let own = ["10.244.0.100", "fd00:10:244::100"];
    for masquerade in [false, true] {
        for site in Site::by_each_backend("subnet", &[]) {
            site.route_to_pods();
            let spoken = || servers.into_iter().filter(|server| site.speaks(server));
            let serve = |own| site.outside.serve_tcp(at(own)).unwrap();
            let _servers: Vec<_> = spoken().map(serve).collect();
            let first = site.pod("first", &[]);
            let second = site.node.pod("second");
            let config = second_network(&site, masquerade);
            site.node.call("bridge", "ADD", &second, &config, &[]).ok();
            let expect_seen_as = |pod: &Namespace, addresses: [&str; 2]| {
                let addresses = addresses.into_iter().filter(|ip| site.speaks(ip));
                for (server, address) in spoken().zip(addresses) {
                    let seen = pod.ask_tcp(at(server)).unwrap();
                    assert_eq!(seen.peer.ip(), at::<std::net::IpAddr>(address), "{server}");
                }
            };
            expect_seen_as(first.namespace(), node);
            let expected = if masquerade { node } else { own };
            expect_seen_as(&second.namespace, expected);
            site.del(&first);
            expect_seen_as(&second.namespace, expected);
        }
    }
}

/// The node's own 127.0.0.1 is answered only where the connection is masqueraded.
#[test]
fn a_chain_of_another_that_marks_nothing_serves_all_but_127_0_0_1() {
    let keys = json!({ "externalSetMarkChain": "OTHERS-MARK" });
    let Some(site) = Site::new("unmarked", &[("portmap", keys)]) else {
        return;
    };
    for tool in ["iptables", "ip6tables"] {
        sh(
            &site.node.namespace,
            &format!("{tool} -t nat -N OTHERS-MARK"),
        );
    }
    let pod = site.pod("pod", &ports());
    for target in node(&site, 8080) {
        let seen = site.outside.ask_tcp(target).unwrap();
        assert!(pod.answered(&seen), "{seen}");
    }
    assert!(!is_answered(&site.node.namespace, at("127.0.0.1:8080")));
}
