//! Who reaches a pod by its host ports, and how the pod's own traffic leaves.

use std::net::SocketAddr;
use std::time::Duration;

use lab::Namespace;
use serde_json::json;
use tests::{Family, Protocol, Serving, Site, at, expect_none, port, port_at, sh};

const PROTOCOLS: [Protocol; 2] = [Protocol::Tcp, Protocol::Udp];
/// For what is expected not to be answered.
const SHORTLY: Duration = Duration::from_millis(300);

/// What is wrong with how `pod` answers on a port of the node: it must, and see `peer`.
fn wrong(
    pod: &Serving,
    protocol: Protocol,
    client: &Namespace,
    target: SocketAddr,
    peer: &str,
) -> Option<String> {
    let asked = format!("{protocol:?} from {} to {target}", client.name());
    match protocol.ask(client, target) {
        Err(error) => Some(format!("{asked}: {error}")),
        Ok(seen) if seen.peer.ip() != at::<std::net::IpAddr>(peer) || !pod.answered(&seen) => {
            Some(format!("{asked}: not seen as {peer} but {seen}"))
        }
        Ok(_) => None,
    }
}

/// Whether someone answers by tcp at all.
fn is_answered(client: &Namespace, target: SocketAddr) -> bool {
    client.ask_tcp_within(target, SHORTLY).is_ok()
}

/// Whether what the node's bridges pass on goes through iptables as well, as a kernel with
/// br_netfilter can have it; others never do.
fn filter_bridged(site: &Site, on: bool) {
    let lines = format!(
        "cd /proc/sys/net/bridge 2>/dev/null || exit 0
         for family in iptables ip6tables; do echo {} > bridge-nf-call-$family; done",
        u8::from(on)
    );
    sh(&site.node.namespace, &lines);
}

#[test]
fn a_host_port_is_reached_from_everywhere() {
    for bridged in [false, true] {
        reach_from_everywhere(bridged);
    }
}

fn reach_from_everywhere(bridged: bool) {
    for site in Site::by_each_backend("ports", &[]) {
        filter_bridged(&site, bridged);
        let pod = site.pod("pod", &[port(8080, 80, "tcp"), port(8080, 80, "udp")]);
        let other = site.pod("other", &[]);
        let (outside, node) = (&site.outside, &site.node.namespace);
        let (pod_itself, other) = (pod.namespace(), other.namespace());
        // Who asks, at which of the node's addresses, and as whom the pod sees it. What would be
        // answered past the node is masqueraded, else a client's own address is kept.
        let table = [
            (outside, "192.0.2.10:8080", "192.0.2.1"),
            (node, "192.0.2.10:8080", "192.0.2.10"),
            (node, "127.0.0.1:8080", "10.244.0.1"),
            (node, "10.244.0.1:8080", "10.244.0.1"),
            (other, "192.0.2.10:8080", "10.244.0.1"),
            (other, "10.244.0.1:8080", "10.244.0.1"),
            (pod_itself, "192.0.2.10:8080", "10.244.0.1"),
            (pod_itself, "10.244.0.1:8080", "10.244.0.1"),
            (outside, "[2001:db8::10]:8080", "2001:db8::1"),
            (node, "[2001:db8::10]:8080", "2001:db8::10"),
            (node, "[fd00:10:244::1]:8080", "fd00:10:244::1"),
            (other, "[2001:db8::10]:8080", "fd00:10:244::1"),
            (other, "[fd00:10:244::1]:8080", "fd00:10:244::1"),
            (pod_itself, "[2001:db8::10]:8080", "fd00:10:244::1"),
            (pod_itself, "[fd00:10:244::1]:8080", "fd00:10:244::1"),
        ];
        let mut failed = Vec::new();
        for protocol in PROTOCOLS {
            for (client, target, peer) in table.iter().filter(|row| site.speaks(row.1)) {
                failed.extend(wrong(&pod, protocol, client, at(target), peer));
            }
        }
        expect_none(failed);
        site.del(&pod);
        for family in site.families {
            let port = SocketAddr::new(family.node(), 8080);
            assert!(!is_answered(outside, port), "{port}");
        }
    }
}

