//! The gateway of a VLAN: an interface of the node that the VLAN's pods share.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used, clippy::panic)]

use lab::Namespace;
use net::{Link, Vlan};
use serde_json::{Value, json};
use tests::{Answer, Node, Pod, at, expect_none, sh, with};

const GATEWAY: &str = "cni0.100";

fn config(node: &Node, more: Value) -> Value {
    let mut keys = json!({ "vlan": 100 });
    keys.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    node.bridge_config(keys)
}

/// ADD, and CHECK of what it returned; the result.
#[track_caller]
fn add(node: &Node, pod: &Pod, config: &Value) -> Value {
    let result = node.call("bridge", "ADD", pod, config, &[]).ok().clone();
    check(node, pod, config, &result).ok();
    result
}

#[track_caller]
fn check(node: &Node, pod: &Pod, config: &Value, result: &Value) -> Answer {
    let config = with(config, "prevResult", result);
    node.call("bridge", "CHECK", pod, config, &[])
}

fn link(namespace: &Namespace, name: &str) -> Option<Link> {
    namespace.netlink().unwrap().link(name).unwrap()
}

/// The gateway's interface and the port behind it.
#[track_caller]
fn ends(node: &Node) -> [Link; 2] {
    let gateway = link(&node.namespace, GATEWAY).unwrap();
    let netlink = node.namespace.netlink().unwrap();
    let port = netlink.link_by_index(gateway.peer.unwrap());
    [gateway, port.unwrap().unwrap()]
}

/// Names of the node's links, but for the pods' own.
fn shared_links(node: &Node, results: &[Value]) -> Vec<String> {
    let links = node.namespace.netlink().unwrap().links().unwrap();
    let of_pod = |name: &str| {
        results
            .iter()
            .any(|result| result["interfaces"][1]["name"] == name)
    };
    let mut names: Vec<String> = links.into_iter().map(|link| link.name).collect();
    names.retain(|name| !of_pod(name));
    names.sort();
    names
}

#[test]
fn the_node_is_the_gateway_of_a_vlan_by_an_interface_in_it() {
    let Some(node) = Node::with_vlans("gateway") else {
        return;
    };
    let keys = json!({ "ipam": dual_stack(&node), "cniVersion": "1.1.0", "mtu": 1400 });
    let config = config(&node, keys);
    let pod = node.pod("pod");
    let result = add(&node, &pod, &config);
    let [gateway, port] = ends(&node);
    let told = json!({ "name": GATEWAY, "mac": gateway.mac.unwrap().to_string(), "mtu": 1400 });
    assert_eq!(result["interfaces"][3], told);
    assert_eq!(result["interfaces"].as_array().unwrap().len(), 4);
    assert_eq!(result["ips"][0]["interface"], 2);
    assert_eq!(gateway.kind, "veth");
    assert_eq!(port.alias, "port of cni0.100");
    let bridge = link(&node.namespace, "cni0").unwrap();
    assert_eq!(port.master, Some(bridge.index));
    let netlink = node.namespace.netlink().unwrap();
    assert_eq!(netlink.vlans(port.index).unwrap(), [Vlan::native(100)]);
    let of = |link: &Link| -> Vec<String> {
        let addresses = netlink.addresses(link.index).unwrap();
        let global = addresses.iter().filter(|address| address.global);
        global.map(|address| address.net.to_string()).collect()
    };
    assert_eq!(of(&gateway), ["10.244.0.1/24", "fd00:10:244::1/64"]);
    assert_eq!(of(&bridge), [""; 0]);
    for target in ["10.244.0.1", "fd00:10:244::1"] {
        pod.namespace.ping(at(target)).unwrap();
    }
    for sysctl in [
        "ipv4/conf/cni0.100/forwarding 1",
        "ipv6/conf/cni0.100/accept_ra 0",
    ] {
        let (path, value) = sysctl.split_once(' ').unwrap();
        let is = sh(&node.namespace, &format!("cat /proc/sys/net/{path}"));
        assert_eq!(is.trim(), value, "{path}");
    }
}

fn dual_stack(node: &Node) -> Value {
    let ranges = json!([[{ "subnet": "10.244.0.0/24" }], [{ "subnet": "fd00:10:244::/64" }]]);
    json!({ "type": "host-local", "dataDir": node.data, "ranges": ranges })
}

