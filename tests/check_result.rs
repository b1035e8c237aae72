//! CHECK compares what is there with what the chain's ADD returned.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use tests::{Attached, Damage, Family, Node, expect_none, kind, sh, with};

fn asked() -> Value {
    json!({
        "portMappings": [{ "hostPort": 8080, "containerPort": 80, "protocol": "tcp" }],
        "bandwidth": {
            "ingressRate": 8_000_000, "ingressBurst": 800_000,
            "egressRate": 8_000_000, "egressBurst": 800_000
        }
    })
}

/// Of the version in which results tell of an MTU and of a route's table.
fn attached(label: &str, family: Family) -> Option<Attached> {
    let version = ("", json!({ "cniVersion": "1.1.0" }));
    Attached::new(label, family.conflist(), &[version], &asked())
}

/// One family after the other.
fn of_each_family(label: &str) -> impl Iterator<Item = Attached> {
    Family::ALL
        .into_iter()
        .filter_map(move |family| attached(label, family))
}

/// The MAC of nobody.
const MAC: &str = "02:00:00:00:00:77";
/// What CHECK says of a host veth that the result does not tell.
const NO_VETH: &str = "CNI veth created for bridge cni0 was not found";
/// A result's place (a JSON pointer), what is there instead, and the plugin that notices, with
/// which code and words; in both [`Family::expand`]'s words.
const TOLD: [(&str, &str, &str, u64, &str); 21] = [
    ("", "null", "bridge", 7, "Required prevResult missing"),
    ("", "null", "portmap", 7, "Required prevResult missing"),
    ("", "null", "bandwidth", 7, "must be called as a chained"),
    ("", "text", "bridge", 6, "prevResult"),
    ("", "text", "portmap", 6, "prevResult"),
    ("", "text", "bandwidth", 6, "prevResult"),
    (
        "/interfaces/2/sandbox",
        "/run/netns/x",
        "bridge",
        101,
        "doesn't match configured netns",
    ),
    (
        "/interfaces/2/name",
        "eth9",
        "bridge",
        101,
        "interface eth0 is not in prevResult",
    ),
    ("/interfaces/2/mac", MAC, "bridge", 101, MAC),
    ("/interfaces/1/name", "lo", "bridge", 101, NO_VETH),
    ("/interfaces/1/name", "eth0", "bridge", 101, NO_VETH),
    (
        "/interfaces/1/mtu",
        "1400",
        "bridge",
        101,
        "has mtu 1500, not 1400",
    ),
    (
        "/interfaces/2/mtu",
        "1400",
        "bridge",
        101,
        "interface eth0 has mtu 1500, not 1400",
    ),
    ("/interfaces/0/mac", MAC, "bridge", 101, MAC),
    ("/ips/0/address", "$NINTH/$LEN", "bridge", 101, "$NINTH"),
    ("/ips/0/address", "$NINTH/$LEN", "portmap", 101, "$NINTH"),
    (
        "/routes/0/dst",
        "$FAR",
        "bridge",
        101,
        "$FAR via $GATEWAY} not found",
    ),
    (
        "/routes/1",
        r#"{ "dst": "$OTHERS" }"#,
        "bridge",
        101,
        "Route {$OTHERS} not found",
    ),
    (
        "/interfaces/3/name",
        "bwp0",
        "bandwidth",
        101,
        "is not in the previous result",
    ),
    (
        "/interfaces/3/mac",
        MAC,
        "bandwidth",
        101,
        "is not in the previous result",
    ),
    (
        "/interfaces/1/name",
        "veth0",
        "bandwidth",
        101,
        "no veth peer of container interface",
    ),
];

#[test]
fn a_result_that_is_missing_or_another_s() {
    for attached in of_each_family("result") {
        let node = &attached.node;
        let result = attached.result.to_json(attached.list.cni_version).unwrap();
        let configs = node.configs(&attached.list, &asked());
        let mut failed = Vec::new();
        for (place, value, plugin, code, says) in TOLD {
            let (value, says) = (attached.expand(value), attached.expand(says));
            let mut told = result.clone();
            let value = serde_json::from_str(&value).unwrap_or(json!(value));
            *told.pointer_mut(place).unwrap() = value;
            let mut configs = configs.iter();
            let config = configs.find(|config| kind(config) == plugin).unwrap();
            let config = with(config, "prevResult", &told);
            let answer = node.call(plugin, "CHECK", &attached.pod, config, &[]);
            if answer.status != 1 || answer.error().0 != code || !answer.error().1.contains(&says) {
                failed.push(format!("{plugin} with {place} {told}: {answer:?}"));
            }
        }
        expect_none(failed);
    }
}

