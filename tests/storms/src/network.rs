//! The networks that pods come to.

use std::ffi::OsString;

use cni::runtime::NetworkList;
use serde_json::{Map, Value, json};
use tests::{Backend, Family, Node};

/// How many addresses the first network has: fewer than it has attachments as a rule.
const FEW: usize = 20;

/// A network of the node.
#[derive(Debug)]
pub struct Network {
    /// Its chain.
    pub list: NetworkList,
    /// What makes its rules.
    pub backend: Backend,
    /// The `PATH` of its plugins.
    pub path: OsString,
    /// Which addresses its pods have.
    pub families: &'static [Family],
    /// How many pods can have addresses.
    pub room: usize,
}

/// What a runtime is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Ports of the node and limits.
    Both,
    /// Ports alone.
    Ports,
    /// Nothing.
    Nothing,
}

impl Wish {
    /// All of them.
    pub const ALL: [Wish; 3] = [Wish::Both, Wish::Ports, Wish::Nothing];

    /// That of an attachment. All of them come to every network.
    pub fn of(attachment: usize) -> Wish {
        match (attachment / 7) % 3 {
            0 => Wish::Both,
            1 => Wish::Ports,
            _ => Wish::Nothing,
        }
    }

    /// As a runtime is told of it, with host ports for TCP and UDP.
    pub fn capabilities(self, tcp: u16, udp: u16) -> Map<String, Value> {
        let mut all = Map::new();
        if self != Wish::Nothing {
            let ports = json!([
                { "hostPort": tcp, "containerPort": 80, "protocol": "tcp" },
                { "hostPort": udp, "containerPort": 53, "protocol": "udp" }
            ]);
            all.insert("portMappings".to_owned(), ports);
        }
        if self == Wish::Both {
            let rates = json!({
                "ingressRate": 100_000_000, "ingressBurst": 8_000_000,
                "egressRate": 100_000_000, "egressBurst": 8_000_000
            });
            all.insert("bandwidth".to_owned(), rates);
        }
        all
    }
}

impl Network {
    /// Those of a node: each backend with and without IPv6, as far as the machine has them, and one for
    /// second interfaces. Others may not know nftables.
    pub fn all(node: &Node, version: &str, is_ours: bool) -> Vec<Network> {
        let backends = Backend::ALL.into_iter();
        let backends = backends.filter(|backend| is_ours || *backend != Backend::Nftables);
        let with_path: Vec<_> = backends
            .filter_map(|backend| Some((backend, backend.path(node)?)))
            .collect();
        let kinds: [&[Family]; 2] = [&[Family::V4], &Family::ALL];
        let mut all = Vec::new();
        for families in kinds {
            for (backend, path) in &with_path {
                let stack = if families.len() > 1 { "dual" } else { "single" };
                let name = format!("{backend}-{stack}");
                let number = all.len();
                all.push(Network {
                    list: node.list(conflist(&name, number, *backend, families, version)),
                    backend: *backend,
                    path: path.clone(),
                    families,
                    room: if number == 0 { FEW } else { 200 },
                });
            }
        }
        if let Some((backend, path)) = with_path.first() {
            let (name, number) = ("second", all.len());
            all.push(Network {
                list: node.list(conflist(name, number, *backend, &Family::ALL, version)),
                backend: *backend,
                path: path.clone(),
                families: &Family::ALL,
                room: 200,
            });
        }
        all
    }

    /// The name of its bridge.
    pub fn bridge(&self) -> &str {
        let bridge = self.list.plugins.first();
        let name = bridge.and_then(|bridge| bridge.get("bridge")?.as_str());
        name.unwrap_or_default()
    }

    /// The programs that list its rules.
    pub fn listers(&self) -> Vec<String> {
        match self.backend {
            Backend::Nftables => vec!["nft".to_owned()],
            Backend::Nft | Backend::Legacy => ["iptables", "ip6tables"]
                .map(|program| format!("{program}-{}-save", self.backend.variant()))
                .into(),
        }
    }
}

/// Each has a bridge and subnets of its own. A second interface gets no default route beside that of the
/// first.
fn conflist(
    name: &str,
    number: usize,
    backend: Backend,
    families: &[Family],
    version: &str,
) -> Value {
    let mut routes = Vec::new();
    let mut ranges = Vec::new();
    for family in families {
        let subnet = family.pick(
            format!("10.244.{number}.0/24"),
            format!("fd00:10:244:{number}::/64"),
        );
        let mut range = json!({ "subnet": subnet });
        if number == 0 {
            range["rangeStart"] = json!("10.244.0.10");
            range["rangeEnd"] = json!(format!("10.244.0.{}", 9 + FEW));
        }
        ranges.push(json!([range]));
        if name != "second" {
            routes.push(json!({ "dst": family.pick("0.0.0.0/0", "::/0") }));
        }
    }
    json!({
        "cniVersion": version,
        "name": name,
        "plugins": [
            {
                "type": "bridge", "bridge": format!("cni{number}"), "isGateway": true,
                "ipMasq": true, "ipMasqBackend": backend.key(), "hairpinMode": true,
                "ipam": { "type": "host-local", "ranges": ranges, "routes": routes }
            },
            { "type": "portmap", "backend": backend.key(), "capabilities": { "portMappings": true } },
            { "type": "bandwidth", "capabilities": { "bandwidth": true } }
        ]
    })
}
