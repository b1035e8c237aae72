//! What each key of the bridge plugin makes, and how pods are then reached.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::net::IpAddr;
use std::time::Duration;

use lab::Namespace;
use net::Link;
use serde_json::{Value, json};
use tests::{Node, Pod, Site, at, expect_none, port, sh};

/// For what is expected not to be answered.
const SHORTLY: Duration = Duration::from_millis(300);
const GATEWAYS: [&str; 2] = ["10.244.0.1", "fd00:10:244::1"];

/// An IPAM that gives an address of each family.
fn dual_stack(node: &Node) -> Value {
    json!({
        "type": "host-local",
        "dataDir": node.data,
        "ranges": [[{ "subnet": "10.244.0.0/24" }], [{ "subnet": "fd00:10:244::/64" }]],
        "routes": [{ "dst": "0.0.0.0/0" }, { "dst": "::/0" }]
    })
}

/// ADD, and CHECK of what it returned; the result.
#[track_caller]
fn add(node: &Node, pod: &Pod, config: &Value) -> Value {
    let result = node.call("bridge", "ADD", pod, config, &[]).ok().clone();
    let checked = tests::with(config, "prevResult", &result);
    node.call("bridge", "CHECK", pod, checked, &[]).ok();
    result
}

fn link(namespace: &Namespace, name: &str) -> Link {
    let link = namespace.netlink().unwrap().link(name).unwrap();
    link.unwrap_or_else(|| panic!("no link {name}"))
}

/// The host's end of a pod's veth pair.
fn port_of(node: &Node, result: &Value) -> Link {
    link(
        &node.namespace,
        result["interfaces"][1]["name"].as_str().unwrap(),
    )
}

fn addresses(result: &Value) -> Vec<IpAddr> {
    let ips = result["ips"].as_array().unwrap();
    let address = |ip: &Value| {
        ip["address"]
            .as_str()
            .unwrap()
            .split_once('/')
            .unwrap()
            .0
            .to_owned()
    };
    ips.iter().map(|ip| at(&address(ip))).collect()
}

/// The lines of the pod's table of default routes, of both families.
fn default_routes(pod: &Pod) -> Vec<String> {
    let lines = sh(
        &pod.namespace,
        "ip route show default; ip -6 route show default",
    );
    lines.lines().map(|line| line.trim().to_owned()).collect()
}

#[test]
fn a_pod_reaches_its_gateway_and_neighbours_by_both_families() {
    let Some(node) = Node::new("reach") else {
        return;
    };
    let config = node.bridge_config(json!({ "ipam": dual_stack(&node) }));
    let pods: Vec<Pod> = (0..20)
        .map(|number| node.pod(&format!("p{number}")))
        .collect();
    let results: Vec<Value> = pods.iter().map(|pod| add(&node, pod, &config)).collect();
    let mut failed = Vec::new();
    for pod in &pods {
        let gateways = GATEWAYS.map(at::<IpAddr>);
        for target in results.iter().flat_map(addresses).chain(gateways) {
            failed.extend(pod.namespace.ping(target).err());
        }
    }
    expect_none(failed);
}

#[test]
fn a_new_bridge_is_ready_for_ipv6_at_once() {
    let Some(node) = Node::new("ready") else {
        return;
    };
    let config = node.bridge_config(json!({ "ipam": dual_stack(&node) }));
    let pod = node.pod("pod");
    add(&node, &pod, &config);
    let bridge = link(&node.namespace, "cni0").index;
    let addresses = node.namespace.netlink().unwrap().addresses(bridge).unwrap();
    let waits = addresses.iter().find(|address| address.tentative);
    assert_eq!(waits, None);
    // It asks for the pod by its link-local address.
    node.namespace.ping(at("fd00:10:244::2")).unwrap();
}

#[test]
fn flags_of_the_port() {
    for (hairpin, isolated) in [(false, false), (true, false), (false, true), (true, true)] {
        let Some(node) = Node::new("flags") else {
            return;
        };
        let keys = json!({ "hairpinMode": hairpin, "portIsolation": isolated });
        let pod = node.pod("pod");
        let result = add(&node, &pod, &node.bridge_config(keys));
        let flags = port_of(&node, &result).port.unwrap();
        assert_eq!((flags.hairpin, flags.isolated), (hairpin, isolated));
    }
}

