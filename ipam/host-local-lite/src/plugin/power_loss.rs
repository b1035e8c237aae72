//! What a power loss leaves of what was not synced: of each file what it was, what it became, or its
//! name with nothing, zeros or half of its content, in every combination. No pod lives then. Whatever
//! it is, the next pods get addresses of their own, DEL and GC succeed, and GC leaves no address lost.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use cni::{Command, Config, Env};

use super::*;

const INDEX: &str = ".by-attachment";

/// The plugin, called with a store of the test's own.
struct Node {
    folder: tempfile::TempDir,
    /// How many addresses of IPv4 there are to give. Of IPv6 there are more.
    capacity: u8,
}

impl Node {
    fn request(&self, command: Command, id: &str, valid: &[&str]) -> Request {
        let valid = valid
            .iter()
            .map(|id| serde_json::json!({ "containerID": id, "ifname": "eth0" }));
        let valid: Vec<_> = valid.collect();
        let config = serde_json::json!({
            "cniVersion": "1.1.0", "name": "net", "type": "host-local",
            "cni.dev/valid-attachments": valid,
            "ipam": { "dataDir": self.folder.path(), "ranges": [
                [{
                    "subnet": "10.1.0.0/24", "rangeStart": "10.1.0.2",
                    "rangeEnd": format!("10.1.0.{}", self.capacity + 1),
                }],
                [{ "subnet": "fd00::/64" }],
            ] },
        });
        let env = Env {
            command,
            container_id: id.to_owned(),
            netns: None,
            ifname: "eth0".to_owned(),
            args: String::new(),
            path: Vec::new(),
            netns_override: false,
        };
        Request::new(env, Config::parse(config.to_string().into_bytes()).unwrap())
    }

    fn add(&self, id: &str) -> Result<Vec<IpAddr>, Error> {
        let added = HostLocal.add(&self.request(Command::Add, id, &[]))?;
        Ok(added.ips.iter().map(|ip| ip.address.addr()).collect())
    }

    fn del(&self, id: &str) {
        HostLocal.del(&self.request(Command::Del, id, &[])).unwrap();
    }

    fn gc(&self, valid: &[&str]) {
        HostLocal.gc(&self.request(Command::Gc, "", valid)).unwrap();
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("net")
    }

    /// Every file and link below the store, with its content or target.
    fn files(&self) -> Files {
        let mut files = Files::new();
        for folder in [self.store(), self.store().join(INDEX)] {
            let Ok(entries) = fs::read_dir(&folder) else {
                continue;
            };
            for entry in entries {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(self.store()).unwrap().to_owned();
                if path.is_symlink() {
                    let target = fs::read_link(&path).unwrap().into_os_string();
                    files.insert(name, Kept::Link(target.into_string().unwrap()));
                } else if path.is_file() {
                    files.insert(name, Kept::File(fs::read(&path).unwrap()));
                }
            }
        }
        files
    }

    /// Makes files what they are to be.
    fn set<'a>(&self, files: impl IntoIterator<Item = (&'a PathBuf, &'a Kept)>) {
        for (name, kept) in files {
            let path = self.store().join(name);
            drop(fs::remove_file(&path));
            match kept {
                Kept::Nothing => {}
                Kept::File(content) => fs::write(path, content).unwrap(),
                Kept::Link(target) => symlink(target, path).unwrap(),
            }
        }
    }

    /// Has the index count, whatever it says.
    fn seal(&self) {
        let past = SystemTime::now() - Duration::from_secs(10);
        for folder in [self.store().join(INDEX), self.store()] {
            let folder = fs::File::open(folder).unwrap();
            folder.set_modified(past).unwrap();
        }
    }

    /// What names an attachment.
    fn held(&self, id: &str) -> BTreeSet<IpAddr> {
        let content = format!("{id}\r\neth0").into_bytes();
        let files = self.files().into_iter();
        let held = files.filter(|(_, kept)| *kept == Kept::File(content.clone()));
        held.filter_map(|(name, _)| name.to_str()?.parse().ok())
            .collect()
    }
}

type Files = BTreeMap<PathBuf, Kept>;

/// What the disk has by some name.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Kept {
    Nothing,
    File(Vec<u8>),
    Link(String),
}

/// What there may be by a name after the loss.
fn outcomes(before: Option<&Kept>, after: Option<&Kept>) -> Vec<Kept> {
    let mut outcomes = vec![
        before.unwrap_or(&Kept::Nothing).clone(),
        after.unwrap_or(&Kept::Nothing).clone(),
    ];
    if let Some(Kept::File(content)) = after {
        // Cut within a container's id, and behind it.
        let cuts = [0, 3, 5].map(|length| content[..length].to_vec());
        let zeros = vec![0; content.len()];
        outcomes.extend(cuts.into_iter().chain([zeros]).map(Kept::File));
    }
    outcomes
}

