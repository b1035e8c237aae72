//! The reference plugins (Debian's `containernetworking-plugins`) beside ours: on two nodes that
//! are alike, the same calls make the same.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use serde_json::{Value, json};
use tests::{Made, Node, Plugins, reference_variants};

/// The conflist that the cases start from.
const CONFLIST: &str = include_str!("../conf/10-k8nd.conflist");

/// One way to call the chain: keys of the conflist that are replaced or added, by their JSON
/// pointer; and what the runtime is asked for.
struct Case {
    name: &'static str,
    keys: Value,
    asked: Value,
    pod: &'static str,
    args: &'static str,
}

impl Case {
    fn new(name: &'static str, keys: Value, asked: Value) -> Case {
        Case {
            name,
            keys,
            asked,
            pod: "pod",
            args: "",
        }
    }
}

#[test]
fn a_pod_with_ports_and_rates() {
    let asked = json!({ "portMappings": ports(), "bandwidth": rates() });
    compare(&[
        Case::new("nothing asked for", json!({}), json!({})),
        Case::new("ports and rates", json!({}), asked.clone()),
        Case {
            pod: "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
            ..Case::new(
                "a long id",
                json!({ "/name": "n".repeat(250) }),
                asked.clone(),
            )
        },
        Case::new(
            "0.2.0",
            // Which the reference's bandwidth does not speak.
            json!({ "/cniVersion": "0.2.0", "/plugins/2/type": "portmap" }),
            json!({ "portMappings": ports() }),
        ),
        Case::new("0.3.0", json!({ "/cniVersion": "0.3.0" }), asked.clone()),
        Case::new("0.3.1", json!({ "/cniVersion": "0.3.1" }), asked.clone()),
        Case::new("0.4.0", json!({ "/cniVersion": "0.4.0" }), asked),
    ]);
}

#[test]
fn host_ports() {
    let mapping = |port: usize, protocol| json!({ "hostPort": 8000 + port, "containerPort": port, "protocol": protocol });
    let many: Vec<_> = (1..=20).map(|port| mapping(port, "tcp")).collect();
    let mixed: Vec<_> = (1..=9)
        .map(|n| mapping(n, ["udp", "tcp", "sctp"][n % 3]))
        .collect();
    let on = |host_ip: &str| json!([{ "hostPort": 8080, "containerPort": 80, "protocol": "tcp", "hostIP": host_ip }]);
    let capitals =
        json!([{ "HostPort": 8080, "ContainerPort": 80, "Protocol": "tcp", "HostIP": "" }]);
    let with = |name, keys, ports| Case::new(name, keys, json!({ "portMappings": ports }));
    compare(&[
        with("one address of the host", json!({}), on("192.0.2.10")),
        with("any address of the host", json!({}), on("0.0.0.0")),
        with(
            "an address of the other family",
            json!({}),
            on("2001:db8::10"),
        ),
        with("any address of the other family", json!({}), on("::")),
        with("twenty ports", json!({}), json!(many)),
        with("three protocols", json!({}), json!(mixed)),
        with("capital letters", json!({}), capitals),
        with("no ports", json!({}), json!([])),
        with("no snat", json!({ "/plugins/1/snat": false }), ports()),
        with(
            "another bit",
            json!({ "/plugins/1/markMasqBit": 5 }),
            ports(),
        ),
        with("bit 0", json!({ "/plugins/1/markMasqBit": 0 }), ports()),
        with(
            "another's chain",
            json!({ "/plugins/1/externalSetMarkChain": "OTHERS-MARK" }),
            ports(),
        ),
        with(
            "conditions",
            json!({
                "/plugins/1/conditionsV4": ["!", "-s", "192.0.2.0/24", "-m", "mark", "!", "--mark", "0x1"],
                "/plugins/1/conditionsV6": ["!", "-s", "2001:db8::/32"]
            }),
            ports(),
        ),
    ]);
}