#[test]
fn an_sctp_host_port() {
    let Some(site) = Site::new("sctp", &[]) else {
        return;
    };
    if let Err(error) = site.outside.serve_sctp(at("192.0.2.1:9")) {
        return lab::skip(&format!("SCTP: {error}"));
    }
    let pod = site.pod("pod", &[port(8080, 80, "sctp")]);
    for family in Family::ALL {
        let server = SocketAddr::new(pod.address(family == Family::V6), 80);
        let _server = pod.namespace().serve_sctp(server).unwrap();
        let target = SocketAddr::new(family.node(), 8080);
        let seen = site.outside.ask_sctp(target).unwrap();
        assert!(pod.answered(&seen), "{seen}");
        let client: std::net::IpAddr = at(family.pick("192.0.2.1", "2001:db8::1"));
        assert_eq!(seen.peer.ip(), client);
    }
}

#[test]
fn a_host_address_restricts_a_port() {
    for site in Site::by_each_backend("hostip", &[]) {
        for family in site.families {
            let more = family.pick("192.0.2.11/24", "2001:db8::11/64");
            let node = &site.node.namespace;
            node.add_address("eth0", at(more)).unwrap();
        }
        let ports = [
            port_at("192.0.2.11", 8001, 80, "tcp"),
            port_at("127.0.0.1", 8002, 80, "tcp"),
            port_at("0.0.0.0", 8003, 80, "tcp"),
            port_at("2001:db8::10", 8004, 80, "tcp"),
            port_at("::", 8005, 80, "tcp"),
            port_at("2001:db8::11", 8006, 80, "tcp"),
        ];
        let pod = site.pod("pod", &ports);
        let (outside, node) = (&site.outside, &site.node.namespace);
        // Who asks, at which port, the addresses that answer and those that do not.
        let [first, second, local] = ["192.0.2.10", "192.0.2.11", "127.0.0.1"];
        let [ipv6, second6] = ["[2001:db8::10]", "[2001:db8::11]"];
        let gateway = "[fd00:10:244::1]";
        let table: [(_, _, &[&str], &[&str]); 8] = [
            (outside, 8001, &[second], &[first, ipv6]),
            (node, 8001, &[second], &[first, local]),
            (outside, 8002, &[], &[first, second, ipv6]),
            (node, 8002, &[local], &[first, second]),
            (outside, 8003, &[first, second], &[ipv6]),
            (node, 8004, &[ipv6], &[first, local, gateway]),
            (outside, 8005, &[ipv6, second6], &[first, second]),
            (outside, 8006, &[second6], &[ipv6, first]),
        ];
        let mut failed = Vec::new();
        for (client, port, answers, refused) in table {
            for (addresses, expected) in [(answers, true), (refused, false)] {
                let targets = addresses.iter().map(|own| format!("{own}:{port}"));
                for target in targets.filter(|target| site.speaks(target)) {
                    let target = at(&target);
                    if expected {
                        let seen = client.ask_tcp(target);
                        if !seen.as_ref().is_ok_and(|seen| pod.answered(seen)) {
                            failed.push(format!("{} to {target}: {seen:?}", client.name()));
                        }
                    } else if is_answered(client, target) {
                        failed.push(format!("{} to {target} is answered", client.name()));
                    }
                }
            }
        }
        expect_none(failed);
    }
}