#[test]
fn with_detection_the_gateway_s_addresses_are_waited_for() {
    let Some(node) = Node::with_vlans("detected") else {
        return;
    };
    let keys = json!({ "ipam": dual_stack(&node), "enabledad": true });
    add(&node, &node.pod("pod"), &config(&node, keys));
    let [gateway, _] = ends(&node);
    let addresses = node.namespace.netlink().unwrap().addresses(gateway.index);
    let addresses = addresses.unwrap();
    let waits = addresses.iter().find(|address| address.tentative);
    assert_eq!(waits, None);
}

#[test]
fn a_gateway_without_ipv6_is_refused_before_anything_changes() {
    let Some(node) = Node::with_vlans("switched-off") else {
        return;
    };
    add(&node, &node.pod("first"), &config(&node, json!({})));
    let sysctl = format!("net/ipv6/conf/{GATEWAY}/disable_ipv6");
    sh(&node.namespace, &format!("echo 1 > /proc/sys/{sysctl}"));
    let before = node.snapshot("other").links;
    let keys = json!({ "ipam": dual_stack(&node), "name": "other" });
    let pod = node.pod("pod");
    let refused = node.call("bridge", "ADD", &pod, config(&node, keys), &[]);
    refused.expect_refused(
        "switched off",
        100,
        &["\"cni0.100\" cannot have fd00:", &sysctl],
    );
    assert_eq!(node.snapshot("other").links, before);
    assert!(node.snapshot("other").reservations.is_empty());
}

#[test]
fn all_pods_of_a_vlan_share_one_gateway_and_each_vlan_has_its_own() {
    let Some(node) = Node::with_vlans("shared") else {
        return;
    };
    let other = json!({
        "name": "other", "vlan": 200,
        "ipam": { "type": "host-local", "subnet": "10.245.0.0/24", "dataDir": node.data }
    });
    let [one, two, three] = ["one", "two", "three"].map(|name| node.pod(name));
    let results = [
        add(&node, &one, &config(&node, json!({}))),
        add(&node, &two, &config(&node, json!({}))),
        add(&node, &three, &config(&node, other)),
    ];
    assert_eq!(results[0]["interfaces"][3], results[1]["interfaces"][3]);
    assert_eq!(results[2]["interfaces"][3]["name"], "cni0.200");
    let ports = [GATEWAY, "cni0.200"].map(|name| {
        let peer = link(&node.namespace, name).unwrap().peer.unwrap();
        let port = node.namespace.netlink().unwrap().link_by_index(peer);
        port.unwrap().unwrap().name
    });
    let mut expected = vec!["cni0", GATEWAY, "cni0.200", "lo", &ports[0], &ports[1]];
    expected.sort_unstable();
    assert_eq!(shared_links(&node, &results), expected);
    two.namespace.ping(at("10.244.0.1")).unwrap();
    three.namespace.ping(at("10.245.0.1")).unwrap();
}