#[test]
fn both_families() {
    let keys = json!({
        "/plugins/0/ipam": {
            "type": "host-local",
            "ranges": [[{ "subnet": "10.244.0.0/24" }], [{ "subnet": "fd00:244::/64" }]],
            "routes": [{ "dst": "0.0.0.0/0" }, { "dst": "::/0" }]
        }
    });
    let on = |host_ip: &str| {
        json!({ "portMappings": [
        { "hostPort": 8080, "containerPort": 80, "protocol": "tcp", "hostIP": host_ip }
    ] })
    };
    compare(&[
        Case::new(
            "ports and rates",
            keys.clone(),
            json!({ "portMappings": ports(), "bandwidth": rates() }),
        ),
        Case::new(
            "an IPv4 address of the host",
            keys.clone(),
            on("192.0.2.10"),
        ),
        Case::new(
            "an IPv6 address of the host",
            keys.clone(),
            on("2001:db8::10"),
        ),
        Case::new("any IPv6 address", keys, on("::")),
    ]);
}

#[test]
fn ipv6_alone() {
    let keys = json!({
        "/plugins/0/ipam": {
            "type": "host-local", "subnet": "fd00:244::/64",
            "routes": [{ "dst": "::/0" }, { "dst": "fd00:244::/56" }]
        }
    });
    let asked = json!({ "portMappings": ports(), "bandwidth": rates() });
    let default = json!({
        "/plugins/0/isDefaultGateway": true,
        "/plugins/0/ipam": { "type": "host-local", "subnet": "fd00:244::/64" }
    });
    compare(&[
        Case::new("IPv6, ports and rates", keys, asked),
        Case::new("IPv6, the default gateway", default, json!({})),
    ]);
}

#[test]
fn addresses() {
    let ipam = |name, ipam: Value| {
        let mut ipam = ipam;
        ipam["type"] = json!("host-local");
        Case::new(name, json!({ "/plugins/0/ipam": ipam }), json!({}))
    };
    // Two addresses of a family would have two gateways, of which a bridge can be but one, and
    // the reference plugin cannot remove the masquerading of two.
    let capable = json!({
        "/plugins/0/isGateway": false,
        "/plugins/0/ipMasq": false,
        "/plugins/0/capabilities": { "ips": true, "ipRanges": true, "mac": true }
    });
    let asked = |name, asked| Case::new(name, capable.clone(), asked);
    compare(&[
        asked("a wanted address", json!({ "ips": ["10.244.0.77"] })),
        asked(
            "a wanted address with a prefix",
            json!({ "ips": ["10.244.0.77/24"] }),
        ),
        asked(
            "a wanted MAC address",
            json!({ "mac": "02:11:22:33:44:55" }),
        ),
        asked(
            "the runtime's ranges",
            json!({ "ipRanges": [[{ "subnet": "10.245.0.0/24" }]] }),
        ),
        Case {
            args: "IgnoreUnknown=1;K8S_POD_NAME=w2;MAC=02:11:22:33:44:66;IP=10.244.0.99",
            ..Case::new("address and MAC in CNI_ARGS", json!({}), json!({}))
        },
        Case::new(
            "address and MAC in args",
            json!({ "/plugins/0/args": { "cni": { "ips": ["10.244.0.98"], "mac": "02:11:22:33:44:77" } } }),
            json!({}),
        ),
        Case::new(
            "two sets of one family",
            json!({
                "/plugins/0/isGateway": false,
                "/plugins/0/ipMasq": false,
                "/plugins/0/ipam": {
                    "type": "host-local",
                    "ranges": [[{ "subnet": "10.244.0.0/24" }], [{ "subnet": "10.245.0.0/24" }]]
                }
            }),
            json!({}),
        ),
        ipam(
            "two ranges in a set",
            json!({
                "ranges": [[
                    { "subnet": "10.244.0.0/24", "rangeStart": "10.244.0.9", "rangeEnd": "10.244.0.9" },
                    { "subnet": "10.245.0.0/24", "rangeStart": "10.245.0.7" }
                ]]
            }),
        ),
        ipam(
            "a part of a subnet",
            json!({
                "subnet": "10.244.0.0/16", "rangeStart": "10.244.3.254", "rangeEnd": "10.244.4.9",
                "gateway": "10.244.3.255", "routes": [{ "dst": "10.9.0.0/16", "gw": "10.244.3.255" }]
            }),
        ),
        ipam("a network of two", json!({ "subnet": "10.244.0.4/30" })),
    ]);
}