/// A node with pods of before, whose files are on the disk, and what became of them until the power
/// was lost: a pod was added, and one deleted.
struct Loss {
    node: Node,
    before: Files,
    /// Each name that was changed, and what the loss may leave by it.
    names: Vec<(PathBuf, Vec<Kept>)>,
    fillers: Vec<String>,
}

impl Loss {
    fn new(fillers: u8) -> Loss {
        let node = Node {
            folder: tempfile::tempdir().unwrap(),
            capacity: fillers + 5,
        };
        let fillers: Vec<String> = (0..fillers).map(|number| format!("old{number}")).collect();
        for id in fillers.iter().map(String::as_str).chain(["early"]) {
            node.add(id).unwrap();
        }
        let before = node.files();
        node.add("later").unwrap();
        node.del("early");
        let after = node.files();
        let all: BTreeSet<&PathBuf> = before.keys().chain(after.keys()).collect();
        let changed = all
            .into_iter()
            .filter(|name| before.get(*name) != after.get(*name));
        let names = changed.map(|name| {
            let outcomes = outcomes(before.get(name), after.get(name));
            (name.clone(), outcomes)
        });
        let names = names.collect();
        Loss {
            node,
            before,
            names,
            fillers,
        }
    }

    fn combinations(&self) -> usize {
        self.names
            .iter()
            .map(|(_, outcomes)| outcomes.len())
            .product()
    }

    /// The loss of that number, and what must be so then.
    fn check(&self, number: usize, sealed: bool) {
        let Loss { node, fillers, .. } = self;
        let now = node.files();
        node.set(now.keys().map(|name| (name, &Kept::Nothing)));
        node.set(&self.before);
        let mut rest = number;
        let left: Vec<(&PathBuf, &Kept)> = self
            .names
            .iter()
            .map(|(name, outcomes)| {
                let outcome = &outcomes[rest % outcomes.len()];
                rest /= outcomes.len();
                (name, outcome)
            })
            .collect();
        node.set(left.iter().copied());
        if sealed {
            node.seal();
        }
        let case = format!("loss {number}, sealed: {sealed}: {left:?}");

        let (one, two) = (node.add("one").unwrap(), node.add("two").unwrap());
        for id in ["later", "early"] {
            node.del(id);
            // An index that a file system kept, and not what it tells of, is looked through by GC.
            assert!(sealed || node.held(id).is_empty(), "{id}: {case}");
        }
        let living: BTreeSet<IpAddr> = one.iter().chain(&two).copied().collect();
        assert_eq!(living.len(), 4, "{case}");
        for (id, ips) in [("one", one), ("two", two)] {
            assert_eq!(node.held(id), ips.into_iter().collect(), "{case}");
        }
        let valid: Vec<&str> = fillers
            .iter()
            .map(String::as_str)
            .chain(["one", "two"])
            .collect();
        node.gc(&valid);
        // All others are free.
        let free = usize::from(node.capacity) - valid.len();
        for number in 0..free {
            let added = node.add(&format!("new{number}"));
            assert!(added.is_ok(), "{added:?}, {case}");
        }
        assert_eq!(node.add("more").unwrap_err().code, cni::code::NO_ADDRESS);
        let named = node.files().into_keys();
        let named = named.filter_map(|name| name.to_str()?.parse().ok());
        let named: BTreeSet<IpAddr> = named.filter(IpAddr::is_ipv4).collect();
        assert_eq!(named.len(), usize::from(node.capacity), "{case}");
    }
}

#[test]
fn of_a_small_store() {
    let loss = Loss::new(3);
    assert_eq!(loss.combinations(), 6 * 6 * 6 * 6 * 2 * 2);
    some(&loss, 150, |_| false);
}

/// That has an index, whose links may be lost as well.
#[test]
fn of_a_large_store() {
    let loss = Loss::new(70);
    assert_eq!(loss.combinations(), 6 * 6 * 6 * 6 * 2 * 2 * 2 * 2);
    some(&loss, 40, |number| number % 2 == 0);
}

#[test]
#[ignore = "takes half a minute"]
fn of_a_small_store_every_one() {
    let loss = Loss::new(3);
    (0..loss.combinations()).for_each(|number| loss.check(number, false));
}

#[test]
#[ignore = "takes minutes"]
fn of_a_large_store_every_one() {
    let loss = Loss::new(70);
    for number in 0..loss.combinations() {
        loss.check(number, true);
        loss.check(number, false);
    }
}

/// Some of all combinations, whose numbers tell whether the index counts.
fn some(loss: &Loss, count: usize, is_sealed: impl Fn(usize) -> bool) {
    for _ in 0..count {
        let number = fastrand::usize(..loss.combinations());
        loss.check(number, is_sealed(number / 2));
    }
}