#[test]
fn what_leaves_the_pods_network_is_masqueraded() {
    for site in Site::by_each_backend("masq", &[]) {
        let pod = site.pod("pod", &[]);
        let other = site.pod("other", &[]);
        site.route_to_pods();
        // An address of the pods' network that is reached by way of the node.
        for family in site.families {
            let far = family.pick("10.244.0.200/32", "fd00:10:244::200/128");
            site.outside.add_address("eth0", at(far)).unwrap();
            let way = family.pick(
                "ip route add 10.244.0.200 via 192.0.2.1
                 echo 1 > /proc/sys/net/ipv4/conf/cni0/proxy_arp",
                "ip route add fd00:10:244::200 via 2001:db8::1
                 echo 1 > /proc/sys/net/ipv6/conf/cni0/proxy_ndp
                 ip neigh add proxy fd00:10:244::200 dev cni0",
            );
            sh(&site.node.namespace, way);
        }
        // Where a server is, and as whom the pod's request is seen there.
        let (outside, node) = (&site.outside, &site.node.namespace);
        let table = [
            (outside, "192.0.2.1:81", "192.0.2.10"),
            (outside, "[2001:db8::1]:81", "2001:db8::10"),
            (outside, "10.244.0.200:81", "10.244.0.2"),
            (outside, "[fd00:10:244::200]:81", "fd00:10:244::2"),
            (node, "192.0.2.10:81", "10.244.0.2"),
            (node, "10.244.0.1:81", "10.244.0.2"),
            (node, "[fd00:10:244::1]:81", "fd00:10:244::2"),
            (other.namespace(), "10.244.0.3:81", "10.244.0.2"),
            (other.namespace(), "[fd00:10:244::3]:81", "fd00:10:244::2"),
        ];
        let mut failed = Vec::new();
        for protocol in PROTOCOLS {
            for (place, target, expected) in table.iter().filter(|row| site.speaks(row.1)) {
                let _server = protocol.serve(place, at(target)).unwrap();
                let seen = protocol.ask(pod.namespace(), at(target));
                let expected: std::net::IpAddr = at(expected);
                if !seen.as_ref().is_ok_and(|seen| seen.peer.ip() == expected) {
                    failed.push(format!("{protocol:?} to {target}: {seen:?}"));
                }
            }
        }
        expect_none(failed);
    }
}

#[test]
fn without_masquerade_a_pod_is_seen_as_itself() {
    for site in Site::by_each_backend("nomasq", &[("bridge", json!({ "ipMasq": false }))]) {
        let pod = site.pod("pod", &[]);
        site.route_to_pods();
        let targets = [("192.0.2.1:81", false), ("[2001:db8::1]:81", true)];
        for (target, ipv6) in targets.into_iter().filter(|row| site.speaks(row.0)) {
            let _server = site.outside.serve_tcp(at(target)).unwrap();
            let seen = pod.namespace().ask_tcp(at(target)).unwrap();
            assert_eq!(seen.peer.ip(), pod.address(ipv6));
        }
    }
}

#[test]
fn without_snat_only_what_is_answered_through_the_node_works() {
    for site in Site::by_each_backend("nosnat", &[("portmap", json!({ "snat": false }))]) {
        let pod = site.pod("pod", &[port(8080, 80, "tcp")]);
        let other = site.pod("other", &[]);
        // Else what the neighbour gets from the pod would pass the node's own rules too.
        filter_bridged(&site, false);
        let node = &site.node.namespace;
        let table = [
            (&site.outside, "192.0.2.10:8080", "192.0.2.1"),
            (&site.outside, "[2001:db8::10]:8080", "2001:db8::1"),
            (node, "192.0.2.10:8080", "192.0.2.10"),
            (node, "[2001:db8::10]:8080", "2001:db8::10"),
        ];
        let table = table.into_iter().filter(|row| site.speaks(row.1));
        let failed = table
            .map(|(client, target, peer)| wrong(&pod, Protocol::Tcp, client, at(target), peer));
        let mut failed: Vec<_> = failed.flatten().collect();
        let unanswered = [
            (node, "127.0.0.1:8080"),
            (pod.namespace(), "192.0.2.10:8080"),
            (other.namespace(), "192.0.2.10:8080"),
            (pod.namespace(), "[2001:db8::10]:8080"),
            (other.namespace(), "[2001:db8::10]:8080"),
        ];
        for (client, target) in unanswered.into_iter().filter(|row| site.speaks(row.1)) {
            if is_answered(client, at(target)) {
                failed.push(format!("{} to {target} is answered", client.name()));
            }
        }
        expect_none(failed);
    }
}

