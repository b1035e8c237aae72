//! GC takes what attachments that are no more have left, and nothing else.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use lab::{Namespace, Server};
use net::Netns;
use serde_json::{Value, json};
use tests::{Node, Pod, address, at, entry, eventually, kind, with};

/// The network that is collected, and others whose names have much in common with it.
const NETWORKS: [&str; 3] = ["k8nd-pod-network", "k8nd-pod-net", "k8nd-pod-network.2"];

/// The configurations of the whole chain of one of the networks, each on a bridge of its own.
fn configs(node: &Node, network: usize, backend: &str, asked: &Value) -> Vec<Value> {
    let list = json!({
        "cniVersion": "1.1.0",
        "name": NETWORKS[network],
        "plugins": [
            {
                "type": "bridge", "bridge": format!("cni{network}"), "isGateway": true,
                "ipMasq": true, "ipMasqBackend": backend, "hairpinMode": true,
                "ipam": {
                    "type": "host-local",
                    "ranges": [
                        [{ "subnet": format!("10.24{network}.0.0/24") }],
                        [{ "subnet": format!("fd00:{network}::/64") }]
                    ],
                    "routes": [{ "dst": "0.0.0.0/0" }, { "dst": "::/0" }]
                }
            },
            { "type": "portmap", "backend": backend, "capabilities": { "portMappings": true } },
            { "type": "bandwidth", "capabilities": { "bandwidth": true } }
        ]
    });
    node.configs(&node.list(list), asked)
}

/// What a runtime is asked for: both protocols of one host port, and both rates.
fn asked(port: u16) -> Value {
    json!({
        "portMappings": [
            { "hostPort": port, "containerPort": 80, "protocol": "tcp" },
            { "hostPort": port, "containerPort": 53, "protocol": "udp" }
        ],
        "bandwidth": {
            "ingressRate": 100_000_000, "ingressBurst": 8_000_000,
            "egressRate": 100_000_000, "egressBurst": 8_000_000
        }
    })
}

/// A line for each thing that the node holds, of all networks.
fn lines(node: &Node) -> BTreeSet<String> {
    let [first, others @ ..] = NETWORKS;
    let all = node.snapshot(first).to_string();
    let mut lines: BTreeSet<_> = all.lines().map(str::to_owned).collect();
    lines.extend(
        others
            .iter()
            .flat_map(|name| node.snapshot(name).reservations),
    );
    lines
}

/// A pod on a node.
struct Tenant {
    pod: Pod,
    port: u16,
    configs: Vec<Value>,
    result: Value,
    /// What its ADD has made.
    lines: BTreeSet<String>,
}

impl Tenant {
    fn new(node: &Node, network: usize, number: u16, backend: &str) -> Tenant {
        let port = 20_000 + 1000 * u16::try_from(network).unwrap() + number;
        let pod = node.pod(&format!("pod{port}"));
        let configs = configs(node, network, backend, &asked(port));
        let before = lines(node);
        let result = node.add_each(&configs, &pod);
        Tenant {
            lines: &lines(node) - &before,
            configs: configs
                .iter()
                .map(|config| with(config, "prevResult", &result))
                .collect(),
            pod,
            port,
            result,
        }
    }

    fn entry(&self) -> Value {
        entry(&self.pod.id, &self.pod.ifname)
    }

    /// The pod goes without a DEL; what is returned keeps its links alive, as a process in it would.
    fn vanish(self) -> Netns {
        let held = self.pod.namespace.netns().try_clone().unwrap();
        self.pod.namespace.remove().unwrap();
        held
    }

    /// Servers on its ports.
    fn serve(&self) -> Vec<Server> {
        let namespace = &self.pod.namespace;
        let serve = |ip: IpAddr| {
            let tcp = namespace.serve_tcp(SocketAddr::new(ip, 80));
            [tcp, namespace.serve_udp(SocketAddr::new(ip, 53))].map(Result::unwrap)
        };
        self.addresses().into_iter().flat_map(serve).collect()
    }

    fn addresses(&self) -> [IpAddr; 2] {
        let second = json!({ "ips": [self.result["ips"][1]] });
        [address(&self.result), address(&second)]
    }

