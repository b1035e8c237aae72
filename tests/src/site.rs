//! A node between its pods and the outside, for what passes between them.

use std::net::{IpAddr, SocketAddr};

use cni::AddResult;
use cni::runtime::NetworkList;
use lab::{Namespace, Result, Server, Sighting};
use serde_json::{Value, json};

use crate::{Family, Node, Pod};

/// A node with an uplink to an outside host.
#[derive(Debug)]
pub struct Site {
    /// The node, 192.0.2.10 and 2001:db8::10.
    pub node: Node,
    /// The host outside, 192.0.2.1 and 2001:db8::1.
    pub outside: Namespace,
    /// The chain; its pods have addresses of 10.244.0.0/24 and fd00:10:244::/64.
    pub list: NetworkList,
    /// The families that all of them have addresses of.
    pub families: &'static [Family],
}

/// A pod that serves tcp and udp on its port 80 on each of its addresses.
#[derive(Debug)]
pub struct Serving {
    /// The pod.
    pub pod: Pod,
    /// What ADD returned.
    pub result: AddResult,
    _servers: Vec<Server>,
}

/// What a host port speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl Protocol {
    /// Asks a server as [`Namespace::ask_tcp`] or [`Namespace::ask_udp`] does.
    ///
    /// # Errors
    /// No answer.
    pub fn ask(self, from: &Namespace, target: SocketAddr) -> Result<Sighting> {
        match self {
            Protocol::Tcp => from.ask_tcp(target),
            Protocol::Udp => from.ask_udp(target),
        }
    }

    /// A server as [`Namespace::serve_tcp`] or [`Namespace::serve_udp`] makes it.
    ///
    /// # Errors
    /// The address cannot be had.
    pub fn serve(self, namespace: &Namespace, at: SocketAddr) -> Result<Server> {
        match self {
            Protocol::Tcp => namespace.serve_tcp(at),
            Protocol::Udp => namespace.serve_udp(at),
        }
    }
}

/// An entry of `portMappings`.
pub fn port(host: u16, pod: u16, protocol: &str) -> Value {
    json!({ "hostPort": host, "containerPort": pod, "protocol": protocol })
}

/// An entry of `portMappings` for one address of the node.
pub fn port_at(address: &str, host: u16, pod: u16, protocol: &str) -> Value {
    let mut port = port(host, pod, protocol);
    port["hostIP"] = json!(address);
    port
}

/// An address, or one with its port: whatever a test writes down.
///
/// # Panics
/// It is none.
#[track_caller]
pub fn at<T: std::str::FromStr>(text: &str) -> T {
    text.parse()
        .unwrap_or_else(|_| panic!("no address: {text}"))
}

impl Site {
    /// A node with the dual-stack conflist of `conf/` and `changes` (see
    /// [`Node::conflist_with`]); `None`, said aloud and counted, where this machine cannot.
    pub fn new(label: &str, changes: &[(&str, Value)]) -> Option<Site> {
        Site::of(label, "20-dual-stack.conflist", changes, &Family::ALL)
    }

    fn of(
        label: &str,
        conflist: &str,
        changes: &[(&str, Value)],
        families: &'static [Family],
    ) -> Option<Site> {
        let node = Node::new(label)?;
        Some(Site {
            outside: node.outside_of(families),
            list: node.conflist_with(conflist, changes),
            node,
            families,
        })
    }

    /// As [`Site::new`], one site after the other: for each backend that rules can be made by, with
    /// both families and without IPv4.
    pub fn by_each_backend<'a>(
        label: &'a str,
        changes: &'a [(&str, Value)],
    ) -> impl Iterator<Item = Site> + 'a {
        let make = move |backend: &str, families: &'static [Family]| {
            let of_backend = [
                ("bridge", json!({ "ipMasqBackend": backend })),
                ("portmap", json!({ "backend": backend })),
            ];
            let changes = [&of_backend, changes].concat();
            let label = format!("{label}-{backend}-{}", families.len());
            match families {
                [one] => Site::of(&label, one.conflist(), &changes, families),
                _ => Site::new(&label, &changes),
            }
        };
        let ways: [(_, &[Family]); 4] = [
            ("iptables", &Family::ALL),
            ("nftables", &Family::ALL),
            ("iptables", &[Family::V6]),
            ("nftables", &[Family::V6]),
        ];
        ways.into_iter()
            .filter_map(move |(backend, families)| make(backend, families))
    }

    /// Whether an address, or one with its port, is of one of its families.
    pub fn speaks(&self, target: &str) -> bool {
        let with_port = target.parse().map(|target: SocketAddr| target.ip());
        let address = with_port.unwrap_or_else(|_| at(target));
        self.families.contains(&Family::of(address))
    }

    /// A pod with these host ports. The first one's addresses end in 2.
    #[track_caller]
    pub fn pod(&self, name: &str, ports: &[Value]) -> Serving {
        let pod = self.node.pod(name);
        let asked = json!({ "portMappings": ports });
        let result = self.node.add(&self.list, &pod, asked).unwrap();
        let mut servers = Vec::new();
        for ip in &result.ips {
            let at = SocketAddr::new(ip.address.addr(), 80);
            for protocol in [Protocol::Tcp, Protocol::Udp] {
                servers.push(protocol.serve(&pod.namespace, at).unwrap());
            }
        }
        Serving {
            pod,
            result,
            _servers: servers,
        }
    }

    /// DEL of a pod.
    #[track_caller]
    pub fn del(&self, serving: &Serving) {
        self.node.del(&self.list, &serving.pod).unwrap();
    }

    /// The host outside sends what is for the pods to the node, as a router of a cluster does.
    pub fn route_to_pods(&self) {
        for family in self.families {
            let pods = at(&family.expand("$NET"));
            self.outside.add_route(pods, family.node(), "eth0").unwrap();
        }
    }
}

impl Serving {
    /// The pod's namespace.
    pub fn namespace(&self) -> &Namespace {
        &self.pod.namespace
    }

    /// The pod's address of one family.
    ///
    /// # Panics
    /// It has none.
    pub fn address(&self, ipv6: bool) -> IpAddr {
        let mut addresses = self.result.ips.iter().map(|ip| ip.address.addr());
        addresses.find(|ip| ip.is_ipv6() == ipv6).unwrap()
    }

    /// Whether it was this pod's port 80 that answered.
    pub fn answered(&self, sighting: &Sighting) -> bool {
        let address = self.address(sighting.local.is_ipv6());
        sighting.local == SocketAddr::new(address, 80)
    }
}
