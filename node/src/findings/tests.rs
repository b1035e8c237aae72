//! A node in good order, which tests put out of it; and what holds for all kinds.

use std::path::{Path, PathBuf};

use cni::Attachment;
use cni::runtime::{CachedAttachment, NetworkList};
use firewall::Backend;
use firewall::hostport::{Mapping, Protocol};
use firewall::view::Forwarding;
use net::rule::{Action, Rule};
use net::{Address, Link, PortFlags, PortState};

use super::KINDS;
use crate::case::Case;
use crate::doctor::{self, Report};
use crate::finding::Finding;
use crate::fixture::{ip, net, route, site};
use crate::network::{Configuration, Network, Program, Reservation};
use crate::node::{Attached, Netns, Node};
use crate::site::Site;
use crate::way::BY_KERNEL;

/// The node's end of the pod's pair.
pub const VETH: &str = "veth0123456789a";

const CONFLIST: &str = r#"{"cniVersion": "1.0.0", "name": "k8nd", "plugins": [
    {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "ipam": {"type": "host-local",
        "ranges": [[{"subnet": "10.1.1.0/24"}], [{"subnet": "fd00:0:0:1::/64"}]]}},
    {"type": "portmap"}, {"type": "bandwidth"}]}"#;

/// The node b of the cluster, with one pod.
#[derive(Clone)]
pub struct Fixture {
    pub node: Node,
    pub site: Option<Site>,
}

/// The names of the kinds.
pub fn ids(found: &[Finding]) -> Vec<&'static str> {
    found.iter().map(|finding| finding.id).collect()
}

/// The rules of the routing policy that every node has.
fn standard_rules() -> Vec<Rule> {
    let families = ["0.0.0.0/0", "::/0"].into_iter();
    let rules = families.flat_map(|everybody| {
        [(0, 255), (32766, 254)].map(|(priority, table)| Rule {
            priority,
            source: net(everybody),
            destination: net(everybody),
            conditional: false,
            action: Action::Table(table),
        })
    });
    rules.collect()
}

/// A host port by iptables.
pub fn forwarding(host_port: u16, target: &str, host_ip: Option<&str>) -> Forwarding {
    Forwarding {
        mapping: Mapping {
            host_port,
            container_port: 80,
            protocol: Protocol::Tcp,
            host_ip: host_ip.map(ip),
        },
        target: ip(target),
        comment: format!("dnat to {target}"),
        backend: Backend::Iptables,
        conditional: false,
        masquerades: Vec::new(),
    }
}

impl Fixture {
    /// With a pod, k8nd/pod/eth0, that has an address of each family.
    pub fn healthy() -> Fixture {
        let mut fixture = Fixture::fresh();
        fixture.add_link(3, "cni0");
        fixture.link("cni0").kind = "bridge".to_owned();
        for gateway in ["10.1.1.1/24", "fd00:0:0:1::1/64"] {
            fixture.add_address(3, gateway);
            let mut connected = route(&net(gateway).trunc().to_string(), None, 3);
            connected.protocol = BY_KERNEL;
            fixture.node.routes.push(connected);
        }
        fixture.attach("pod", "10.1.1.2");
        fixture.reserve("fd00:0:0:1::2", "pod", "eth0");
        fixture.add_link(5, "bwp0000000000ff");
        let ifb = fixture.link("bwp0000000000ff");
        (ifb.kind, ifb.alias) = ("ifb".to_owned(), "k8nd/pod/eth0".to_owned());
        fixture.node.redirects.push((4, 5));
        fixture.set("net/ipv4/ip_forward", "1");
        fixture.set("net/ipv4/conf/eth0/forwarding", "1");
        fixture.set("net/ipv4/conf/cni0/forwarding", "1");
        fixture
    }

