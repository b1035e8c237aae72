//! A node with one contender's plugins, and the pods on it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cni::runtime::{NetworkList, Runtime, RuntimeConf};
use cni::{AddResult, Error, Version};
use lab::{Lab, Namespace, Snapshot};
use serde_json::{Map, Value};

use crate::asked::{self, PODS_PER_NETWORK};
use crate::contender::PLUGINS;
use crate::rounds::Sample;
use crate::threads::at_once;
use crate::watch::Watch;
use crate::{Contender, Outcome, Rules, Side};

/// The first host port of those that pods of a crowd have.
const CROWD_PORTS: u32 = 10_000;

/// How many of a crowd come at once.
const CROWD_THREADS: usize = 4;

/// A namespace that is a node, with plugins, tools and a store of its own.
#[derive(Debug)]
pub struct Node {
    /// Whose plugins it has.
    pub side: Side,
    /// How its rules are made.
    pub rules: Rules,
    /// Its namespace.
    pub namespace: Namespace,
    /// Calls the plugins, and notes what each call takes.
    pub runtime: Runtime,
    /// The plugins' `PATH`.
    pub path: OsString,
    watch: Arc<Watch>,
    refused: Mutex<Option<String>>,
    // Dropped last.
    lab: Lab,
}

/// A namespace that becomes a pod, and its name.
#[derive(Debug)]
pub struct Pod {
    namespace: Namespace,
    id: String,
}

impl Node {
    /// A node without any pod.
    ///
    /// # Errors
    /// The lab's; iptables of that variant is missing.
    pub fn new(contender: &Contender, rules: Rules) -> Outcome<Node> {
        let lab = Lab::new("bench")?;
        let namespace = lab.namespace("node")?;
        let tools = lab.folder().join("tools");
        let path = match rules.variant() {
            Some(variant) => lab::iptables_path(&tools, variant)?,
            // With iptables there, the DEL of release 1.9 looks for rules by it as well, and takes
            // the answer of iptables 1.8.9 that there are none for a failure.
            None => lab::nftables_path(&tools)?,
        };
        let watch = Arc::new(Watch::new(path.clone()));
        let mut runtime = Runtime::new(Vec::new(), lab.folder().join("cache"));
        runtime.path = plugins(contender, lab.folder())?;
        runtime.exec = watch.clone();
        Ok(Node {
            side: contender.side,
            rules,
            namespace,
            runtime,
            path,
            watch,
            refused: Mutex::default(),
            lab,
        })
    }

    /// Whether rules can be made here at all: an ordinary user's namespaces have no legacy tables.
    ///
    /// # Errors
    /// The tool's.
    pub fn usable(&self) -> Outcome<()> {
        if self.rules.variant().is_some() {
            let path = format!("PATH={}", self.path.display());
            let list = ["iptables", "-w", "-t", "nat", "-S"];
            self.namespace
                .read("env", &[&[path.as_str()], &list[..]].concat())?;
        }
        Ok(())
    }

    /// A folder for what belongs to this node.
    pub fn folder(&self) -> &Path {
        self.lab.folder()
    }

    /// For `ipam.dataDir`.
    pub fn data(&self) -> PathBuf {
        self.lab.folder().join("networks")
    }

    /// Where the floor keeps its reservations.
    pub fn floor_store(&self) -> PathBuf {
        self.data().join("floor")
    }

    /// What the node holds, with the floor's reservations.
    ///
    /// # Errors
    /// Something cannot be read.
    pub fn snapshot(&self) -> Outcome<Snapshot> {
        Ok(Snapshot::of(&self.namespace, &self.floor_store())?)
    }

    /// The chain of the network with that number.
    ///
    /// # Errors
    /// None that a benchmark can do anything about.
    pub fn list(&self, number: u32, version: Version) -> Outcome<NetworkList> {
        let list = asked::chain(number, self.rules, &self.data(), version);
        Ok(NetworkList::parse(list.to_string().into_bytes())?)
    }

    /// A namespace beside the node.
    ///
    /// # Errors
    /// The lab's.
    pub fn namespace_of(&self, name: &str) -> Outcome<Namespace> {
        Ok(self.lab.namespace(name)?)
    }

    /// A pod to be.
    ///
    /// # Errors
    /// The lab's.
    pub fn pod(&self, id: &str) -> Outcome<Pod> {
        Ok(Pod {
            namespace: self.namespace_of(id)?,
            id: id.to_owned(),
        })
    }

