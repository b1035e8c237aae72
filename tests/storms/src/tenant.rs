//! Pods and their attachments, as a runtime and the model know them.

use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use std::path::PathBuf;

use cni::AddResult;
use lab::Namespace;

use crate::Layout;
use crate::model::Known;
use crate::network::Wish;

/// How many steps of an attachment are told.
const REMEMBERED: usize = 24;
/// The first host ports.
const TCP: u16 = 20_000;
const UDP: u16 = 40_000;

/// A pod.
#[derive(Debug)]
pub struct Pod {
    /// Its container id, and the end of its namespace's name.
    pub id: String,
    /// `None` where it has vanished, or was never made.
    pub namespace: Option<Namespace>,
    /// Where it was.
    pub path: PathBuf,
    /// Its attachments.
    pub tenants: Vec<Tenant>,
}

/// An attachment.
#[derive(Debug)]
pub struct Tenant {
    /// Its number.
    pub number: usize,
    /// That of its network.
    pub network: usize,
    /// The name of the interface.
    pub ifname: &'static str,
    /// What is asked for.
    pub wish: Wish,
    /// Its host ports, of TCP and UDP.
    pub ports: (u16, u16),
    /// What is known of it.
    pub known: Known,
    /// Whether the runtime has its result.
    pub told: bool,
    /// A DEL or GC has been killed, which may have removed its rules and not its flows.
    pub wounded: bool,
    /// The same, and what came after did not know its ports.
    pub flows_may_stay: bool,
    /// Its addresses, where it has some for certain.
    pub addresses: Vec<IpAddr>,
    /// Names of its links and chains, as far as they have been seen.
    pub names: BTreeSet<String>,
    history: VecDeque<String>,
}

impl Pod {
    /// The pod of the attachment of that number, which is its first.
    pub fn new(number: usize, layout: Layout) -> Pod {
        let tenants = layout.of_pod(number);
        Pod {
            id: format!("storm{number:03}"),
            namespace: None,
            path: PathBuf::new(),
            tenants: tenants
                .map(|tenant| {
                    Tenant::new(
                        tenant,
                        layout.network(tenant),
                        Wish::of(tenant),
                        tenant != number,
                    )
                })
                .collect(),
        }
    }

    /// Its namespace is gone.
    pub fn lose_namespace(&mut self) {
        self.namespace = None;
        for tenant in &mut self.tenants {
            if tenant.known == Known::Attached {
                tenant.known = Known::Bereft;
            }
        }
    }
}

impl Tenant {
    /// One that has never been attached.
    pub fn new(number: usize, network: usize, wish: Wish, is_second: bool) -> Tenant {
        let port = |first: u16| first.saturating_add(u16::try_from(number).unwrap_or(u16::MAX));
        Tenant {
            number,
            network,
            ifname: if is_second { "net1" } else { "eth0" },
            wish,
            ports: (port(TCP), port(UDP)),
            known: Known::Absent,
            told: false,
            wounded: false,
            flows_may_stay: false,
            addresses: Vec::new(),
            names: BTreeSet::new(),
            history: VecDeque::new(),
        }
    }

    /// A DEL, GC or ADD has ended well. Who did not know its ports could not find flows without rules.
    pub fn heal(&mut self, was_blind: bool) {
        self.flows_may_stay |= self.wounded && was_blind;
        self.wounded = false;
    }

    /// Keeps the names of the links that an ADD has made on the node beside the bridge: those of others carry
    /// no mark by which they are known.
    pub fn note_links(&mut self, result: &AddResult, bridge: &str) {
        let on_node = result
            .interfaces
            .iter()
            .filter(|link| link.sandbox.is_empty());
        let own = on_node.filter(|link| link.name != bridge);
        self.names.extend(own.map(|link| link.name.clone()));
    }

    /// Remembers what has happened to it.
    pub fn remember(&mut self, what: String) {
        self.history.push_back(what);
        if self.history.len() > REMEMBERED {
            self.history.pop_front();
        }
    }

    /// What has happened to it, a line for each step.
    pub fn history(&self) -> String {
        let lines: Vec<_> = self
            .history
            .iter()
            .map(|line| format!("  {line}\n"))
            .collect();
        lines.concat()
    }
}