    /// Before the first pod, so without a bridge.
    pub fn fresh() -> Fixture {
        let mut fixture = Fixture {
            node: Node {
                conf: "/etc/cni/net.d".into(),
                plugins: vec!["/opt/cni/bin".into()],
                cache: cni::runtime::DEFAULT_CACHE.into(),
                attachments: Some(Vec::new()),
                policy: standard_rules(),
                ..Node::default()
            },
            site: Some(site("b")),
        };
        fixture.add_link(1, "lo");
        fixture.add_link(2, "eth0");
        for (address, router) in [
            ("192.0.2.11/24", "192.0.2.1"),
            ("2001:db8::11/64", "2001:db8::1"),
        ] {
            fixture.add_address(2, address);
            let mut connected = route(&net(address).trunc().to_string(), None, 2);
            connected.protocol = BY_KERNEL;
            let everything = if address.contains(':') {
                "::/0"
            } else {
                "0.0.0.0/0"
            };
            let default = route(everything, Some(router), 2);
            fixture.node.routes.extend([connected, default]);
        }
        for planned in site("b").planned {
            let via = planned.via.to_string();
            fixture
                .node
                .routes
                .push(route(&planned.range.to_string(), Some(&via), 2));
        }
        for path in ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"] {
            fixture.set(path, "1");
        }
        let list = NetworkList::parse(CONFLIST.into()).unwrap();
        fixture.add_configuration("/etc/cni/net.d/10-k8nd.conflist", Ok(list));
        fixture
    }

    pub fn look(&self) -> Vec<Finding> {
        self.report().findings
    }

    pub fn report(&self) -> Report {
        doctor::look(&Case {
            node: &self.node,
            site: self.site.as_ref(),
        })
    }

    pub fn without_plan(&self) -> Fixture {
        Fixture {
            site: None,
            ..self.clone()
        }
    }

    /// The place of the first route to a destination.
    pub fn position(&self, dst: &str) -> usize {
        let mut routes = self.node.routes.iter();
        routes
            .position(|entry| entry.route.dst == net(dst))
            .unwrap()
    }

    pub fn link(&mut self, name: &str) -> &mut Link {
        let mut links = self.node.links.iter_mut();
        links.find(|link| link.name == name).unwrap()
    }

    pub fn add_link(&mut self, index: u32, name: &str) {
        self.node.links.push(Link {
            index,
            name: name.to_owned(),
            mtu: if name == "lo" { 65536 } else { 1500 },
            up: true,
            oper_up: true,
            ..Link::default()
        });
    }

    pub fn add_address(&mut self, index: u32, address: &str) {
        let address = Address {
            net: net(address),
            tentative: false,
            dad_failed: false,
            global: !address.starts_with("fe80"),
        };
        self.node.addresses.push((index, address));
    }

    pub fn set(&mut self, path: &str, value: &str) {
        self.node.sysctls.insert(path.to_owned(), value.to_owned());
    }

    pub fn add_configuration(&mut self, file: &str, list: Result<NetworkList, cni::Error>) {
        let file = PathBuf::from(file);
        if let Ok(list) = &list {
            let mut network = Network::new(&file, list);
            network.reservations = Some(Vec::new());
            for kind in &network.kinds {
                let program = Program {
                    file: Some(Path::new("/opt/cni/bin").join(kind)),
                    versions: Ok(["0.4.0", "1.0.0", "1.1.0"].map(str::to_owned).into()),
                };
                self.node.programs.insert(kind.clone(), program);
            }
            self.node.networks.push(network);
        }
        self.node.configurations.push(Configuration { file, list });
    }

    pub fn reserve(&mut self, address: &str, container_id: &str, ifname: &str) {
        let network = &mut self.node.networks[0];
        let file = network.store.as_ref().unwrap().join(address);
        network.reservations.as_mut().unwrap().push(Reservation {
            address: ip(address),
            container_id: container_id.to_owned(),
            ifname: Some(ifname.to_owned()),
            file,
        });
    }

    /// A pod with its link, its address of IPv4 (and another one of IPv6 for its name), and what the
    /// cache knows.
    pub fn attach(&mut self, id: &str, address: &str) {
        let attachment = Attachment::new("k8nd", id, "eth0");
        let index = 4 + 10 * u32::try_from(self.node.links.len() - 3).unwrap();
        let name = if id == "pod" {
            VETH.to_owned()
        } else {
            format!("veth{id}")
        };
        self.add_link(index, &name);
        let link = self.link(&name);
        link.kind = "veth".to_owned();
        link.alias = attachment.to_string();
        link.master = Some(3);
        link.port = Some(PortFlags::default());
        link.port_state = Some(PortState::Forwarding);
        self.reserve(address, id, "eth0");
        let address = |text: &str| Address {
            net: net(text),
            tentative: false,
            dad_failed: false,
            global: !text.starts_with("fe80"),
        };
        let addresses = ["10.1.1.2/24", "fd00:0:0:1::2/64", "fe80::2/64"].map(address);
        self.node.attachments.as_mut().unwrap().push(Attached {
            known: CachedAttachment {
                attachment,
                netns: Some(format!("/run/netns/{id}").into()),
                config: CONFLIST.into(),
                args: Vec::new(),
                noted: None,
            },
            netns: Netns::Open {
                link: Some(Link::default()),
                addresses: addresses.into(),
            },
        });
    }
}

#[test]
fn a_node_in_good_order() {
    for fixture in [Fixture::healthy(), Fixture::fresh()] {
        assert_eq!(fixture.look(), []);
        assert!(fixture.report().is_healthy() && fixture.report().left_out.is_empty());
        let without = fixture.without_plan().report();
        assert!(without.is_healthy());
        assert!(without.left_out.contains(&"range-unrouted"), "{without:?}");
    }
}

#[test]
fn what_could_not_be_read_is_not_healthy() {
    let mut fixture = Fixture::healthy();
    fixture.node.unread.push(crate::node::Unread {
        what: "rules".to_owned(),
        why: "EPERM".to_owned(),
    });
    let report = fixture.report();
    assert_eq!(report.unread[0].to_string(), "rules: EPERM");
    assert!(report.findings.is_empty() && !report.is_healthy());
}

#[test]
fn an_empty_node_brings_nobody_down() {
    let report = doctor::look(&Case {
        node: &Node::default(),
        site: None,
    });
    assert_eq!(ids(&report.findings), ["conflist-missing"]);
}

#[test]
fn the_page_of_all_kinds_is_true() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/doctor.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let told: Vec<String> = rows.map(|row| format!("| `{row}")).collect();
    let expected = KINDS.iter().map(|kind| {
        let plan = if kind.needs_plan { "yes" } else { "" };
        format!(
            "| `{}` | {} | {} | {plan} |",
            kind.id, kind.means, kind.mend
        )
    });
    assert_eq!(told, expected.collect::<Vec<_>>());
}
