//! GC frees what no valid attachment holds.

use std::fs;

use fs2::FileExt as _;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use serde_json::{Value, json};

use crate::network::{Answer, Network, write};

fn network() -> Network {
    Network {
        version: "1.1.0",
        ..Network::new(json!([[{ "subnet": "10.1.0.0/28" }]]))
    }
}

fn entry(id: &str, ifname: &str) -> Value {
    json!({ "containerID": id, "ifname": ifname })
}

fn gc(net: &Network, key: &str, list: Value) -> Answer {
    net.call_with("GC", "", "", &json!({ key: list }))
}

fn held(net: &Network) -> Vec<String> {
    let reservations = net.reservations().into_iter();
    reservations
        .map(|(_, holder)| holder.replace("\r\n", "/"))
        .collect()
}

#[test]
fn gc_leaves_what_is_listed_by_either_key() {
    for key in [
        "cni.dev/valid-attachments",
        "cni.dev/attachments",
        "CNI.DEV/Attachments",
    ] {
        let net = network();
        for id in ["a", "b", "c"] {
            net.call("ADD", id);
        }
        let valid = json!([
            entry("b", "eth0"),
            entry("a", "net1"),
            entry("never", "eth0")
        ]);
        gc(&net, key, valid.clone()).silent();
        assert_eq!(held(&net), ["b/eth0"], "{key}");
        gc(&net, key, valid).silent();
        assert_eq!(held(&net), ["b/eth0"], "{key}");
        // The turn goes on, and the lock is the same.
        assert_eq!(net.call("ADD", "d").addresses(), ["10.1.0.5/28"]);
        gc(&net, key, json!([])).silent();
        assert_eq!(held(&net), [""; 0], "{key}");
    }
}

#[test]
fn gc_keeps_lock_cursor_and_what_is_no_reservation() {
    let net = network();
    net.call("ADD", "a");
    let store = net.store();
    write(&store, "10.1.0.9", "legacy");
    write(&store, "10.1.0.10", "gone");
    write(&store, "10.1.0.11", "reserved by hand, for the printer");
    write(&store, "notes.txt", "gone\r\neth0");
    fs::create_dir(store.join("10.1.0.12")).unwrap();
    gc(
        &net,
        "cni.dev/valid-attachments",
        json!([entry("legacy", "net7")]),
    )
    .silent();
    let mut names: Vec<_> = fs::read_dir(&store)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let expected = [
        "10.1.0.11",
        "10.1.0.12",
        "10.1.0.9",
        "last_reserved_ip.0",
        "lock",
        "notes.txt",
    ];
    assert_eq!(names, expected);
}

#[test]
fn gc_is_refused_before_anything_is_freed() {
    let net = network();
    net.call("ADD", "a");
    let absent = net.call("GC", "");
    absent.refused(7, "GC needs \"cni.dev/valid-attachments\"");
    for bad in [
        json!({}),
        json!([entry("b", "eth0"), {"containerID": "c"}]),
        json!([null]),
    ] {
        let answer = gc(&net, "cni.dev/valid-attachments", bad.clone());
        assert!(!answer.success, "{bad}: {answer:?}");
    }
    let mut old = network();
    old.version = "1.0.0";
    assert!(!gc(&old, "cni.dev/valid-attachments", json!([])).success);
    assert_eq!(held(&net), ["a/eth0"]);
}

#[test]
fn gc_needs_nothing_of_the_configuration_but_the_store() {
    let mut net = network();
    net.call("ADD", "a");
    for ipam in [
        json!({}),
        json!({ "ranges": [[{ "subnet": "x" }]], "routes": 5 }),
    ] {
        net.call("ADD", "a");
        net.ipam = ipam;
        gc(&net, "cni.dev/valid-attachments", json!([])).silent();
        assert_eq!(held(&net), [""; 0]);
    }
    fs::remove_dir_all(net.store()).unwrap();
    gc(&net, "cni.dev/valid-attachments", json!([])).silent();
    assert!(!net.store().exists());
}

#[test]
fn gc_waits_for_the_lock() {
    let net = network();
    net.call("ADD", "a");
    let lock = fs::File::open(net.store().join("lock")).unwrap();
    lock.lock_exclusive().unwrap();
    let flags = InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK;
    let watch = Inotify::init(flags).unwrap();
    let opened = AddWatchFlags::IN_OPEN;
    watch.add_watch(&net.store().join("lock"), opened).unwrap();
    std::thread::scope(|scope| {
        let answer = scope.spawn(|| gc(&net, "cni.dev/valid-attachments", json!([])));
        // It opens the file for every try: with the second one, the first has failed.
        let mut tries = 0;
        while tries < 2 {
            assert!(!answer.is_finished(), "it did not wait");
            tries += watch.read_events().map_or(0, |events| events.len());
            std::thread::yield_now();
        }
        assert_eq!(held(&net), ["a/eth0"]);
        lock.unlock().unwrap();
        answer.join().unwrap().silent();
    });
    assert_eq!(held(&net), [""; 0]);
}

/// The machine has ended, and its pods without a DEL.
#[test]
fn a_pool_that_a_reboot_left_full_is_told_of_and_freed() {
    let net = network();
    for number in 2..=14 {
        net.call("ADD", &format!("pod{number}")).addresses();
    }
    let full = "failed to allocate for range 0: \
                no IP addresses available in range set: 10.1.0.1-10.1.0.14";
    net.call("STATUS", "").refused(50, full);
    net.call("ADD", "new").refused(102, full);
    gc(&net, "cni.dev/valid-attachments", json!([])).silent();
    net.call("STATUS", "").silent();
    assert_eq!(net.call("ADD", "new").addresses(), ["10.1.0.2/28"]);
}
