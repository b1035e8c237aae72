//! The store of addresses on disks that are full, read-only, forbidden, locked, or hold what nobody
//! expects: clear errors, nothing half done, no address twice, and none lost.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg};
use serde_json::{Value, json};
use tests::{Answer, Mounted, Node, Pod, VALID, entry};

/// How long a call waits for the store's lock; docs/host-local.md says it.
const DEADLINE: Duration = Duration::from_secs(30);

/// A node's store, and what is called with it.
struct Store {
    node: Node,
    pod: Pod,
}

impl Store {
    fn new(label: &str) -> Option<Store> {
        let node = Node::new(label)?;
        let pod = node.pod("pod");
        Some(Store { node, pod })
    }

    /// In memory, with these options of tmpfs(5).
    fn mounted(label: &str, options: &str) -> Option<(Mounted, Store)> {
        let store = Store::new(label)?;
        Some((Mounted::at(store.node.data.clone(), options), store))
    }

    fn path(&self) -> PathBuf {
        self.node.data.join("net")
    }

    fn call_as(&self, process: Command, verb: &str, id: &str, valid: &[&str]) -> Answer {
        let valid: Vec<Value> = valid.iter().map(|id| entry(id, "eth0")).collect();
        let config = json!({
            "cniVersion": "1.1.0", "name": "net", "type": "host-local", VALID: valid,
            "ipam": { "type": "host-local", "subnet": "10.0.0.0/8", "dataDir": self.node.data }
        });
        let id = [("CNI_CONTAINERID", id)];
        self.node.call_as(process, verb, &self.pod, &config, &id)
    }

    fn call(&self, verb: &str, id: &str) -> Answer {
        self.call_as(self.plugin(), verb, id, &[])
    }

    fn gc(&self, valid: &[&str]) -> Answer {
        self.call_as(self.plugin(), "GC", "", valid)
    }

    fn plugin(&self) -> Command {
        Command::new(self.node.bin.join("host-local"))
    }

    /// The address that ADD gives.
    #[track_caller]
    fn add(&self, id: &str) -> String {
        address(&self.call("ADD", id))
    }

    /// Files that are addresses.
    fn reservations(&self) -> BTreeSet<String> {
        let files = fs::read_dir(self.path()).into_iter().flatten();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("10.")).collect()
    }
}

#[track_caller]
fn address(added: &Answer) -> String {
    let address = added.ok()["ips"][0]["address"].as_str().unwrap();
    address.trim_end_matches("/8").to_owned()
}

/// Adds until there is no room, which then must be the reason, and leaves nothing of what is refused.
fn fill(store: &Store) -> Vec<String> {
    let mut given = BTreeSet::new();
    let mut ids = Vec::new();
    loop {
        let id = format!("pod{}", ids.len());
        let added = store.call("ADD", &id);
        if added.status != 0 {
            added.expect_refused("full", 5, &["/net/", "no space left on device"]);
            break;
        }
        assert!(given.insert(address(&added)), "twice: {added:?}");
        ids.push(id);
    }
    assert_eq!(store.reservations(), given);
    ids
}

#[test]
fn a_full_disk_gives_back_what_is_deleted() {
    for (options, least) in [
        ("nr_inodes=8", 2),
        ("nr_inodes=200", 66),
        ("nr_blocks=9", 2),
    ] {
        let Some((_disk, store)) = Store::mounted("disk-full", options) else {
            return;
        };
        let ids = fill(&store);
        assert!(ids.len() >= least, "{options}: {}", ids.len());
        for id in &ids {
            store.call("CHECK", id).ok();
        }
        store.call("DEL", &ids[0]).ok();
        store.add("again");
        let valid: Vec<&str> = ids.iter().skip(2).map(String::as_str).collect();
        store.gc(&valid).ok();
        assert_eq!(store.reservations().len(), ids.len() - 2);
        for id in &ids {
            store.call("DEL", id).ok();
        }
        assert_eq!(store.reservations(), [].into(), "{options}");
    }
}

#[test]
fn a_read_only_disk_is_said_and_nothing_is_lost_by_it() {
    let Some((disk, store)) = Store::mounted("disk-ro", "size=1M") else {
        return;
    };
    let held = store.add("held");
    disk.remount("ro");
    let says = "read-only file system";
    store
        .call("ADD", "new")
        .expect_refused("ADD", 5, &["/net/", says]);
    store
        .call("STATUS", "")
        .expect_refused("STATUS", 50, &[says]);
    let file = format!("/net/{held}: {says}");
    store.call("DEL", "held").expect_refused("DEL", 5, &[&file]);
    store.gc(&[]).expect_refused("GC", 5, &[&file]);
    // There is nothing to be done.
    store.call("CHECK", "held").ok();
    store.call("DEL", "never").ok();
    store.gc(&["held"]).ok();
    disk.remount("rw");
    assert_eq!(store.reservations(), [held].into());
    store.call("DEL", "held").ok();
    assert_eq!(store.reservations(), [].into());
}