#[test]
fn a_namespace_that_is_none() {
    let Some(attached) = attached("netns", Family::V4) else {
        return;
    };
    let node = &attached.node;
    let result = attached.result.to_json(attached.list.cni_version).unwrap();
    let file = node.data.join("file");
    std::fs::write(&file, "").unwrap();
    let gone = "/run/netns/nowhere".to_owned();
    let file = file.to_string_lossy().into_owned();
    let own = node.namespace.path().to_string_lossy().into_owned();
    let mut failed = Vec::new();
    for netns in [gone, file, own] {
        for config in node.configs(&attached.list, &asked()) {
            let plugin = kind(&config).to_owned();
            // Host ports have nothing in the pod.
            if plugin == "portmap" {
                continue;
            }
            let config = with(&config, "prevResult", &result);
            let netns = [("CNI_NETNS", netns.as_str())];
            let answer = node.call(&plugin, "CHECK", &attached.pod, config, &netns);
            if answer.status != 1 || answer.error().0 != 4 || !answer.error().1.contains(netns[0].1)
            {
                failed.push(format!("{plugin}: {netns:?}: {answer:?}"));
            }
        }
    }
    expect_none(failed);
}

/// What a later plugin does in the pod, and what it then tells at which place of the result. Until
/// it is told, CHECK notices it.
const DONE: [(&str, &str, &str, &str); 4] = [
    (
        "MAC",
        "ip link set eth0 address 02:00:00:00:00:77",
        "/interfaces/2/mac",
        r#""02:00:00:00:00:77""#,
    ),
    (
        "MTU",
        "ip link set eth0 mtu 1400",
        "/interfaces/2/mtu",
        "1400",
    ),
    (
        "routes",
        "ip $F route delete $PODS; ip $F route replace default via $NINTH
         ip $F route add $FAR via $NINTH table 100",
        "/routes",
        r#"[{ "dst": "$ALL", "gw": "$NINTH" }, { "dst": "$FAR", "gw": "$NINTH", "table": 100 }]"#,
    ),
    ("no routes", "ip $F route delete default", "/routes", "[]"),
];

#[test]
fn what_a_later_plugin_told_is_right() {
    for attached in of_each_family("told") {
        for (what, done, place, value) in DONE {
            sh(&attached.pod.namespace, &attached.expand(done));
            attached.check().expect_err(what);
            let value = serde_json::from_str(&attached.expand(value)).unwrap();
            attached.node.tell(&attached.list, &attached.pod, |told| {
                *told.pointer_mut(place).unwrap() = value;
            });
            attached
                .check()
                .unwrap_or_else(|said| panic!("{what}: {said}"));
        }
    }
}

#[test]
fn a_later_plugin_may_add_an_interface() {
    let Some(attached) = attached("more", Family::V4) else {
        return;
    };
    let sandbox = attached.pod.namespace.path();
    sh(
        &attached.pod.namespace,
        "ip link add eth1 type bridge; ip link set eth1 up
         ip address add 10.99.0.2/24 dev eth1; ip route add 10.98.0.0/16 via 10.99.0.1",
    );
    attached.node.tell(&attached.list, &attached.pod, |told| {
        let interface = json!({ "name": "eth1", "sandbox": sandbox });
        told["interfaces"].as_array_mut().unwrap().push(interface);
        let address = json!({ "address": "10.99.0.2/24", "interface": 4 });
        told["ips"].as_array_mut().unwrap().push(address);
        let route = json!({ "dst": "10.98.0.0/16", "gw": "10.99.0.1" });
        told["routes"].as_array_mut().unwrap().push(route);
    });
    attached.check().unwrap();
}

/// What others do in the pod.
const IN_POD: [&str; 12] = [
    "ip address add $IP0/$LEN dev eth0 $NODAD",
    "ip address add 10.99.0.2/24 dev eth0",
    "ip address add fd00::7/64 dev eth0",
    "ip $F route add $FAR via $GATEWAY",
    "ip $F route add default via $NINTH metric 50",
    "ip $F route append default via $NINTH",
    "ip $F rule add from $IP table 100",
    "ip link add eth1 type bridge; ip link set eth1 up",
    "tc qdisc add dev eth0 root pfifo",
    "echo 0 > /proc/sys/net/ipv4/conf/eth0/arp_notify",
    "echo 0 > /proc/sys/net/ipv6/conf/eth0/ndisc_notify",
    "$TABLES -t nat -A POSTROUTING -j ACCEPT",
];