#[test]
fn masq_all_hides_every_client() {
    for site in Site::by_each_backend("masqall", &[("portmap", json!({ "masqAll": true }))]) {
        let pod = site.pod("pod", &[port(8080, 80, "tcp")]);
        let (outside, node) = (&site.outside, &site.node.namespace);
        let table = [
            (outside, "192.0.2.10:8080", "10.244.0.1"),
            (outside, "[2001:db8::10]:8080", "fd00:10:244::1"),
            (node, "192.0.2.10:8080", "10.244.0.1"),
            (node, "127.0.0.1:8080", "10.244.0.1"),
            (pod.namespace(), "192.0.2.10:8080", "10.244.0.1"),
            (node, "[2001:db8::10]:8080", "fd00:10:244::1"),
            (pod.namespace(), "[2001:db8::10]:8080", "fd00:10:244::1"),
        ];
        let table = table.into_iter().filter(|row| site.speaks(row.1));
        let failed = table
            .map(|(client, target, peer)| wrong(&pod, Protocol::Tcp, client, at(target), peer));
        expect_none(failed.flatten().collect());
    }
}

#[test]
fn every_one_of_many_ports_and_each_pod_its_own() {
    for site in Site::by_each_backend("many", &[]) {
        // One rule names 15 ports at most.
        let many: Vec<_> = (7001..=7033).map(|host| port(host, 80, "tcp")).collect();
        let pod = site.pod("pod", &many);
        let other = site.pod("other", &[port(8080, 80, "tcp"), port(8080, 80, "udp")]);
        let mut failed = Vec::new();
        for family in site.families {
            let client = family.pick("192.0.2.1", "2001:db8::1");
            let asked = |pod, protocol, host| {
                let target = SocketAddr::new(family.node(), host);
                wrong(pod, protocol, &site.outside, target, client)
            };
            failed.extend((7001..=7033).filter_map(|host| asked(&pod, Protocol::Tcp, host)));
            failed.extend(
                PROTOCOLS
                    .map(|protocol| asked(&other, protocol, 8080))
                    .into_iter()
                    .flatten(),
            );
        }
        site.del(&pod);
        for family in site.families {
            let client = family.pick("192.0.2.1", "2001:db8::1");
            let at = |port| SocketAddr::new(family.node(), port);
            let others = |protocol| wrong(&other, protocol, &site.outside, at(8080), client);
            failed.extend(PROTOCOLS.into_iter().filter_map(others));
            assert!(!is_answered(&site.outside, at(7001)));
        }
        expect_none(failed);
    }
}

#[test]
fn a_packet_to_another_s_address_is_not_taken() {
    for site in Site::by_each_backend("foreign", &[]) {
        let _pod = site.pod("pod", &[port(8080, 80, "tcp"), port(8080, 80, "udp")]);
        let other = site.pod("other", &[]);
        site.route_to_pods();
        let (outside, node) = (&site.outside, &site.node.namespace);
        // Who asks whom on that very port: packets that the node forwards, and its own.
        let table = [
            (other.namespace(), outside, "192.0.2.1:8080"),
            (other.namespace(), outside, "[2001:db8::1]:8080"),
            (outside, other.namespace(), "10.244.0.3:8080"),
            (outside, other.namespace(), "[fd00:10:244::3]:8080"),
            (node, outside, "192.0.2.1:8080"),
            (node, outside, "[2001:db8::1]:8080"),
            (node, other.namespace(), "10.244.0.3:8080"),
        ];
        let mut failed = Vec::new();
        for protocol in PROTOCOLS {
            for (client, place, target) in table.iter().filter(|row| site.speaks(row.2)) {
                let target: SocketAddr = at(target);
                let _server = protocol.serve(place, target).unwrap();
                let seen = protocol.ask(client, target);
                if !seen.as_ref().is_ok_and(|seen| seen.local == target) {
                    failed.push(format!(
                        "{protocol:?} from {} to {target}: {seen:?}",
                        client.name()
                    ));
                }
            }
        }
        expect_none(failed);
    }
}

