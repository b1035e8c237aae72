//! The node that storms pass over.

use std::path::PathBuf;
use std::sync::Arc;

use cni::runtime::{Runtime, RuntimeConf};
use lab::Namespace;
use tests::{Node, State};

use crate::hand::{Hand, Times};
use crate::lesson::learn;
use crate::network::{Network, Wish};
use crate::sight::Shape;
use crate::tenant::{Pod, Tenant};
use crate::{Error, Fault, Options};

/// The first version of the specification that has GC, and the one before.
const GC_SINCE: &str = "1.1.0";
const BEFORE_GC: &str = "1.0.0";

/// A node with its networks, each of which has served pods that are gone.
#[derive(Debug)]
pub struct Ground {
    /// The node.
    pub node: Node,
    /// A host beyond its uplink.
    pub outside: Namespace,
    /// Its networks.
    pub networks: Vec<Network>,
    /// Whether the plugins are ours. CHECK of others may not pass where nothing is wrong.
    pub is_ours: bool,
    /// Whether the plugins know GC.
    pub knows_gc: bool,
    /// How long calls take.
    pub times: Arc<Times>,
    shapes: Vec<Vec<Shape>>,
    before: State,
}

impl Ground {
    /// A node; `None`, said aloud and counted, where this machine cannot make one.
    ///
    /// # Errors
    /// The plugins are not there, or fail although nothing is wrong.
    pub fn new(options: &Options) -> Result<Option<Ground>, Error> {
        let Some(mut node) = Node::new("storm") else {
            return Ok(None);
        };
        if let Some(folder) = &options.against {
            node.use_plugins(folder)?;
        }
        let versions = node.runtime().versions("bridge")?;
        let knows_gc = versions.iter().any(|version| version == GC_SINCE);
        let version = if knows_gc { GC_SINCE } else { BEFORE_GC };
        let is_ours = options.against.is_none();
        let mut ground = Ground {
            outside: node.outside(),
            networks: Network::all(&node, version, is_ours),
            before: State::of(&node, &[], &[])?,
            node,
            is_ours,
            knows_gc,
            times: Arc::default(),
            shapes: Vec::new(),
        };
        if ground.networks.is_empty() {
            return Ok(None);
        }
        ground.shapes = learn(&ground)?;
        ground.before = ground.state(&[])?;
        Ok(Some(ground))
    }

    /// A network by its number.
    pub fn network(&self, number: usize) -> &Network {
        &self.networks[number]
    }

    /// How much an attachment makes where nothing goes wrong.
    pub fn shape(&self, tenant: &Tenant) -> Shape {
        let wish = Wish::ALL.iter().position(|wish| *wish == tenant.wish);
        let of_network = self.shapes.get(tenant.network);
        let shape = of_network.and_then(|all| all.get(wish?));
        shape.copied().unwrap_or_default()
    }

    /// A hand for a network's plugins.
    pub fn hand(
        &self,
        network: &Network,
        fault: Option<Fault>,
        pod: Option<Namespace>,
    ) -> Arc<Hand> {
        let name = &network.list.name;
        Arc::new(Hand::new(name, &network.path, &self.times, fault, pod))
    }

    /// The runtime, whose plugins that hand runs.
    pub fn runtime(&self, hand: &Arc<Hand>) -> Runtime {
        Runtime {
            exec: hand.clone(),
            ..self.node.runtime()
        }
    }

    /// What a runtime asks for an attachment. Of CHECK and DEL it remembers what it has asked for.
    pub fn conf(&self, pod: &Pod, tenant: &Tenant, asks: bool) -> RuntimeConf {
        let (tcp, udp) = tenant.ports;
        let asked = asks.then(|| tenant.wish.capabilities(tcp, udp));
        RuntimeConf {
            container_id: pod.id.clone(),
            netns: Some(pod.path.clone()),
            ifname: tenant.ifname.to_owned(),
            capability_args: asked.unwrap_or_default(),
            ..RuntimeConf::default()
        }
    }

    /// Where the runtime keeps an attachment's result.
    pub fn cached(&self, pod: &Pod, tenant: &Tenant) -> PathBuf {
        let network = &self.network(tenant.network).list.name;
        let name = format!("{network}-{}-{}", pod.id, tenant.ifname);
        self.results().join(name)
    }

    /// Where the runtime keeps results.
    pub fn results(&self) -> PathBuf {
        self.node.cache.join("results")
    }

    /// What it holds that it did not hold before any storm, or the reverse, and what is in these pods, which
    /// should hold nothing; `None` where there is nothing.
    ///
    /// # Errors
    /// Something cannot be read.
    pub fn left(&self, pods: &[&Namespace]) -> Result<Option<String>, Error> {
        Ok(self.state(pods)?.differs_from(&self.before))
    }

    fn state(&self, pods: &[&Namespace]) -> Result<State, Error> {
        let names = self
            .networks
            .iter()
            .map(|network| network.list.name.as_str());
        State::of(&self.node, &names.collect::<Vec<_>>(), pods)
    }
}