#[test]
fn bridges() {
    let with = |name, keys| Case::new(name, keys, json!({ "portMappings": ports() }));
    let no_routes = |mut keys: Value| {
        keys["/plugins/0/ipam"] = json!({ "type": "host-local", "subnet": "10.244.0.0/24" });
        keys
    };
    let dns = json!({ "nameservers": ["10.96.0.10"], "domain": "local", "search": ["a", "b"], "options": ["ndots:5"] });
    compare(&[
        with(
            "no gateway",
            no_routes(json!({ "/plugins/0/isGateway": false })),
        ),
        with(
            "the default gateway",
            no_routes(json!({ "/plugins/0/isDefaultGateway": true })),
        ),
        with("no masquerade", json!({ "/plugins/0/ipMasq": false })),
        with("no hairpin", json!({ "/plugins/0/hairpinMode": false })),
        with(
            "promiscuous",
            json!({ "/plugins/0/hairpinMode": false, "/plugins/0/promiscMode": true }),
        ),
        with("an MTU", json!({ "/plugins/0/mtu": 1400 })),
        with("DNS", json!({ "/plugins/0/dns": dns })),
        with(
            "no DNS servers",
            json!({ "/plugins/0/dns": { "nameservers": [] } }),
        ),
    ]);
}

#[test]
fn shaping() {
    let asked = |name, rates| Case::new(name, json!({}), json!({ "bandwidth": rates }));
    compare(&[
        asked(
            "in",
            json!({ "ingressRate": 1_000_000, "ingressBurst": 800_000 }),
        ),
        asked(
            "out",
            json!({ "egressRate": 1_000_000, "egressBurst": 800_000 }),
        ),
        asked(
            "capital letters",
            json!({ "IngressRate": 1_000_000, "IngressBurst": 800_000 }),
        ),
        asked(
            "fast",
            json!({ "egressRate": 40_000_000_000_u64, "egressBurst": 800_000_000 }),
        ),
        asked(
            "odd",
            json!({ "ingressRate": 1_234_567, "ingressBurst": 765_432 }),
        ),
        asked("no rates", json!({ "ingressRate": 0, "ingressBurst": 0 })),
        Case::new(
            "rates of the file",
            json!({ "/plugins/2/egressRate": 3_000_000, "/plugins/2/egressBurst": 900_000 }),
            json!({ "bandwidth": rates() }),
        ),
    ]);
}

fn ports() -> Value {
    json!([
        { "hostPort": 8080, "containerPort": 80, "protocol": "tcp" },
        { "hostPort": 8053, "containerPort": 53, "protocol": "udp" }
    ])
}

fn rates() -> Value {
    json!({
        "ingressRate": 1_000_000, "ingressBurst": 800_000,
        "egressRate": 2_000_000, "egressBurst": 1_600_000
    })
}

/// Runs the cases with both on nodes of their own, with every variant of iptables.
#[track_caller]
fn compare(cases: &[Case]) {
    let mut differences = String::new();
    for variant in reference_variants() {
        for case in cases {
            let (Some(ours), Some(theirs)) = (Node::new("ours"), Node::new("theirs")) else {
                return;
            };
            let ours = run(case, &Plugins::ours(&ours, variant));
            let theirs = run(case, &Plugins::theirs(&theirs, variant));
            for ((step, ours), (_, theirs)) in ours.iter().zip(&theirs) {
                let found = ours.differences(theirs);
                if !found.is_empty() {
                    differences += &format!("{}, {step}, iptables-{variant}:\n{found}", case.name);
                }
            }
        }
    }
    assert!(differences.is_empty(), "< ours, > theirs\n{differences}");
}

/// What is there after a pod's ADD, and after its DEL.
fn run(case: &Case, plugins: &Plugins) -> [(&'static str, Made); 2] {
    let node = plugins.node;
    plugins.tool("iptables", &["-t", "nat", "-N", "OTHERS-MARK"]);
    let mut list: Value = serde_json::from_str(CONFLIST).unwrap();
    for (pointer, value) in case.keys.as_object().unwrap() {
        set(&mut list, pointer, value.clone());
    }
    let list = node.list(list);
    let configs = node.configs(&list, &case.asked);
    let pod = node.pod(case.pod);
    let added = plugins.add(&configs, &pod, &[("CNI_ARGS", case.args)]);
    let result = added.ok();
    let made = Made::of(node, &pod, &list.name, result);
    plugins.del(&configs, &pod, result);
    let left = Made::of(node, &pod, &list.name, &json!({}));
    [("ADD", made), ("DEL", left)]
}

/// Sets what a JSON pointer names, its last part new or not.
fn set(value: &mut Value, pointer: &str, to: Value) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = value.pointer_mut(parent).unwrap();
    parent[key] = to;
}