#[test]
fn conditions_restrict_whom_a_port_serves() {
    let by_iptables = json!({
        "conditionsV4": ["!", "-s", "192.0.2.1/32"],
        "conditionsV6": ["-s", "fd00:10:244::/64"]
    });
    let by_nftables = json!({
        "backend": "nftables",
        "conditionsV4": ["ip saddr != 192.0.2.1"],
        "conditionsV6": ["ip6 saddr", "fd00:10:244::/64", "iifname cni*"]
    });
    for keys in [by_iptables, by_nftables] {
        let Some(site) = Site::new("conditions", &[("portmap", keys)]) else {
            return;
        };
        let pod = site.pod("pod", &[port(8080, 80, "tcp")]);
        let own = pod.namespace();
        let node = &site.node.namespace;
        let served = [
            (node, "192.0.2.10:8080", "192.0.2.10"),
            (own, "192.0.2.10:8080", "10.244.0.1"),
            (own, "[2001:db8::10]:8080", "fd00:10:244::1"),
        ];
        let failed = served
            .map(|(client, target, peer)| wrong(&pod, Protocol::Tcp, client, at(target), peer));
        expect_none(failed.into_iter().flatten().collect());
        for target in ["192.0.2.10:8080", "[2001:db8::10]:8080"] {
            assert!(!is_answered(&site.outside, at(target)), "{target}");
        }
    }
}

/// Three pods at one port by nftables: one for the host outside, one for the uplink, and one for
/// whom the others' conditions leave.
#[test]
fn conditions_are_of_one_pod_alone() {
    for family in Family::ALL {
        let key = family.pick("conditionsV4", "conditionsV6");
        let with = |words: &str| {
            let conditions = [words].into_iter().filter(|words| !words.is_empty());
            let conditions: Vec<_> = conditions.collect();
            [("portmap", json!({ "backend": "nftables", key: conditions }))]
        };
        let whom = family.pick("ip saddr 192.0.2.1", "ip6 saddr 2001:db8::1");
        let Some(mut site) = Site::new("whose", &with(whom)) else {
            return;
        };
        let first = site.pod("first", &[port(8080, 80, "tcp")]);
        let mut next = |name: &str, words: &str| {
            let changes = with(words);
            site.list = site.node.conflist_with("20-dual-stack.conflist", &changes);
            site.pod(name, &[port(8080, 80, "tcp")])
        };
        let third = next("third", "");
        let second = next("second", "iifname eth0");
        let target = SocketAddr::new(family.node(), 8080);
        let answered_by = |client: &Namespace| client.ask_tcp(target).unwrap();
        let seen = answered_by(&site.outside);
        assert!(first.answered(&seen), "{seen}");
        let seen = answered_by(&site.node.namespace);
        assert!(third.answered(&seen), "{seen}");
        let more = family.pick(
            "ip address add 192.0.2.7/24 dev eth0
             ip route replace 192.0.2.10 dev eth0 src 192.0.2.7",
            "ip address add 2001:db8::7/64 dev eth0 nodad
             ip route replace 2001:db8::10 dev eth0 src 2001:db8::7",
        );
        sh(&site.outside, more);
        let seen = answered_by(&site.outside);
        assert!(second.answered(&seen), "{seen}");
        site.del(&second);
        let seen = answered_by(&site.outside);
        assert!(third.answered(&seen), "{seen}");
    }
}

#[test]
fn another_s_chain_sets_the_mark() {
    let keys = json!({ "externalSetMarkChain": "OTHERS-MARK" });
    let Some(site) = Site::new("external", &[("portmap", keys)]) else {
        return;
    };
    for tool in ["iptables", "ip6tables"] {
        let lines = format!(
            "{tool} -t nat -N OTHERS-MARK
             {tool} -t nat -A OTHERS-MARK -j MARK --or-mark 0x4000
             {tool} -t nat -A POSTROUTING -m mark --mark 0x4000/0x4000 -j MASQUERADE"
        );
        sh(&site.node.namespace, &lines);
    }
    let pod = site.pod("pod", &[port(8080, 80, "tcp")]);
    site.node.check(&site.list, &pod.pod).unwrap();
    let table = [
        (&site.outside, "192.0.2.10:8080", "192.0.2.1"),
        (&site.node.namespace, "127.0.0.1:8080", "10.244.0.1"),
        (pod.namespace(), "192.0.2.10:8080", "10.244.0.1"),
        (pod.namespace(), "[2001:db8::10]:8080", "fd00:10:244::1"),
    ];
    let failed =
        table.map(|(client, target, peer)| wrong(&pod, Protocol::Tcp, client, at(target), peer));
    expect_none(failed.into_iter().flatten().collect());
    let rules = site.node.snapshot(&site.list.name).rules.join("\n");
    assert!(!rules.contains("CNI-HOSTPORT-SETMARK"), "{rules}");
}
