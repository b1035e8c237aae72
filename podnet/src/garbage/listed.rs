//! Which attachments live by a container runtime's list of its sandboxes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use cni::Attachment;
use cni::runtime::CachedAttachment;
use cri::Sandbox;
use node::Owners;

use super::known::{Entry, Known, state_of};

/// The argument by which a runtime that serves CRI says whose an attachment is.
const SANDBOX_ARG: &str = "K8S_POD_INFRA_CONTAINER_ID";

/// The interface of a sandbox in its first network.
const FIRST: &str = "eth0";

/// An attachment that something on the node names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// `CNI_NETNS` of its ADD, where the cache has it.
    pub netns: Option<PathBuf>,
    /// When it was last heard of; `None` where nothing tells.
    made: Option<SystemTime>,
    /// The cache has it, and its arguments are not those of a sandbox: its network is shared with
    /// what another program runs.
    foreign: bool,
    /// The cache has it, in a file that cannot be read: it may be another program's.
    is_unreadable: bool,
}

/// All attachments of a network that something on the node names.
pub type AllFound = BTreeMap<Entry, Found>;

/// Puts together what the cache knows of a network, and what reservations and links do. `is_cached`
/// tells of which attachment the cache has a file, be it one that cannot be read.
pub fn found(
    network: &str,
    cached: &[CachedAttachment],
    owners: Owners,
    is_cached: impl Fn(&Entry) -> bool,
) -> AllFound {
    let entry = |of: &Attachment| Entry {
        id: of.container_id.clone(),
        ifname: of.ifname.clone(),
    };
    let mut found = AllFound::new();
    for (owner, made) in owners {
        let entry = entry(&owner);
        let one = Found {
            made,
            is_unreadable: is_cached(&entry),
            ..Found::default()
        };
        found.insert(entry, one);
    }
    let of_network = cached
        .iter()
        .filter(|one| one.attachment.network == network);
    for one in of_network {
        let known = found.entry(entry(&one.attachment)).or_default();
        let is_sandbox = |(key, value): &(String, String)| {
            key == SANDBOX_ARG && *value == one.attachment.container_id
        };
        known.netns.clone_from(&one.netns);
        known.made = known.made.max(one.noted);
        known.foreign = !one.args.iter().any(is_sandbox);
        known.is_unreadable = false;
    }
    found
}

/// What is known of the sandboxes, at one moment.
#[derive(Debug)]
pub struct Listed<'a> {
    /// All that the runtime has.
    pub sandboxes: &'a [Sandbox],
    /// What is told beside.
    pub told: &'a [Entry],
    /// When.
    pub now: SystemTime,
    /// How long a runtime may take to list a sandbox whose network it has made.
    pub grace: Duration,
}

impl Listed<'_> {
    /// Who of a network lives. Every sandbox does, whatever its state: the runtime itself will remove
    /// what it has of one that was stopped. One that nothing on the node names may have rules still.
    pub fn known(
        &self,
        network: &str,
        found: &AllFound,
        is_there: impl Fn(&Path) -> bool,
    ) -> Known {
        let state =
            |(entry, found): (&Entry, &Found)| (entry.clone(), self.state(entry, found, &is_there));
        let first = self.sandboxes.iter().map(|sandbox| Entry {
            id: sandbox.id.clone(),
            ifname: FIRST.to_owned(),
        });
        Known {
            may_be: first.filter(|entry| !found.contains_key(entry)).collect(),
            ..Known::with_told(network, found.iter().map(state).collect(), self.told)
        }
    }

    fn state(
        &self,
        entry: &Entry,
        found: &Found,
        is_there: impl Fn(&Path) -> bool,
    ) -> (bool, String) {
        if let Some(sandbox) = self.sandboxes.iter().find(|one| one.id == entry.id) {
            return (true, words(sandbox));
        }
        if found.foreign {
            let (lives, why) = state_of(found.netns.as_deref(), is_there);
            return (lives, format!("no sandbox's by its CNI_ARGS; {why}"));
        }
        if found.is_unreadable {
            let why = "what the cache has of it cannot be read, and may be another program's";
            return (true, why.to_owned());
        }
        match self.age(found) {
            None if !self.grace.is_zero() => {
                let why = "nothing tells its age (--grace 0 if no pod is starting)";
                (true, why.to_owned())
            }
            Some(age) if age < self.grace => {
                let age = age.as_secs();
                let why = format!("made {age} s ago, its sandbox may not be listed yet");
                (true, why)
            }
            _ => (false, "the runtime has no such sandbox".to_owned()),
        }
    }

    /// How old it is. A clock that was set back makes it new.
    fn age(&self, found: &Found) -> Option<Duration> {
        let age = |made| self.now.duration_since(made).unwrap_or_default();
        found.made.map(age)
    }
}

fn words(sandbox: &Sandbox) -> String {
    let Sandbox {
        namespace,
        name,
        state,
        ..
    } = sandbox;
    format!("sandbox of {namespace}/{name}, {state}")
}

