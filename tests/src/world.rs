//! A node in use: an outside host, and a pod of the whole chain that every test must leave alone.

use std::net::{IpAddr, SocketAddr};

use cni::runtime::NetworkList;
use lab::{Namespace, Server, Snapshot};
use serde_json::{Value, json};

use crate::by_hand::{kind, with};
use crate::tools::legacy_path;
use crate::{Answer, Family, Node, Pod};

/// A node that has served a pod which is gone, and serves one which stays.
#[derive(Debug)]
pub struct World {
    /// The node.
    pub node: Node,
    /// The chain.
    pub list: NetworkList,
    /// A host beyond its uplink.
    pub outside: Namespace,
    /// The pod that stays. Its host ports are 8080/tcp and 8053/udp.
    pub other: Pod,
    /// The result of its ADD.
    pub other_result: Value,
    other_configs: Vec<Value>,
    before: Snapshot,
    _servers: [Server; 2],
}

impl World {
    /// A node in use, whose pods have an IPv4 address; `None`, said aloud and counted, where this
    /// machine cannot make one.
    pub fn new(label: &str) -> Option<World> {
        World::of(Node::new(label)?, "10-k8nd.conflist")
    }

    /// The same where nobody has an IPv4 address, but of its loopback.
    pub fn ipv6(label: &str) -> Option<World> {
        let node = Node::new(label)?;
        let list = node.conflist(Family::V6.conflist());
        let outside = node.outside_of(&[Family::V6]);
        Some(World::beside(outside, node, list))
    }

    /// [`World::new`] and [`World::ipv6`], one after the other.
    pub fn of_each_family(label: &str) -> impl Iterator<Item = World> {
        let make = move |family: Family| match family {
            Family::V4 => World::new(label),
            Family::V6 => World::ipv6(&format!("{label}-6")),
        };
        Family::ALL.into_iter().filter_map(make)
    }

    /// The same with an address of both families.
    pub fn dual_stack(label: &str) -> Option<World> {
        World::of(Node::new(label)?, "20-dual-stack.conflist")
    }

    /// As [`World::dual_stack`], on a node whose iptables is of the legacy variant; `None` also
    /// where this machine has none, or does not tell an ordinary user of its tables.
    pub fn legacy(label: &str) -> Option<World> {
        let mut node = Node::new(label)?;
        let folder = node.folder().join("legacy");
        node.path = legacy_path(&folder).or_else(|| {
            lab::skip("no iptables of the legacy variant can be used");
            None
        })?;
        World::of(node, "20-dual-stack.conflist")
    }

    /// As [`World::dual_stack`], with all rules made by nftables.
    pub fn nftables(label: &str) -> Option<World> {
        let node = Node::new(label)?;
        let changes = [
            ("bridge", json!({ "ipMasqBackend": "nftables" })),
            ("portmap", json!({ "backend": "nftables" })),
        ];
        let list = node.conflist_with("20-dual-stack.conflist", &changes);
        Some(World::of_list(node, list))
    }

    /// As [`World::dual_stack`], with a filter of each pod's source MAC; `None` also where this
    /// machine has no such filters.
    pub fn filtered(label: &str) -> Option<World> {
        let node = Node::new(label)?;
        if !node.can_filter_frames() {
            return None;
        }
        let changes = [("bridge", json!({ "macspoofchk": true }))];
        let list = node.conflist_with("20-dual-stack.conflist", &changes);
        Some(World::of_list(node, list))
    }

    fn of(node: Node, conflist: &str) -> Option<World> {
        let list = node.conflist(conflist);
        Some(World::of_list(node, list))
    }

    /// A node in use by this chain.
    pub fn of_list(node: Node, list: NetworkList) -> World {
        World::beside(node.outside(), node, list)
    }

    fn beside(outside: Namespace, node: Node, list: NetworkList) -> World {
        let configs = node.configs(&list, &asked(7000));
        // What all pods share comes with the first.
        let gone = node.pod("gone");
        node.add_each(&configs, &gone);
        for answer in node.del_each(&configs, &gone, &[]) {
            answer.ok();
        }
        let other = node.pod("other");
        let other_configs = node.configs(&list, &asked(8000));
        let other_result = node.add_each(&other_configs, &other);
        let at = |port| SocketAddr::new(address(&other_result), port);
        let servers = [
            other.namespace.serve_tcp(at(80)).unwrap(),
            other.namespace.serve_udp(at(53)).unwrap(),
        ];
        let before = node.snapshot(&list.name);
        World {
            node,
            list,
            outside,
            other,
            other_result,
            other_configs,
            before,
            _servers: servers,
        }
    }

