//! GC: which attachments live, by the cache, by a runtime's list of sandboxes and by what is told; the
//! others go.

mod known;
mod listed;

use std::path::Path;
use std::time::{Duration, SystemTime};

use clap::Args;
use clap::builder::RangedU64ValueParser;
use cni::runtime::{CachedAttachment, NetworkList, Runtime, RuntimeConf};
use cni::{Error, Version, code};
use cri::{Client, Endpoint, Sandbox};
use net::Netns;
use node::Node;
use serde_json::Value;

use crate::failure::{Failure, complain};
use crate::network::Places;
use crate::node_root::NodeRoot;
use known::Entry;
pub use known::Known;
use listed::{AllFound, Listed};

/// How old, in seconds, what nobody owns any more must be, where nothing else is asked for.
pub const GRACE: u64 = 120;

/// Which networks, and what is known beside the cache.
#[derive(Debug, Args)]
pub struct Collect {
    /// Name of the network, as its configuration says
    #[arg(value_name = "NETWORK", required_unless_present = "all")]
    network: Option<String>,
    /// Every network that the configurations describe or the cache knows; needs --from-cri
    #[arg(long, requires = "from_cri", conflicts_with_all = ["network", "conf"])]
    all: bool,
    #[command(flatten)]
    places: Places,
    #[command(flatten)]
    root: NodeRoot,
    /// The socket of a container runtime, as unix:///run/containerd/containerd.sock: the attachments
    /// of its sandboxes live, whatever their state; others of a runtime's making do not, even where
    /// their namespace is there. To be given for each runtime that uses these networks: what those
    /// run that are not asked is removed
    #[arg(long, value_name = "ENDPOINT")]
    from_cri: Vec<Endpoint>,
    /// How long the runtime may take to answer
    #[arg(long, value_name = "SECONDS", default_value_t = 10, requires = "from_cri",
        value_parser = RangedU64ValueParser::<u64>::new().range(1..=600))]
    cri_timeout: u64,
    /// How old an attachment without a sandbox must be to be removed: a runtime lists a sandbox only
    /// when its network has long been made. One whose age nothing tells is removed with 0 alone
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = GRACE,
        requires = "from_cri"
    )]
    grace: u64,
    /// An attachment that lives, beside those in the cache whose namespace is there, or those of
    /// sandboxes; may be repeated
    #[arg(long = "valid", value_name = "ID/IFNAME")]
    valid: Vec<Entry>,
    /// Only say which attachments live, and which of those that are known do not and would be
    /// removed by DEL; what else the plugins would find by their GC, only they can tell
    #[arg(long)]
    dry_run: bool,
    /// Go on although no attachment is known or no sandbox listed, and none is told
    #[arg(long)]
    none_valid: bool,
}

impl Collect {
    /// Whether more than one network may be shown.
    pub fn is_of_all(&self) -> bool {
        self.all
    }
}

/// Who lives and who does not: of the network that is named, or of all by their names.
pub fn to_json(known: &[Known], of_all: bool) -> Value {
    match known {
        [one] if !of_all => one.to_json(),
        all => all
            .iter()
            .map(|known| (known.network.clone(), known.to_json()))
            .collect(),
    }
}