#[test]
fn without_hairpin_a_pod_does_not_reach_itself() {
    for hairpin in [true, false] {
        let keys = json!({ "hairpinMode": hairpin });
        let Some(site) = Site::new("hairpin", &[("bridge", keys)]) else {
            return;
        };
        let pod = site.pod("pod", &[port(8080, 80, "tcp")]);
        for target in ["192.0.2.10:8080", "[2001:db8::10]:8080"] {
            let itself = pod.namespace().ask_tcp_within(at(target), SHORTLY * 3);
            assert_eq!(itself.is_ok(), hairpin, "{itself:?}");
        }
    }
}

#[test]
fn isolated_pods_reach_their_gateway_only() {
    let Some(node) = Node::new("isolated") else {
        return;
    };
    let keys = json!({ "portIsolation": true, "ipam": dual_stack(&node) });
    let config = node.bridge_config(keys);
    let open = node.bridge_config(json!({ "ipam": dual_stack(&node) }));
    let [one, other, third] = ["one", "other", "third"].map(|name| node.pod(name));
    let target = addresses(&add(&node, &other, &config));
    add(&node, &one, &config);
    add(&node, &third, &open);
    for (gateway, target) in GATEWAYS.map(at::<IpAddr>).into_iter().zip(target) {
        one.namespace.ping(gateway).unwrap();
        other.namespace.ping(gateway).unwrap();
        one.namespace.ping_within(target, SHORTLY).unwrap_err();
        // One that is not isolated reaches them all.
        third.namespace.ping(target).unwrap();
    }
}

#[test]
fn an_mtu_is_that_of_both_ends_and_of_a_bridge_made_now() {
    let Some(node) = Node::new("mtu") else {
        return;
    };
    for (name, mtu, of_bridge) in [
        ("first", 1400, 1400),
        ("small", 1300, 1300),
        ("default", 0, 1300),
    ] {
        let pod = node.pod(name);
        let result = add(&node, &pod, &node.bridge_config(json!({ "mtu": mtu })));
        let expected = if mtu == 0 { 1500 } else { mtu };
        assert_eq!(link(&pod.namespace, "eth0").mtu, expected);
        assert_eq!(port_of(&node, &result).mtu, expected);
        // One with the least of its ports', as the kernel has it, until someone sets it.
        assert_eq!(link(&node.namespace, "cni0").mtu, of_bridge);
    }
}

#[test]
fn a_promiscuous_bridge() {
    let Some(node) = Node::new("promisc") else {
        return;
    };
    let add = |name, keys| add(&node, &node.pod(name), &node.bridge_config(keys));
    add("plain", json!({}));
    assert!(!link(&node.namespace, "cni0").promiscuous);
    add("promisc", json!({ "promiscMode": true }));
    assert!(link(&node.namespace, "cni0").promiscuous);
    // Never taken back: another pod may want it.
    add("again", json!({}));
    assert!(link(&node.namespace, "cni0").promiscuous);
}

#[test]
fn layer_2_alone() {
    let Some(node) = Node::new("layer2") else {
        return;
    };
    // What needs addresses does nothing without.
    let keys = json!({ "ipMasq": true, "isDefaultGateway": true });
    let mut config = node.bridge_config(keys);
    let mut pods = Vec::new();
    for (name, ipam) in [
        ("none", Value::Null),
        ("empty", json!({})),
        ("untyped", json!({ "type": "" })),
    ] {
        config = tests::with(&config, "ipam", &ipam);
        let pod = node.pod(name);
        let result = add(&node, &pod, &config);
        assert_eq!(result["interfaces"].as_array().unwrap().len(), 3);
        assert_eq!(
            (&result["ips"], &result["routes"]),
            (&Value::Null, &Value::Null),
            "{result}"
        );
        assert!(link(&pod.namespace, "eth0").up);
        pods.push(pod);
    }
    let bridge = link(&node.namespace, "cni0").index;
    let mut of_bridge = node.namespace.netlink().unwrap().addresses(bridge).unwrap();
    of_bridge.retain(|address| address.global);
    assert_eq!(of_bridge, []);
    let snapshot = node.snapshot("testnet");
    assert!(!snapshot.to_string().contains("CNI-"), "{snapshot}");
    for (one, other, target) in [
        ("10.9.0.1/24", "10.9.0.2/24", "10.9.0.2"),
        ("fd09::1/64", "fd09::2/64", "fd09::2"),
    ] {
        for (pod, own) in pods.iter().zip([one, other]) {
            pod.namespace.add_address("eth0", at(own)).unwrap();
        }
        pods[0].namespace.ping(at(target)).unwrap();
    }
    for pod in &pods {
        node.call("bridge", "DEL", pod, &config, &[]).ok();
    }
    assert!(!node.snapshot("testnet").to_string().contains("veth"));
}

