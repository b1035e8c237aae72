//! A pod that the whole chain has connected, and what is done to it.

use std::fmt::Display;
use std::time::{Duration, Instant};

use cni::AddResult;
use cni::runtime::NetworkList;
use lab::Namespace;
use serde_json::Value;

use crate::{Family, Node, Pod};

/// How long the kernel may take to make good again what was mended: a link's carrier is told of up
/// to a second later.
const PATIENCE: Duration = Duration::from_secs(5);

/// A pod in good order, the first one of its node.
#[derive(Debug)]
pub struct Attached {
    /// The chain.
    pub list: NetworkList,
    /// The pod; its container id is `pod`.
    pub pod: Pod,
    /// What ADD returned.
    pub result: AddResult,
    /// The node.
    pub node: Node,
}

/// Something that can go wrong: its name, the shell lines that do it, those that put it back, and
/// what CHECK must say between. In all but the name, `$VETH` is the host veth, `$IFB` the ifb,
/// `$BRIDGE_MAC` and `$POD_MAC` the bridge's and the pod's MAC, `$STORE` the folder of the network's
/// reservations, `$NETWORK` its name; and the words of [`Family::expand`] are those of the pod's
/// first address.
pub type Damage<'a> = (&'a str, &'a str, &'a str, &'a str);

/// Runs shell lines in a namespace, up to the first that fails; what they print.
///
/// # Panics
/// One fails.
#[track_caller]
pub fn sh(namespace: &Namespace, lines: &str) -> String {
    let ran = namespace.read("sh", &["-ec", lines]);
    ran.unwrap_or_else(|error| panic!("{error}"))
}

/// Tries until it succeeds, or a few seconds have passed.
///
/// # Errors
/// The last attempt's.
pub fn eventually<T, E>(attempt: impl Fn() -> Result<T, E>) -> Result<T, E> {
    eventually_within(PATIENCE, attempt)
}

/// Tries until it succeeds, or that time has passed.
///
/// # Errors
/// The last attempt's.
pub fn eventually_within<T, E>(
    patience: Duration,
    attempt: impl Fn() -> Result<T, E>,
) -> Result<T, E> {
    let end = Instant::now() + patience;
    loop {
        match attempt() {
            Err(_) if Instant::now() < end => std::thread::sleep(Duration::from_millis(50)),
            last => return last,
        }
    }
}

impl Attached {
    /// A node, and on it a pod of a conflist of `conf/` with `changes` (see
    /// [`Node::conflist_with`]); `None`, said aloud and counted, where this machine cannot.
    pub fn new(
        label: &str,
        conflist: &str,
        changes: &[(&str, Value)],
        capabilities: &Value,
    ) -> Option<Attached> {
        let node = Node::new(label)?;
        let list = node.conflist_with(conflist, changes);
        let pod = node.pod("pod");
        let added = node.add(&list, &pod, capabilities.clone());
        let result = added.unwrap_or_else(|error| panic!("{label}: {error:?}"));
        let attached = Attached {
            list,
            pod,
            result,
            node,
        };
        attached
            .check()
            .unwrap_or_else(|error| panic!("{label}: {error}"));
        Some(attached)
    }

    /// As [`Attached::new`] with nothing changed or asked for, one after the other: with the conflist
    /// of each family.
    pub fn of_each_family(label: &str) -> impl Iterator<Item = Attached> {
        Family::ALL
            .into_iter()
            .filter_map(move |family| Attached::new(label, family.conflist(), &[], &Value::Null))
    }

    /// The name of the host's end of the veth pair.
    pub fn veth(&self) -> &str {
        &self.result.interfaces[1].name
    }

    /// The name of the ifb; empty where there is none.
    pub fn ifb(&self) -> &str {
        self.result.interfaces.get(3).map_or("", |ifb| &ifb.name)
    }

    /// CHECK of the chain; an error's message and details.
    ///
    /// # Errors
    /// The plugin's.
    pub fn check(&self) -> Result<(), String> {
        let checked = self.node.check(&self.list, &self.pod);
        checked.map_err(|error| format!("{} {}", error.msg, error.details))
    }

    /// That CHECK fails at `plugin`, and that the message says so much.
    ///
    /// # Errors
    /// It does not.
    pub fn noticed_by(&self, plugin: &str, says: &str) -> Result<(), String> {
        let says = self.expand(says);
        match self.check() {
            Ok(()) => Err("CHECK passes".to_owned()),
            Err(said) if said.contains(&blames(plugin)) && said.contains(&says) => Ok(()),
            Err(said) => Err(format!("no {plugin:?} and {says:?} in: {said}")),
        }
    }

    /// That CHECK of `plugin` notices each damage, done in `namespace`, while it lasts.
    ///
    /// # Panics
    /// It does not; all that failed is told.
    #[track_caller]
    pub fn expect_noticed(&self, plugin: &str, namespace: &Namespace, damages: &[Damage]) {
        let all = damages.iter().filter_map(|(name, done, mended, says)| {
            sh(namespace, &self.expand(done));
            let noticed = self.noticed_by(plugin, says);
            sh(namespace, &self.expand(mended));
            let passes = eventually(|| self.check()).map_err(|said| format!("mended: {said}"));
            let failed = noticed.and(passes).err();
            failed.map(|failed| format!("{name}: {failed}"))
        });
        expect_none(all.collect());
    }

    /// The text with what `$VETH` and the like stand for.
    pub fn expand(&self, text: &str) -> String {
        let store = self.node.data.join(&self.list.name);
        let family = Family::of(self.result.ips[0].address.addr());
        let text = family.expand(&text.replace("$NETWORK", &self.list.name));
        text.replace("$BRIDGE_MAC", &self.result.interfaces[0].mac)
            .replace("$POD_MAC", &self.result.interfaces[2].mac)
            .replace("$VETH", self.veth())
            .replace("$IFB", self.ifb())
            .replace("$STORE", &store.to_string_lossy())
    }
}

/// How a chain's error begins that came from CHECK of this plugin.
fn blames(plugin: &str) -> String {
    format!("plugin type={plugin:?} failed (check): ")
}

/// That nothing failed.
///
/// # Panics
/// With all that did.
#[track_caller]
pub fn expect_none(failed: Vec<impl Display>) {
    let lines: Vec<_> = failed.iter().map(ToString::to_string).collect();
    assert!(
        lines.is_empty(),
        "{} failed:\n{}",
        lines.len(),
        lines.join("\n")
    );
}