#[test]
fn a_forbidden_folder_is_said() {
    let Some(store) = Store::new("disk-forbidden") else {
        return;
    };
    let held = store.add("held");
    // Root of no capability that lets it look anywhere, and of a folder that is another's.
    if chown(store.path(), Some(65534), None).is_err() {
        return lab::skip("no file can be given to another user");
    }
    fs::set_permissions(store.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let call = |verb, id| {
        let mut process = Command::new(lab::find_tool("setpriv").unwrap());
        process
            .arg("--bounding-set=-dac_override,-dac_read_search")
            .arg(store.node.bin.join("host-local"));
        store.call_as(process, verb, id, &[])
    };
    let says = "permission denied";
    for (verb, code) in [
        ("ADD", 5),
        ("DEL", 5),
        ("GC", 5),
        ("CHECK", 5),
        ("STATUS", 50),
    ] {
        call(verb, "held").expect_refused(verb, code, &["/net", says]);
    }
    assert_eq!(store.reservations(), [held].into());
    store.call("DEL", "held").ok();
    assert_eq!(store.reservations(), [].into());
}

#[test]
fn a_file_where_a_folder_should_be_is_said_and_stays() {
    for (label, name) in [("disk-file", "net"), ("disk-files", "")] {
        let Some(store) = Store::new(label) else {
            return;
        };
        let file = store.node.data.join(name);
        let file = PathBuf::from(file.to_str().unwrap().trim_end_matches('/'));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "precious").unwrap();
        store
            .call("ADD", "new")
            .expect_refused("ADD", 5, &["/net: "]);
        store
            .call("STATUS", "")
            .expect_refused("STATUS", 50, &["not a directory"]);
        store.call("DEL", "new").ok();
        store.gc(&[]).ok();
        assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    }
}

/// Others wait for it, and are told when it is no use to wait longer. Where nothing is to be done, no
/// lock is needed.
#[test]
fn a_lock_that_another_process_keeps() {
    let Some(store) = Store::new("disk-lock") else {
        return;
    };
    let held = store.add("held");
    let file = File::open(store.path().join("lock")).unwrap();
    let lock = Flock::lock(file, FlockArg::LockExclusive).unwrap();
    let timed = |call: &dyn Fn() -> Answer| {
        let start = Instant::now();
        (call(), start.elapsed())
    };
    let nothing: [(&str, &(dyn Fn() -> Answer + Sync)); 5] = [
        ("ADD", &|| store.call("ADD", "new")),
        ("DEL", &|| store.call("DEL", "held")),
        ("GC", &|| store.gc(&[])),
        ("", &|| store.call("DEL", "never")),
        ("", &|| store.gc(&["held"])),
    ];
    thread::scope(|scope| {
        let calls = nothing.map(|(verb, call)| (verb, scope.spawn(move || timed(call))));
        for (verb, call) in calls {
            let (answer, took) = call.join().unwrap();
            assert!(took >= DEADLINE && took < DEADLINE * 2, "{verb}: {took:?}");
            if verb.is_empty() {
                answer.ok();
            } else {
                let words = ["/net/lock is held by another process after 30s"];
                answer.expect_refused(verb, 11, &words);
            }
        }
    });
    assert_eq!(store.reservations(), [held].into());
    drop(lock);
    store.call("DEL", "held").ok();
    assert_ne!(store.add("new"), "");
}

/// Of however many others. `STORE_FILES=1000000` makes as many.
#[test]
fn files_without_number() {
    let count = std::env::var("STORE_FILES").map_or(10_000, |count| count.parse().unwrap());
    let options = format!("nr_inodes={}", count * 2 + 100);
    let Some((_disk, store)) = Store::mounted("disk-many", &options) else {
        return;
    };
    fs::create_dir(store.path()).unwrap();
    for number in 1..=count {
        let ip = std::net::Ipv4Addr::from(0x0a00_0001_u32 + number);
        fs::write(
            store.path().join(ip.to_string()),
            format!("pod{number}\r\neth0"),
        )
        .unwrap();
    }
    let next = std::net::Ipv4Addr::from(0x0a00_0002_u32 + count).to_string();
    let mut said = format!("{count} files:");
    let mut timed = |what: &str, call: &dyn Fn() -> Answer| {
        let start = Instant::now();
        let answer = call();
        said += &format!(" {what} {:.3} s,", start.elapsed().as_secs_f64());
        answer
    };
    // The first one reads all.
    let added = timed("ADD", &|| store.call("ADD", "one"));
    assert_eq!(address(&added), next);
    timed("ADD", &|| store.call("ADD", "two")).ok();
    timed("CHECK", &|| store.call("CHECK", "two")).ok();
    timed("DEL", &|| store.call("DEL", "one")).ok();
    timed("DEL", &|| store.call("DEL", "pod7")).ok();
    timed("STATUS", &|| store.call("STATUS", "")).ok();
    timed("GC", &|| store.gc(&["two", "pod8", "pod9"])).ok();
    assert_eq!(store.reservations().len(), 3);
    // Not println!, which a passing test keeps to itself.
    drop(writeln!(
        std::io::stderr(),
        "{}",
        said.trim_end_matches(',')
    ));
}