    /// That CHECK passes, and its ports lead to it.
    fn expect_served(&self, node: &Node, outside: &Namespace) {
        for config in &self.configs {
            node.call(kind(config), "CHECK", &self.pod, config, &[])
                .ok();
        }
        let _servers = self.serve();
        let node_at = |ip: &str| SocketAddr::new(at(ip), self.port);
        let [v4, v6] = self.addresses();
        for (ip, pod) in [("192.0.2.10", v4), ("2001:db8::10", v6)] {
            let tcp = outside.ask_tcp(node_at(ip)).unwrap();
            let udp = outside.ask_udp(node_at(ip)).unwrap();
            assert_eq!(
                [tcp.local.ip(), udp.local.ip()],
                [pod; 2],
                "{}",
                self.pod.id
            );
        }
    }
}

/// That the node comes to hold just this: links of a namespace go in the kernel's own time.
#[track_caller]
fn expect_lines(case: &str, node: &Node, expected: &BTreeSet<String>) {
    let same = eventually(|| {
        let now = lines(node);
        let (left, lost) = (&now - expected, expected - &now);
        let same = left.is_empty() && lost.is_empty();
        same.then_some(()).ok_or((left, lost))
    });
    let (left, lost) = same.err().unwrap_or_default();
    assert!(
        left.is_empty() && lost.is_empty(),
        "{case}: left: {left:#?}\nlost: {lost:#?}"
    );
}

/// GC of each plugin, all of which must succeed without a word.
#[track_caller]
fn gc(node: &Node, configs: &[Value], valid: &[Value]) {
    for (config, answer) in configs.iter().zip(node.gc_each(configs, valid)) {
        assert_eq!(
            (answer.status, answer.stdout.as_str()),
            (0, ""),
            "{}: {answer:?}",
            kind(config)
        );
    }
}

/// Brings into being what all pods of a network share.
fn warm(node: &Node, network: usize, backend: &str) {
    let first = Tenant::new(node, network, 999, backend);
    for answer in node.del_each(&first.configs, &first.pod, &[]) {
        answer.ok();
    }
}

fn of_fifty_pods(label: &str, backend: &str) {
    let Some(node) = Node::new(label) else {
        return;
    };
    let outside = node.outside();
    (0..3).for_each(|network| warm(&node, network, backend));
    let nothing = lines(&node);
    let others: Vec<_> = (1..3)
        .flat_map(|network| [0, 1].map(|number| Tenant::new(&node, network, number, backend)))
        .collect();
    let without = lines(&node);
    let pods: Vec<_> = (0..50)
        .map(|number| Tenant::new(&node, 0, number, backend))
        .collect();
    let all = lines(&node);
    // One in two of the other networks' pods has vanished as well.
    let mut held = Vec::new();
    let mut kept = Vec::new();
    for (number, other) in others.into_iter().enumerate() {
        match number % 2 {
            0 => kept.push(other),
            _ => held.push(other.vanish()),
        }
    }
    let (alive, dead): (Vec<_>, Vec<_>) = pods.into_iter().partition(|pod| pod.port % 5 < 2);
    assert_eq!((alive.len(), dead.len()), (20, 30));
    let gone: BTreeSet<_> = dead.iter().flat_map(|pod| pod.lines.clone()).collect();
    for pod in dead {
        let may_hold = pod.port % 2 == 0;
        held.extend(Some(pod.vanish()).filter(|_| may_hold));
    }

    let valid: Vec<_> = alive.iter().map(Tenant::entry).collect();
    let configs = configs(&node, 0, backend, &Value::Null);
    for time in ["once", "twice"] {
        gc(&node, &configs, &valid);
        expect_lines(time, &node, &(&all - &gone));
    }
    for pod in alive.iter().chain(&kept) {
        pod.expect_served(&node, &outside);
    }
    // Now the rest, by an empty list; then the others, each by its own list.
    gc(&node, &configs, &[]);
    expect_lines("an empty list", &node, &without);
    for (network, name) in NETWORKS.iter().enumerate().skip(1) {
        let of_network = |pod: &&Tenant| pod.configs[0]["name"] == *name;
        let valid: Vec<_> = kept.iter().filter(of_network).map(Tenant::entry).collect();
        gc(
            &node,
            &self::configs(&node, network, backend, &Value::Null),
            &valid,
        );
    }
    let mut expected = nothing;
    expected.extend(kept.iter().flat_map(|pod| pod.lines.clone()));
    expect_lines("the others", &node, &expected);
}

#[test]
fn of_fifty_pods_thirty_vanish_by_iptables() {
    of_fifty_pods("gc-fifty", "iptables");
}

#[test]
fn of_fifty_pods_thirty_vanish_by_nftables() {
    of_fifty_pods("gc-fifty-nft", "nftables");
}