    /// ADD, CHECK and DEL of a pod: what the chain and each of its plugins took. A CHECK that others
    /// refuse is no work that is done, and left out but for the plugins that passed: see
    /// [`Node::refused`].
    ///
    /// # Errors
    /// The first plugin's that fails.
    pub fn life(
        &self,
        list: &NetworkList,
        pod: &Pod,
        asked: &Map<String, Value>,
    ) -> Outcome<Vec<Sample>> {
        let conf = pod.conf(asked);
        let add = self.timed("ADD", || self.runtime.add(list, &conf).map(drop))?;
        let check = self.timed("CHECK", || self.runtime.check(list, &conf));
        let check = match check {
            Err(error) if self.side != Side::Ours => {
                let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
                refused.get_or_insert(error.to_string());
                let mut passed = self.calls("CHECK");
                passed.pop();
                passed
            }
            checked => checked?,
        };
        let del = self.timed("DEL", || self.runtime.del(list, &conf))?;
        Ok([add, check, del].concat())
    }

    /// What the plugins said to a CHECK that they should have passed.
    pub fn refused(&self) -> Option<String> {
        let refused = self.refused.lock();
        refused.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A pod's ADD, which nobody measures.
    ///
    /// # Errors
    /// A plugin's.
    pub fn add(
        &self,
        list: &NetworkList,
        pod: &Pod,
        asked: &Map<String, Value>,
    ) -> Outcome<AddResult> {
        let mut result = None;
        let conf = pod.conf(asked);
        self.time("ADD", || {
            result = Some(self.runtime.add(list, &conf)?);
            Ok(())
        })?;
        Ok(result.ok_or("an ADD without a result")?)
    }

    /// One call of a chain: what it took, and what each plugin of it did. No other may run at the
    /// same time.
    ///
    /// # Errors
    /// The call's.
    pub fn timed(
        &self,
        verb: &str,
        call: impl FnOnce() -> Result<(), Error>,
    ) -> Outcome<Vec<Sample>> {
        drop(self.watch.take());
        let took = self.time(verb, call)?;
        let whole = (verb.to_owned(), milliseconds(took));
        Ok(std::iter::once(whole).chain(self.calls(verb)).collect())
    }

    /// What each plugin took since the last time.
    fn calls(&self, verb: &str) -> Vec<Sample> {
        let each = self.watch.take().into_iter();
        each.map(|(plugin, took)| (format!("{verb} {plugin}"), milliseconds(took)))
            .collect()
    }

    /// What one call takes, in the node's namespace.
    ///
    /// # Errors
    /// The call's.
    pub fn time(&self, verb: &str, call: impl FnOnce() -> Result<(), Error>) -> Outcome<Duration> {
        let (took, done) = self.namespace.run(|| {
            let began = Instant::now();
            let done = call();
            (began.elapsed(), done)
        })?;
        let (side, rules) = (self.side.name(), self.rules.name());
        done.map_err(|error| format!("{verb} ({side}, {rules}): {error} {}", error.details))?;
        Ok(took)
    }

    /// Brings the node from `from` pods to `to`, each with a host port and both rates, some networks
    /// full of them, by the plugins of `by`.
    ///
    /// # Errors
    /// The lab's, or a plugin's.
    pub fn crowd(&self, from: u32, to: u32, by: &Contender) -> Outcome<()> {
        let folder = self.folder().join("crowd");
        let runtime = Runtime {
            path: plugins(by, &folder)?,
            ..self.runtime.clone()
        };
        let lists = (0..=to / PODS_PER_NETWORK).map(|number| self.list(number, Version::V1_0_0));
        let lists = lists.collect::<Outcome<Vec<_>>>()?;
        let numbers: Vec<u32> = (from..to).collect();
        let add = |number: &u32| {
            let list = lists
                .iter()
                .cycle()
                .nth((number / PODS_PER_NETWORK) as usize);
            let list = list.ok_or("no network")?;
            let pod = self.pod(&format!("crowd{number}"))?;
            let conf = pod.conf(&asked::capabilities(CROWD_PORTS + number, 1));
            self.time("ADD of a crowd", || runtime.add(list, &conf).map(drop))
        };
        at_once(CROWD_THREADS, &numbers, add)?;
        Ok(())
    }
}

impl Pod {
    /// What it is.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// As a runtime asks for it.
    pub fn conf(&self, asked: &Map<String, Value>) -> RuntimeConf {
        RuntimeConf {
            container_id: self.id.clone(),
            netns: Some(self.namespace.path().to_owned()),
            ifname: "eth0".to_owned(),
            args: Vec::new(),
            capability_args: asked.clone(),
        }
    }
}

/// A `CNI_PATH` with a contender's plugins under their usual names.
fn plugins(contender: &Contender, folder: &Path) -> Outcome<Vec<PathBuf>> {
    let bin = folder.join("bin");
    let from = std::slice::from_ref(&contender.folder);
    lab::link_plugins(&PLUGINS, from, &bin)?;
    Ok(vec![bin])
}

/// As values are kept.
pub fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