#[test]
fn a_disabled_pod_interface_stays_down() {
    let Some(node) = Node::new("disabled") else {
        return;
    };
    let keys = json!({ "disableContainerInterface": true, "ipam": {} });
    let pod = node.pod("pod");
    let result = add(&node, &pod, &node.bridge_config(keys));
    assert!(!link(&pod.namespace, "eth0").up);
    assert!(port_of(&node, &result).up);

    let with_ipam = node.bridge_config(json!({ "disableContainerInterface": true }));
    let before = node.snapshot("testnet");
    let refused = node.call("bridge", "ADD", &node.pod("other"), with_ipam, &[]);
    let (code, said) = refused.error();
    assert_eq!(code, 7);
    assert!(
        said.starts_with("cannot use IPAM when DisableContainerInterface flag is set"),
        "{said}"
    );
    assert_eq!(node.snapshot("testnet"), before);
}

#[test]
fn with_ipv6_off_by_default_in_the_pod() {
    let Some(node) = Node::new("noipv6") else {
        return;
    };
    let pod = node.pod("pod");
    for link in ["default", "all", "lo"] {
        let file = format!("/proc/sys/net/ipv6/conf/{link}/disable_ipv6");
        sh(&pod.namespace, &format!("echo 1 > {file}"));
    }
    let config = node.bridge_config(json!({ "ipam": dual_stack(&node) }));
    add(&node, &pod, &config);
    for gateway in GATEWAYS {
        pod.namespace.ping(at(gateway)).unwrap();
    }
    pod.namespace.ping(at("::1")).unwrap();
}

#[test]
fn an_ipv6_address_stays_on_a_link_that_goes_down_and_up() {
    let Some(node) = Node::new("keep") else {
        return;
    };
    let pod = node.pod("pod");
    let config = node.bridge_config(json!({ "ipam": dual_stack(&node) }));
    add(&node, &pod, &config);
    sh(&pod.namespace, "ip link set eth0 down; ip link set eth0 up");
    for gateway in GATEWAYS {
        pod.namespace.ping(at(gateway)).unwrap();
    }
}

#[test]
fn one_default_route_whoever_asks_for_it() {
    let routes4 = json!([{ "dst": "0.0.0.0/0" }]);
    let elsewhere = json!([{ "dst": "0.0.0.0/0", "gw": "10.244.0.7" }]);
    let other = json!([{ "dst": "10.99.0.0/16" }]);
    let [by_gateway, by_gateway6] = [
        "default via 10.244.0.1 dev eth0",
        "default via fd00:10:244::1 dev eth0 metric 1024",
    ];
    // isDefaultGateway, the IPAM's routes, and what comes of it.
    let table: [(bool, Value, &[&str]); 6] = [
        (false, Value::Null, &[]),
        (true, Value::Null, &[by_gateway, by_gateway6]),
        (false, routes4.clone(), &[by_gateway]),
        (true, routes4, &[by_gateway, by_gateway6]),
        (
            true,
            elsewhere,
            &["default via 10.244.0.7 dev eth0", by_gateway6],
        ),
        (true, other, &[by_gateway, by_gateway6]),
    ];
    for (is_default, routes, expected) in table {
        let Some(node) = Node::new("default") else {
            return;
        };
        let ipam = tests::with(&dual_stack(&node), "routes", &routes);
        let keys = json!({ "isGateway": false, "isDefaultGateway": is_default, "ipam": ipam });
        let pod = node.pod("pod");
        add(&node, &pod, &node.bridge_config(keys));
        let found = default_routes(&pod);
        let found: Vec<_> = found
            .iter()
            .map(|line| line.split(" pref ").next().unwrap())
            .collect();
        assert_eq!(found, expected, "{is_default} {routes}");
    }
}