/// Finds out which attachments live, has them shown, and removes the others.
///
/// # Errors
/// The node's root cannot be entered; nothing is known of the network, or its configuration forbids GC; the
/// runtime gave no list; the plugins' own.
pub fn gc(
    asked: &Collect,
    show: impl FnOnce(&[Known]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    asked.root.enter()?;
    let runtime = asked.places.runtime();
    if asked.from_cri.is_empty() {
        by_namespaces(asked, &runtime, show)
    } else {
        by_sandboxes(asked, &runtime, show)
    }
}

fn by_namespaces(
    asked: &Collect,
    runtime: &Runtime,
    show: impl FnOnce(&[Known]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let list = asked.one()?;
    let name = &list.name;
    let cached = runtime.attachments()?;
    let known = [Known::by_namespaces(name, &cached, &asked.valid, is_there)];
    let [of_network] = &known;
    if of_network.states.is_empty() && !asked.none_valid && !asked.dry_run {
        let cache = runtime.cache.display();
        return Err(Failure::Usage(format!(
            "no attachment of network {name:?} is known in {cache}: all that there is would be \
             removed; give --valid ID/IFNAME for each that lives, or --none-valid"
        )));
    }
    show(&known)?;
    if !asked.dry_run {
        runtime.gc(&list, &of_network.valid())?;
        say_if_old(&list, "only what the cache knows was removed");
    }
    Ok(())
}

fn by_sandboxes(
    asked: &Collect,
    runtime: &Runtime,
    show: impl FnOnce(&[Known]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    asked.places.expect_cache().map_err(Failure::Usage)?;
    let cached = cached(runtime)?;
    let (lists, mut errors) = asked.lists(&cached)?;
    // Before the runtime is asked: who comes in between is listed, or not known here.
    let mut networks: Vec<(NetworkList, AllFound)> = Vec::new();
    for list in lists {
        match look(runtime, &list, &cached) {
            Ok(found) => networks.push((list, found)),
            Err(error) if asked.all => errors.push(error),
            Err(error) => return Err(Failure::usage(error)),
        }
    }
    let limit = Duration::from_secs(asked.cri_timeout);
    let of_each = asked
        .from_cri
        .iter()
        .map(|runtime| sandboxes(runtime, limit));
    let sandboxes: Vec<Vec<Sandbox>> = of_each.collect::<Result<_, _>>()?;
    let sandboxes = sandboxes.concat();
    if sandboxes.is_empty() && asked.valid.is_empty() && !asked.none_valid && !asked.dry_run {
        let endpoints: Vec<String> = asked.from_cri.iter().map(ToString::to_string).collect();
        return Err(Failure::Usage(format!(
            "the runtime at {} has no sandbox: all that there is would be removed; give \
             --none-valid if it is the right runtime",
            endpoints.join(", ")
        )));
    }
    let listed = Listed {
        sandboxes: &sandboxes,
        told: &asked.valid,
        now: SystemTime::now(),
        grace: Duration::from_secs(asked.grace),
    };
    let known = networks
        .iter()
        .map(|(list, found)| listed.known(&list.name, found, is_there));
    let known: Vec<Known> = known.collect();
    show(&known)?;
    if !asked.dry_run {
        for ((list, found), known) in networks.iter().zip(&known) {
            errors.extend(remove(runtime, list, found, known));
            say_if_old(
                list,
                "what neither the cache nor a reservation nor a link names has stayed",
            );
        }
    }
    Ok(Error::all(errors)?)
}

impl Collect {
    /// The network that is named.
    fn one(&self) -> Result<NetworkList, Failure> {
        let name = self.network.as_deref().unwrap_or_default();
        let (_, list) = self.places.open(name)?;
        if list.disable_gc {
            let reason = format!("network {name:?} says \"disableGC\": true");
            return Err(Failure::Usage(reason));
        }
        Ok(list)
    }

    /// The network that is named, or all: those that are configured, and those that only the cache
    /// knows, each as one of its attachments was made. Beside them why others cannot be read.
    fn lists(
        &self,
        cached: &[CachedAttachment],
    ) -> Result<(Vec<NetworkList>, Vec<Error>), Failure> {
        if !self.all {
            return Ok((vec![self.one()?], Vec::new()));
        }
        let (mut lists, mut unread) = self.places.lists()?;
        add_cached(&mut lists, &mut unread, cached);
        lists.retain(|list| {
            if list.disable_gc {
                let name = &list.name;
                complain(format!(
                    "network {name:?} says \"disableGC\": true, and is left alone"
                ));
            }
            !list.disable_gc
        });
        Ok((lists, unread))
    }
}

/// Takes in the networks that only the cache knows. Where a configuration cannot be read, one of them
/// may be its network, and it may say `disableGC`.
fn add_cached(lists: &mut Vec<NetworkList>, unread: &mut Vec<Error>, cached: &[CachedAttachment]) {
    let are_all_read = unread.is_empty();
    let mut networks: Vec<&str> = cached
        .iter()
        .map(|one| one.attachment.network.as_str())
        .filter(|network| lists.iter().all(|list| list.name != *network))
        .collect();
    networks.sort_unstable();
    networks.dedup();
    for network in networks {
        if !are_all_read {
            complain(format!(
                "network {network:?} may be that of a configuration that cannot be read, and is left alone"
            ));
            continue;
        }
        let of_network = cached
            .iter()
            .filter(|one| one.attachment.network == network);
        let mut read = of_network.map(|one| NetworkList::parse(one.config.clone()));
        match read.find_map(Result::ok) {
            Some(list) => lists.push(list),
            None => unread.push(Error::config(format!(
                "network {network:?}: the cache has no configuration of it that can be read"
            ))),
        }
    }
}

/// What the cache knows. A file that cannot be read, as a crash leaves it, is no obstacle: whose it is
/// says its name.
fn cached(runtime: &Runtime) -> Result<Vec<CachedAttachment>, Error> {
    let mut cached = Vec::new();
    for one in runtime.each_attachment()? {
        match one {
            Ok(one) => cached.push(one),
            Err(unreadable) => complain(unreadable),
        }
    }
    Ok(cached)
}

fn look(
    runtime: &Runtime,
    list: &NetworkList,
    cached: &[CachedAttachment],
) -> Result<AllFound, Error> {
    let owners = Node::read_owners(list)
        .map_err(|unread| Error::new(code::IO_FAILURE, format!("cannot read {unread}")))?;
    let is_cached = |entry: &Entry| runtime.has_result(&list.name, &entry.id, &entry.ifname);
    Ok(listed::found(&list.name, cached, owners, is_cached))
}

/// All sandboxes, or none at all.
fn sandboxes(endpoint: &Endpoint, limit: Duration) -> Result<Vec<Sandbox>, Failure> {
    let sandboxes = Client::connect(endpoint, limit).and_then(|mut runtime| runtime.sandboxes());
    sandboxes.map_err(|error| Failure::Usage(format!("{error}; nothing was removed")))
}

/// DEL of each that does not live, then GC of the plugins.
fn remove(runtime: &Runtime, list: &NetworkList, found: &AllFound, known: &Known) -> Vec<Error> {
    let del = |entry: &Entry| {
        let netns = found.get(entry).and_then(|found| found.netns.clone());
        let conf = RuntimeConf {
            container_id: entry.id.clone(),
            ifname: entry.ifname.clone(),
            netns,
            ..RuntimeConf::default()
        };
        runtime.del(list, &conf).err()
    };
    let mut errors: Vec<Error> = known.gone().filter_map(del).collect();
    let collected = cached(runtime).and_then(|cached| {
        // Those that have come meanwhile are nobody's garbage.
        let now = look(runtime, list, &cached)?;
        let new = now.into_keys().filter(|entry| !found.contains_key(entry));
        let mut valid = known.valid();
        valid.extend(new.map(|entry| (entry.id, entry.ifname)));
        runtime.gc_by_plugins(list, &valid)
    });
    errors.extend(collected.err());
    errors
}

/// Whether a namespace may be there. What cannot be looked at may: that of a process, as nerdctl names it
/// (`/proc/PID/ns/net`), is nothing for who may not trace that process.
fn is_there(path: &Path) -> bool {
    let is_unseen = path.starts_with("/proc") && !Path::new("/proc/self").exists();
    let opened = Netns::open(path);
    is_unseen
        || !matches!(
            opened,
            Err(net::Error::NetnsMissing(_) | net::Error::NotANetns(_))
        )
}

/// What a network that has no GC yet means for what was removed.
fn say_if_old(list: &NetworkList, so: &str) {
    let (name, version) = (&list.name, list.cni_version);
    if version < Version::V1_1_0 {
        complain(format!(
            "network {name:?} is of cniVersion {version}, and 1.1.0 brought GC: {so}"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_namespace_is_not_there() {
        for (path, is_so) in [
            ("/proc/self/ns/net", true),
            ("/does/not/exist", false),
            ("/proc/0/ns/net", false),
            // Of a file that was bound before.
            ("/proc/self/status", false),
        ] {
            assert_eq!(is_there(Path::new(path)), is_so, "{path}");
        }
    }
}