/// What they do on the node.
const ON_NODE: [&str; 18] = [
    "ip address add 10.100.0.1/24 dev cni0",
    "ip address add fd00::1/64 dev cni0",
    "ip link set $VETH address 02:00:00:00:00:78",
    "ip link set $VETH txqueuelen 77",
    "ip link property add dev $VETH altname pod-of-others",
    "ip link add ifb9 type ifb; ip link set ifb9 up",
    "tc qdisc add dev cni0 root pfifo",
    "tc qdisc add dev eth0 root tbf rate 1mbit burst 10kb latency 25ms",
    "tc filter add dev $VETH parent ffff: protocol ip pref 9 u32 match u32 0 0 flowid 1:2",
    "ip route add 10.97.0.0/16 via 192.0.2.1",
    "$TABLES -A FORWARD -s $IP -j ACCEPT",
    "$TABLES -t nat -I POSTROUTING -s $FAR -j ACCEPT",
    "$TABLES -t nat -I PREROUTING -p tcp --dport 1 -j ACCEPT",
    "$TABLES -t nat -A CNI-HOSTPORT-DNAT -p tcp --dport 1 -j RETURN",
    "$TABLES -t nat -I CNI-HOSTPORT-SETMARK -p sctp -j RETURN",
    "$TABLES -t nat -N OTHERS; $TABLES -t nat -A OTHERS -j RETURN",
    "echo 1 > /proc/sys/net/ipv4/conf/cni0/proxy_arp",
    "printf 'other\\r\\neth0' > $STORE/$NINTH",
];

#[test]
fn additions_of_others_are_fine() {
    for attached in of_each_family("others") {
        let node = &attached.node;
        let _outside = node.outside();
        let list = &attached.list;
        let neighbour = node.pod("neighbour");
        node.add(list, &neighbour, asked()).unwrap();
        attached.check().unwrap();
        let mut failed = Vec::new();
        let pod = &attached.pod.namespace;
        let places = IN_POD.map(|done| (pod, done)).into_iter();
        for (namespace, done) in places.chain(ON_NODE.map(|done| (&node.namespace, done))) {
            sh(namespace, &attached.expand(done));
            failed.extend(attached.check().err().map(|said| format!("{done}: {said}")));
        }
        node.del(list, &neighbour).unwrap();
        failed.extend(attached.check().err());
        expect_none(failed);
    }
}

/// The kernel makes no route of its own to 0.0.0.0/0, and one to ::/0.
#[test]
fn what_is_in_the_network_of_everything_passes() {
    for (subnet, gateway, first) in [
        ("0.0.0.0/0", "10.1.0.1", "10.1.0.2"),
        ("::/0", "fd00::1", "fd00::2"),
    ] {
        let Some(node) = Node::new("check-everything") else {
            return;
        };
        let mut ipam = json!({ "type": "host-local", "subnet": subnet, "dataDir": node.data });
        ipam["gateway"] = json!(gateway);
        ipam["rangeStart"] = json!(first);
        let config = node.bridge_config(json!({ "ipam": ipam }));
        let pod = node.pod("pod");
        let added = node.call("bridge", "ADD", &pod, &config, &[]);
        let config = with(&config, "prevResult", added.ok());
        node.call("bridge", "CHECK", &pod, &config, &[]).ok();
        node.call("bridge", "DEL", &pod, &config, &[]).ok();
    }
}

#[test]
fn check_changes_nothing() {
    let Some(attached) = attached("same", Family::V4) else {
        return;
    };
    let before = attached.node.snapshot(&attached.list.name);
    attached.check().unwrap();
    let table: &[Damage] = &[(
        "address gone",
        "ip address delete 10.244.0.2/24 dev eth0",
        "ip address add 10.244.0.2/24 dev eth0; ip route add default via 10.244.0.1
         ip route add 10.244.0.0/16 via 10.244.0.1",
        "10.244.0.2",
    )];
    attached.expect_noticed("bridge", &attached.pod.namespace, table);
    assert_eq!(attached.node.snapshot(&attached.list.name), before);
}