#[test]
fn a_route_that_is_asked_for_twice_is_made_once() {
    let Some(node) = Node::new("twice") else {
        return;
    };
    // The last two are what the kernel makes of the addresses themselves.
    let routes = json!([
        { "dst": "0.0.0.0/0" }, { "dst": "0.0.0.0/0", "gw": "10.244.0.1" },
        { "dst": "::/0", "gw": "fd00:10:244::1" }, { "dst": "::/0" },
        { "dst": "10.9.0.0/16" }, { "dst": "10.9.0.0/16" },
        { "dst": "10.244.0.0/24" }, { "dst": "fd00:10:244::/64" }
    ]);
    let ipam = tests::with(&dual_stack(&node), "routes", &routes);
    let pod = node.pod("pod");
    let keys = json!({ "isDefaultGateway": true, "ipam": ipam });
    add(&node, &pod, &node.bridge_config(keys));
    assert_eq!(default_routes(&pod).len(), 2);
    let made = sh(&pod.namespace, "ip route show 10.9.0.0/16");
    assert_eq!(made.lines().count(), 1, "{made}");
    for gateway in GATEWAYS {
        pod.namespace.ping(at(gateway)).unwrap();
    }
}

#[test]
fn a_conflicting_address_of_the_bridge_is_replaced_only_by_force() {
    let Some(node) = Node::new("force") else {
        return;
    };
    let ipam = |subnet| json!({ "type": "host-local", "dataDir": node.data, "subnet": subnet });
    let first = node.pod("first");
    add(
        &node,
        &first,
        &node.bridge_config(json!({ "ipam": ipam("10.1.0.0/16") })),
    );
    let before = node.snapshot("testnet");
    let bridge = link(&node.namespace, "cni0");

    let second = node.pod("second");
    let other = json!({ "ipam": ipam("10.2.0.0/16") });
    let refused = node.call("bridge", "ADD", &second, node.bridge_config(other), &[]);
    let (_, said) = refused.error();
    let expected = "\"cni0\" already has an IP address different from 10.2.0.1/16";
    assert!(said.contains(expected), "{said}");
    assert_eq!(node.snapshot("testnet"), before);
    assert_eq!(sh(&second.namespace, "ip -brief link").lines().count(), 1);

    let forced = json!({ "forceAddress": true, "ipam": ipam("10.2.0.0/16") });
    add(&node, &second, &node.bridge_config(forced));
    let mut addresses = node
        .namespace
        .netlink()
        .unwrap()
        .addresses(bridge.index)
        .unwrap();
    addresses.retain(|address| address.global);
    let nets: Vec<_> = addresses
        .iter()
        .map(|address| address.net.to_string())
        .collect();
    assert_eq!(nets, ["10.2.0.1/16"]);
    assert_eq!(link(&node.namespace, "cni0").mac, bridge.mac);
    second.namespace.ping(at("10.2.0.1")).unwrap();
}

#[test]
fn an_interface_with_a_dot_in_its_name() {
    let Some(node) = Node::new("dot") else {
        return;
    };
    let mut pod = node.pod("pod");
    pod.ifname = "net1.100".to_owned();
    let keys = json!({ "bridge": "br.7", "ipMasq": true, "ipam": dual_stack(&node) });
    let config = node.bridge_config(keys);
    let before = node.snapshot("testnet");
    add(&node, &pod, &config);
    for gateway in GATEWAYS {
        pod.namespace.ping(at(gateway)).unwrap();
    }
    let sysctl = "cat /proc/sys/net/ipv6/conf/net1.100/accept_dad";
    assert_eq!(sh(&pod.namespace, sysctl), "0\n");
    node.call("bridge", "DEL", &pod, &config, &[]).ok();
    // The bridge stays, and the table's own chains.
    let left = node.snapshot("testnet").since(&before);
    let left = left.filter(|line| !line.contains("br.7") && !line.contains(" ACCEPT"));
    assert!(left.is_empty(), "{left}");
}
