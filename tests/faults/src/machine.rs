//! The nodes that faults are made on.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use lab::Namespace;
use lab::trace::{Entry, Next, Traced, trace};
use serde_json::{Value, json};
use tests::{Answer, Backend, Family, Node, State, VALID, World, entry, kind, with};

use crate::Error;

/// The pod that faults happen to.
pub const POD: &str = "pod";
/// The pod's host port of UDP, as [`World::configs`] asks for it.
const UDP_PORT: u16 = 9053;

/// The first version of the specification that has GC.
const GC_SINCE: &str = "1.1.0";

/// A kind of node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// What makes the rules.
    pub backend: Backend,
    /// Whether pods have an IPv6 address beside that of IPv4.
    pub dual_stack: bool,
}

/// A node that has served a pod which is gone, and serves another.
#[derive(Debug)]
pub struct Machine {
    /// The node.
    pub world: World,
    /// Whether its plugins know GC.
    pub knows_gc: bool,
    /// Whether their CHECK passes where nothing is wrong. That of the reference plugins does not where a
    /// pod has addresses of both families.
    pub knows_check: bool,
    /// What it held at first.
    pub(crate) before: State,
    families: &'static [Family],
}

impl Setting {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Setting> {
        let of = |dual_stack| {
            Backend::ALL.map(|backend| Setting {
                backend,
                dual_stack,
            })
        };
        of(true).into_iter().chain(of(false))
    }
}

impl Machine {
    /// A node with our plugins, or those of a folder; `None`, said aloud and counted, where this machine
    /// cannot make one.
    ///
    /// # Errors
    /// The plugins are not there.
    pub fn new(setting: Setting, plugins: Option<&Path>) -> Result<Option<Machine>, Error> {
        let Some(mut node) = Node::new("faults") else {
            return Ok(None);
        };
        if let Some(folder) = plugins {
            node.use_plugins(folder)?;
        }
        let Some(path) = setting.backend.path(&node) else {
            return Ok(None);
        };
        node.path = path;
        let (file, families): (_, &[Family]) = match setting.dual_stack {
            true => ("20-dual-stack.conflist", &Family::ALL),
            false => ("10-k8nd.conflist", &[Family::V4]),
        };
        let list = match setting.backend {
            Backend::Nftables => node.conflist_with(file, &setting.backend.changes()),
            Backend::Nft | Backend::Legacy => node.conflist(file),
        };
        let world = World::of_list(node, list);
        let mut machine = Machine {
            before: state_of(&world, None)?,
            world,
            knows_gc: false,
            knows_check: plugins.is_none(),
            families,
        };
        let gc = machine.gc_config(&with(&machine.configs()[0], "prevResult", &Value::Null));
        machine.knows_gc = machine.call("GC", &gc, None)?.status == 0;
        Ok(Some(machine))
    }

    /// The configurations of the chain for the pod.
    pub fn configs(&self) -> Vec<Value> {
        self.world.configs()
    }

    /// A configuration for GC, in which only the pod that stays is valid.
    pub fn gc_config(&self, config: &Value) -> Value {
        let other = &self.world.other;
        let config = with(config, "cniVersion", &json!(GC_SINCE));
        with(&config, VALID, &json!([entry(&other.id, &other.ifname)]))
    }

    /// One call, as a runtime makes it. `netns` is that of the pod; GC has none.
    ///
    /// # Errors
    /// It cannot be started, or does not end.
    pub fn call(&self, verb: &str, config: &Value, netns: Option<&Path>) -> Result<Answer, Error> {
        let mut command = self.command(verb, config, netns);
        let node = &self.world.node.namespace;
        let input = config.to_string();
        Ok(node.output(&mut command, input.as_bytes())?.into())
    }

    /// The same, asking at each system call.
    ///
    /// # Errors
    /// It cannot be traced, or does not end.
    pub fn trace(
        &self,
        verb: &str,
        config: &Value,
        netns: Option<&Path>,
        at_entry: impl FnMut(&Entry) -> Next,
    ) -> Result<Traced, lab::Error> {
        let mut command = self.command(verb, config, netns);
        let node = &self.world.node.namespace;
        let input = config.to_string();
        node.run(|| trace(&mut command, input.as_bytes(), at_entry))?
    }

    fn command(&self, verb: &str, config: &Value, netns: Option<&Path>) -> Command {
        let node = &self.world.node;
        let mut command = Command::new(node.bin.join(kind(config)));
        command
            .env_clear()
            .env("PATH", &node.path)
            .env("CNI_COMMAND", verb)
            .env("CNI_PATH", &node.bin);
        if let Some(netns) = netns {
            command
                .env("CNI_CONTAINERID", POD)
                .env("CNI_NETNS", netns)
                .env("CNI_IFNAME", "eth0");
        }
        command
    }

    /// What it holds now, with what is in a pod that should hold nothing.
    ///
    /// # Errors
    /// Something cannot be read.
    pub fn state(&self, pod: Option<&Namespace>) -> Result<State, Error> {
        state_of(&self.world, pod)
    }

    /// Sends a datagram to the pod's host port from outside, so that there are flows where there are
    /// rules.
    pub fn make_flows(&self) {
        for family in self.families {
            let target = SocketAddr::new(family.node(), UDP_PORT);
            let client = self.world.outside.udp_client(target);
            // Nobody answers.
            let _ = client.and_then(|client| client.ask_within(Duration::ZERO));
        }
    }
}

fn state_of(world: &World, pod: Option<&Namespace>) -> Result<State, Error> {
    let pods: Vec<_> = pod.into_iter().collect();
    State::of(&world.node, &[&world.list.name], &pods)
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stack = if self.dual_stack { "dual" } else { "single" };
        write!(f, "{}-{stack}", self.backend)
    }
}