#[cfg(test)]
mod tests {
    use cri::State;

    use super::*;

    fn cached(network: &str, id: &str, ifname: &str, args: &[(&str, &str)]) -> CachedAttachment {
        let args = args.iter();
        CachedAttachment {
            attachment: Attachment::new(network, id, ifname),
            netns: Some("/run/netns/there".into()),
            config: Vec::new(),
            args: args
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            noted: Some(at(0)),
        }
    }

    /// Seconds after a moment.
    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds)
    }

    fn sandbox(id: &str, state: State) -> Sandbox {
        Sandbox {
            id: id.to_owned(),
            name: format!("pod-{id}"),
            namespace: "default".to_owned(),
            uid: String::new(),
            state,
        }
    }

    /// Interfaces with their state, and how the reason begins.
    fn states(known: &Known) -> Vec<String> {
        let state = |row: Vec<String>| format!("{}/{} {}: {}", row[1], row[2], row[3], row[4]);
        known.rows().into_iter().map(state).collect()
    }

    #[test]
    fn the_list_says_who_lives() {
        let cache = [
            cached("n", "leaked", "eth0", &[(SANDBOX_ARG, "leaked")]),
            cached("n", "living", "net1", &[(SANDBOX_ARG, "living")]),
            cached("n", "stopped", "eth0", &[(SANDBOX_ARG, "stopped")]),
            cached("m", "other", "eth0", &[(SANDBOX_ARG, "other")]),
            cached("n", "by-hand", "eth0", &[("K8S_POD_NAME", "w")]),
            cached("n", "told", "eth0", &[(SANDBOX_ARG, "told")]),
        ];
        let owner = |id: &str, seconds| (Attachment::new("n", id, "eth0"), Some(at(seconds)));
        let owners = [owner("reserved", 0), owner("in-flight", 95)];
        let mut owners: Owners = owners.into();
        owners.insert(Attachment::new("n", "linked", "eth0"), None);
        owners.insert(Attachment::new("n", "torn", "eth0"), Some(at(0)));
        let found = found("n", &cache, owners, |entry| {
            ["torn", "leaked"].contains(&entry.id.as_str())
        });
        let listed = Listed {
            sandboxes: &[
                sandbox("living", State::Ready),
                sandbox("stopped", State::NotReady),
            ],
            told: &["told/eth0".parse().unwrap()],
            now: at(100),
            grace: Duration::from_secs(10),
        };
        let known = listed.known("n", &found, |_| true);
        let no_sandbox = "gone: the runtime has no such sandbox";
        assert_eq!(
            states(&known),
            [
                "by-hand/eth0 valid: no sandbox's by its CNI_ARGS; /run/netns/there is there",
                "in-flight/eth0 valid: made 5 s ago, its sandbox may not be listed yet",
                &format!("leaked/eth0 {no_sandbox}"),
                "linked/eth0 valid: nothing tells its age (--grace 0 if no pod is starting)",
                "living/net1 valid: sandbox of default/pod-living, ready",
                &format!("reserved/eth0 {no_sandbox}"),
                "stopped/eth0 valid: sandbox of default/pod-stopped, not ready",
                "told/eth0 valid: told",
                "torn/eth0 valid: what the cache has of it cannot be read, and may be another \
                 program's",
            ]
        );
        let gone: Vec<_> = known.gone().map(|entry| entry.id.as_str()).collect();
        assert_eq!(gone, ["leaked", "reserved"]);
        // Of which network the others' sandboxes are, nothing says.
        assert!(
            known
                .valid()
                .contains(&("living".to_owned(), "eth0".to_owned()))
        );
        let now = Listed {
            grace: Duration::ZERO,
            ..listed
        };
        let known = now.known("n", &found, |_| true);
        let gone: Vec<_> = known.gone().map(|entry| entry.id.as_str()).collect();
        assert_eq!(gone, ["in-flight", "leaked", "linked", "reserved"]);
        let known = listed.known("n", &found, |_| false);
        assert_eq!(
            states(&known)[0],
            "by-hand/eth0 gone: no sandbox's by its CNI_ARGS; /run/netns/there is not there"
        );
    }

    #[test]
    fn the_later_of_reservation_and_cache_is_its_age() {
        let cache = [cached("n", "a", "eth0", &[(SANDBOX_ARG, "a")])];
        let owners = [(Attachment::new("n", "a", "eth0"), Some(at(7)))];
        let found = found("n", &cache, owners.into(), |_| true);
        let listed = Listed {
            sandboxes: &[],
            told: &[],
            now: at(10),
            grace: Duration::from_secs(4),
        };
        let spared = "a/eth0 valid: made 3 s ago, its sandbox may not be listed yet";
        assert_eq!(states(&listed.known("n", &found, |_| true)), [spared]);
        let set_back = Listed {
            now: at(0),
            ..listed
        };
        let known = set_back.known("n", &found, |_| true);
        assert_eq!(known.gone().count(), 0);
    }
}
