//! STATUS says whether an ADD would get its addresses.

use std::fs;
use std::net::IpAddr;

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use serde_json::json;

use crate::network::{Answer, Network, write};

/// Two pools, of five and of two addresses.
fn network() -> Network {
    Network {
        version: "1.1.0",
        ..Network::new(json!([
            [{ "subnet": "10.1.0.0/29" }],
            [{ "subnet": "fd00::/64", "rangeStart": "fd00::10", "rangeEnd": "fd00::11" }],
        ]))
    }
}

/// Code, message and details.
fn said(answer: &Answer) -> (u64, String, String) {
    let text = |key: &str| answer.stdout[key].as_str().unwrap_or_default().to_owned();
    let code = answer.stdout["code"].as_u64().unwrap();
    (code, text("msg"), text("details"))
}

#[test]
fn status_says_which_pool_is_full() {
    let net = network();
    net.call("STATUS", "").silent();
    assert!(!net.store().exists());
    for id in ["a", "b"] {
        net.call("STATUS", "").silent();
        net.call("ADD", id).addresses();
    }
    let (code, msg, details) = said(&net.call("STATUS", ""));
    assert_eq!(code, 50);
    assert_eq!(
        msg,
        "failed to allocate for range 1: no IP addresses available in range set: fd00::10-fd00::11"
    );
    let store = net.store().display().to_string();
    let used_up = "ipam.ranges[1] is used up";
    let held = format!("{used_up}: 2 of 2 addresses are held in {store}");
    assert_eq!(details, held);
    let (code, _, details) = said(&net.call("ADD", "c"));
    assert_eq!((code, details.as_str()), (102, used_up));
    net.call("DEL", "a").silent();
    net.call("STATUS", "").silent();
}

/// The reservations whose files are opened while the network's plugin is called.
fn opened(net: &Network, call: impl FnOnce()) -> Vec<String> {
    let flags = InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC;
    let watch = Inotify::init(flags).unwrap();
    let opened = AddWatchFlags::IN_OPEN;
    watch.add_watch(&net.store(), opened).unwrap();
    call();
    let events = watch.read_events().unwrap_or_default();
    let names = events.into_iter().filter_map(|event| event.name);
    let mut names: Vec<_> = names
        .map(|name| name.into_string().unwrap())
        .filter(|name| name.parse::<IpAddr>().is_ok())
        .collect();
    names.sort();
    names.dedup();
    names
}

/// It is asked every few seconds, so it must be enough to count files.
#[test]
fn status_opens_no_file_where_there_is_room() {
    let net = network();
    let added = net.call("ADD", "a");
    let by_check = opened(&net, || drop(net.call("CHECK", "a")));
    assert!(by_check.contains(&"10.1.0.2".to_owned()), "{added:?}");
    let by_status = opened(&net, || net.call("STATUS", "").silent());
    assert_eq!(by_status, [""; 0]);
}

#[test]
fn check_opens_no_file_of_another_pod() {
    let net = network();
    let added = net.call("ADD", "a").stdout;
    net.call("ADD", "b").addresses();
    let previous = json!({ "prevResult": added });
    let by_check = opened(&net, || {
        net.call_with("CHECK", "a", "", &previous).silent();
    });
    assert_eq!(by_check, ["10.1.0.2", "fd00::10"]);
}

#[test]
fn a_file_that_names_nobody_makes_no_pool_full() {
    let net = network();
    write(&net.store(), "fd00::10", "a\r\neth0");
    write(&net.store(), "fd00::11", "");
    net.call("STATUS", "").silent();
    net.call("ADD", "b").addresses();
    assert_eq!(said(&net.call("STATUS", "")).0, 50);
}

#[test]
fn status_says_what_add_would_fail_for() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let in_file = folder.path().join("file/networks");
    let mut net = network();
    let elsewhere = json!({ "ipam": {
        "type": "host-local", "ranges": [[{ "subnet": "10.1.0.0/29" }]], "dataDir": in_file,
    }});
    let (code, msg, _) = said(&net.call_with("STATUS", "", "", &elsewhere));
    assert_eq!(code, 50, "{msg}");
    assert!(msg.contains("file: not a directory"), "{msg}");
    net.ipam["resolvConf"] = json!(folder.path().join("none"));
    let (code, msg, _) = said(&net.call("STATUS", ""));
    assert_eq!(code, 50);
    assert!(msg.ends_with("none: no such file or directory"), "{msg}");
    net.ipam = json!({ "type": "host-local" });
    let (code, msg, _) = said(&net.call("STATUS", ""));
    assert_eq!((code, msg.as_str()), (7, "no IP ranges specified"));
}

#[test]
fn status_looks_at_no_arguments() {
    let net = network();
    net.call_with("STATUS", "", "IP=10.9.9.9;FOO", &json!({}))
        .silent();
}