    /// The configurations of the whole chain, for a pod that has host ports 9080/tcp and 9053/udp
    /// and both rates.
    pub fn configs(&self) -> Vec<Value> {
        self.node.configs(&self.list, &asked(9000))
    }

    /// A pod with all that the chain gives, and the configurations that a runtime has for it
    /// then: those of its ADD with the final result.
    #[track_caller]
    pub fn pod(&self, name: &str) -> (Pod, Vec<Value>) {
        let pod = self.node.pod(name);
        let configs = self.configs();
        let result = self.node.add_each(&configs, &pod);
        assert_ne!(self.snapshot(), self.before, "{name}: nothing was made");
        let with_result = |config| with(config, "prevResult", &result);
        (pod, configs.iter().map(with_result).collect())
    }

    /// DEL of each plugin, the last first; all must succeed.
    #[track_caller]
    pub fn del(&self, case: &str, configs: &[Value], pod: &Pod, env: &[(&str, &str)]) {
        for answer in self.node.del_each(configs, pod, env) {
            assert_eq!(answer.status, 0, "{case}: {answer:?}");
            assert_eq!(answer.stdout, "", "{case}");
        }
    }

    /// The family of the pods' first address.
    pub fn family(&self) -> Family {
        Family::of(address(&self.other_result))
    }

    /// What the node holds now.
    #[track_caller]
    pub fn snapshot(&self) -> Snapshot {
        self.node.snapshot(&self.list.name)
    }

    /// What the node holds now and did not hold before any test.
    #[track_caller]
    pub fn left(&self) -> Snapshot {
        self.snapshot().since(&self.before)
    }

    /// That the node holds what it held before any test, and that the pod that stays is whole and
    /// served.
    #[track_caller]
    pub fn expect_untouched(&self, case: &str) {
        let now = self.snapshot();
        let (left, lost) = (now.since(&self.before), self.before.since(&now));
        let same = left.is_empty() && lost.is_empty();
        assert!(same, "{case}: left:\n{left}\nlost:\n{lost}");
        assert_eq!(now, self.before, "{case}: another order");
        self.expect_other_served(case);
    }

    /// That the pod that stays passes CHECK and is reached on its host ports.
    #[track_caller]
    pub fn expect_other_served(&self, case: &str) {
        for config in &self.other_configs {
            let config = with(config, "prevResult", &self.other_result);
            let check = self
                .node
                .call(kind(&config), "CHECK", &self.other, &config, &[]);
            assert_eq!(check.status, 0, "{case}: the other pod: {check:?}");
        }
        let at = |port| SocketAddr::new(self.family().node(), port);
        let tcp = self.outside.ask_tcp(at(8080));
        let udp = self.outside.ask_udp(at(8053));
        for seen in [tcp, udp] {
            let seen = seen.unwrap_or_else(|error| panic!("{case}: the other pod: {error}"));
            assert_eq!(seen.local.ip(), address(&self.other_result), "{case}");
        }
    }

    /// That the pod's namespace holds nothing but its loopback.
    #[track_caller]
    pub fn expect_bare(&self, case: &str, pod: &Pod) {
        let links = pod.namespace.netlink().unwrap().links().unwrap();
        let names: Vec<_> = links.iter().map(|link| link.name.as_str()).collect();
        assert_eq!(names, ["lo"], "{case}: in the pod");
    }
}

/// The first address of a result.
///
/// # Panics
/// There is none.
pub fn address(result: &Value) -> IpAddr {
    let address = result["ips"][0]["address"].as_str().unwrap();
    let (address, _) = address.split_once('/').unwrap();
    address.parse().unwrap()
}

/// What a runtime is asked for: a tcp and a udp port from `base` on, and both rates.
fn asked(base: u16) -> Value {
    json!({
        "portMappings": [
            { "hostPort": base + 80, "containerPort": 80, "protocol": "tcp" },
            { "hostPort": base + 53, "containerPort": 53, "protocol": "udp" }
        ],
        "bandwidth": {
            "ingressRate": 100_000_000, "ingressBurst": 8_000_000,
            "egressRate": 100_000_000, "egressBurst": 8_000_000
        }
    })
}

/// Those that are failures.
pub fn failures(answers: &[Answer]) -> Vec<&Answer> {
    answers.iter().filter(|answer| answer.status != 0).collect()
}