#[test]
fn pods_that_come_at_once_make_one_gateway() {
    let Some(node) = Node::with_vlans("at-once") else {
        return;
    };
    let config = config(&node, json!({}));
    let pods: Vec<Pod> = (0..16)
        .map(|number| node.pod(&format!("pod{number}")))
        .collect();
    let (node, config) = (&node, &config);
    let results: Vec<Value> = std::thread::scope(|scope| {
        let add = |pod| move || node.call("bridge", "ADD", pod, config, &[]).ok().clone();
        let threads: Vec<_> = pods.iter().map(|pod| scope.spawn(add(pod))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let [_, port] = ends(node);
    let mut expected = ["cni0", GATEWAY, "lo", &port.name];
    expected.sort_unstable();
    assert_eq!(shared_links(node, &results), expected);
    for (pod, result) in pods.iter().zip(&results) {
        check(node, pod, config, result).ok();
        pod.namespace.ping(at("10.244.0.1")).unwrap();
    }
}

/// As a kill between any two steps of an ADD leaves it, or someone's hand.
#[test]
fn a_gateway_that_is_half_made_is_completed() {
    let Some(node) = Node::with_vlans("half") else {
        return;
    };
    let config = config(&node, json!({}));
    let result = add(&node, &node.pod("first"), &config);
    let [_, port] = ends(&node);
    let port = &port.name;
    let damages = [
        format!("ip link set {port} down; ip link set {GATEWAY} down"),
        format!("ip link set {port} nomaster"),
        format!(
            "bridge vlan del dev {port} vid 100; bridge vlan add dev {port} vid 1 pvid untagged"
        ),
        format!("ip addr flush dev {GATEWAY}"),
        format!("ip link del {GATEWAY}"),
        // All ports lose it.
        "ip link del cni0".to_owned(),
    ];
    for (number, damage) in damages.iter().enumerate() {
        sh(&node.namespace, damage);
        let pod = node.pod(&format!("pod{number}"));
        let again = add(&node, &pod, &config);
        let [gateway, port] = ends(&node);
        let vlans = node.namespace.netlink().unwrap().vlans(port.index);
        assert_eq!(vlans.unwrap(), [Vlan::native(100)], "{damage}");
        assert!(gateway.up && port.up, "{damage}");
        pod.namespace.ping(at("10.244.0.1")).unwrap();
        if !damage.contains("del") {
            assert_eq!(again["interfaces"][3], result["interfaces"][3], "{damage}");
        }
    }
}

#[test]
fn check_notices_what_has_become_of_the_gateway() {
    let Some(node) = Node::with_vlans("checked") else {
        return;
    };
    let (pod, config) = (node.pod("pod"), config(&node, json!({})));
    let result = add(&node, &pod, &config);
    let [gateway, port] = ends(&node);
    let (port, mac) = (port.name, gateway.mac.unwrap());
    let vlan = |what: &str| format!("bridge vlan {what}").replace("PORT", &format!("dev {port}"));
    let set = |what: &str| format!("ip link set {what}").replace("PORT", &port);
    let addr = |what: &str| format!("ip addr {what} 10.244.0.1/24 dev {GATEWAY}");
    let forward = |on: u8| format!("echo {on} > /proc/sys/net/ipv4/conf/{GATEWAY}/forwarding");
    let named = format!("ip link set {GATEWAY} down; ip link set {GATEWAY} name");
    let back = format!("ip link set elsewhere name {GATEWAY}; ip link set {GATEWAY} up");
    let mended = format!(
        "{}; {}",
        set("PORT master cni0"),
        vlan("add PORT vid 100 pvid untagged")
    );
    let mended = format!("{mended}; {}", vlan("del PORT vid 1"));
    let table = [
        (
            vlan("del PORT vid 100"),
            vlan("add PORT vid 100 pvid untagged"),
            "not in VLAN 100",
        ),
        (
            vlan("add PORT vid 1 untagged"),
            vlan("del PORT vid 1"),
            "in VLAN 1, the bridge's default",
        ),
        (set("PORT down"), set("PORT up"), "is down"),
        (set("cni0.100 down"), set("cni0.100 up"), "is down"),
        (set("PORT nomaster"), mended, "is no port of cni0"),
        (
            set("cni0.100 address 02:00:00:00:00:09"),
            set(&format!("cni0.100 address {mac}")),
            "vlan gateway cni0.100 Mac doesn't match",
        ),
        (
            addr("del"),
            addr("add"),
            "Failed to match addr 10.244.0.1/24 on interface cni0.100",
        ),
        (forward(0), forward(1), "ipv4/conf/cni0.100/forwarding is 0"),
        (format!("{named} elsewhere"), back, "cni0.100"),
    ];
    for (damage, mended, says) in table {
        sh(&node.namespace, &damage);
        let noticed = check(&node, &pod, &config, &result);
        noticed.expect_refused(&damage, 101, &[says]);
        sh(&node.namespace, &mended);
        check(&node, &pod, &config, &result).ok();
    }
    sh(&node.namespace, &format!("ip link del {GATEWAY}"));
    let noticed = check(&node, &pod, &config, &result);
    noticed.expect_refused("deleted", 101, &["vlan gateway cni0.100 was not found"]);
}

#[test]
fn the_gateway_s_address_is_replaced_by_force_only() {
    let Some(node) = Node::with_vlans("force") else {
        return;
    };
    add(&node, &node.pod("first"), &config(&node, json!({})));
    let other = json!({
        "name": "other",
        "ipam": { "type": "host-local", "subnet": "10.245.0.0/24", "dataDir": node.data }
    });
    let (pod, other) = (node.pod("pod"), config(&node, other));
    let before = node.snapshot("other");
    let refused = node.call("bridge", "ADD", &pod, &other, &[]);
    let says = "\"cni0.100\" already has an IP address different from 10.245.0.1/24";
    refused.expect_refused("conflict", 103, &[says, "forceAddress"]);
    assert_eq!(node.snapshot("other"), before);
    add(&node, &pod, &with(&other, "forceAddress", &json!(true)));
    let gateway = link(&node.namespace, GATEWAY).unwrap();
    let addresses = node
        .namespace
        .netlink()
        .unwrap()
        .addresses(gateway.index)
        .unwrap();
    let global = addresses.iter().filter(|address| address.global);
    let nets: Vec<String> = global.map(|address| address.net.to_string()).collect();
    assert_eq!(nets, ["10.245.0.1/24"]);
}

#[test]
fn a_link_that_is_no_gateway_is_refused_before_anything_changes() {
    let mut failed = Vec::new();
    for (made, says) in [
        (
            format!("ip link add {GATEWAY} type bridge"),
            "a link of kind \"bridge\"",
        ),
        (
            format!("ip link add {GATEWAY} type ifb"),
            "a link of kind \"ifb\"",
        ),
        (
            format!(
                "ip link add br1 type bridge; ip link add {GATEWAY} type veth peer name x; \
                 ip link set x master br1"
            ),
            "its other end is no port of \"cni0\"",
        ),
        (
            format!(
                "ip link add br1 type bridge; ip link add {GATEWAY} type veth peer name x; \
                 ip link set {GATEWAY} master br1"
            ),
            "a port of a bridge itself",
        ),
        // The name of the port that belongs to it.
        (
            "ip link add PORT type ifb".to_owned(),
            "no end of the gateway's veth pair",
        ),
    ] {
        let Some(node) = Node::with_vlans("taken") else {
            return;
        };
        let (pod, config) = (node.pod("pod"), config(&node, json!({})));
        sh(&node.namespace, &made.replace("PORT", "vethe8b62e5a929"));
        let before = node.snapshot("testnet");
        let answer = node.call("bridge", "ADD", &pod, &config, &[]);
        answer.expect_refused(&made, 103, &["vlan gateway \"cni0.100\"", says]);
        if node.data.exists() || node.snapshot("testnet") != before {
            failed.push(format!("{made}: something has changed"));
        }
        node.call("bridge", "DEL", &pod, &config, &[]).ok();
    }
    expect_none(failed);
}

/// A result tells the gateway, by name and MAC, as it tells the host's end of a pod's pair.
#[test]
fn del_takes_no_gateway_for_a_pod_s_link() {
    let Some(node) = Node::new("told") else {
        return;
    };
    let lines = format!(
        "ip link add cni0 up type bridge; ip link add {GATEWAY} type veth peer name vethport; \
         ip link set vethport up master cni0; ip link set {GATEWAY} up; \
         tc qdisc add dev {GATEWAY} ingress"
    );
    sh(&node.namespace, &lines);
    let mac = link(&node.namespace, GATEWAY)
        .unwrap()
        .mac
        .unwrap()
        .to_string();
    let result = json!({
        "cniVersion": "1.0.0",
        "interfaces": [
            { "name": "cni0" },
            { "name": "veth12345678", "mac": "02:00:00:00:00:05" },
            { "name": "eth0", "mac": "02:00:00:00:00:06", "sandbox": "/run/netns/gone" },
            { "name": GATEWAY, "mac": mac }
        ],
        "ips": [{ "address": "10.244.0.2/24", "gateway": "10.244.0.1", "interface": 2 }]
    });
    let before = node.snapshot("testnet");
    let pod = node.pod("pod");
    let config = with(&config(&node, json!({})), "prevResult", &result);
    let shaping = with(
        &with(&config, "type", &json!("bandwidth")),
        "egressRate",
        &json!(8000),
    );
    for config in [shaping, config] {
        let plugin = tests::kind(&config).to_owned();
        for netns in [
            "",
            "/run/netns/gone",
            &pod.namespace.path().to_string_lossy(),
        ] {
            let answer = node.call(&plugin, "DEL", &pod, &config, &[("CNI_NETNS", netns)]);
            answer.ok();
            assert_eq!(node.snapshot("testnet"), before, "{plugin} {netns:?}");
        }
    }
}
