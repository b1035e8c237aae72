//! The plugin from outside, started as a runtime starts it. Needs no privileges.
#![allow(
    clippy::unwrap_used,
    reason = "clippy knows only functions marked #[test], not their helpers"
)]

mod gc;
mod network;
mod status;

use std::collections::BTreeSet;
use std::fs;

use network::{Answer, Network, spawn, write};
use serde_json::json;

#[test]
fn add_check_del() {
    let mut net = Network::new(json!([
        [{ "subnet": "10.1.0.0/24" }],
        [{ "subnet": "2001:DB8::/64", "gateway": "2001:db8::ff" }],
    ]));
    net.ipam["routes"] =
        json!([{ "dst": "0.0.0.0/0" }, { "dst": "10.9.0.0/16", "gw": "10.1.0.9" }]);
    let resolv_conf = net.folder.path().join("resolv.conf");
    fs::write(&resolv_conf, "nameserver 10.0.0.53\nsearch a.example\n").unwrap();
    net.ipam["resolvConf"] = json!(resolv_conf);
    let added = net.call("ADD", "abc");
    assert_eq!(
        added.stdout,
        json!({
            "cniVersion": "1.0.0",
            "ips": [
                { "address": "10.1.0.2/24", "gateway": "10.1.0.1" },
                { "address": "2001:db8::1/64", "gateway": "2001:db8::ff" },
            ],
            "routes": [{ "dst": "0.0.0.0/0" }, { "dst": "10.9.0.0/16", "gw": "10.1.0.9" }],
            "dns": { "nameservers": ["10.0.0.53"], "search": ["a.example"] },
        })
    );
    let ours = |ip: &str| (ip.to_string(), "abc\r\neth0".to_string());
    assert_eq!(net.reservations(), [ours("10.1.0.2"), ours("2001:db8::1")]);
    net.call_with("CHECK", "abc", "", &json!({ "prevResult": added.stdout }))
        .silent();
    net.call("CHECK", "abc").silent();
    net.call("DEL", "abc").silent();
    assert_eq!(net.reservations(), []);
    let kept = fs::read_to_string(net.store().join("last_reserved_ip.0")).unwrap();
    assert_eq!(kept, "10.1.0.2");
}

#[test]
fn every_version_is_answered_in_its_shape() {
    for version in [
        "0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0",
    ] {
        let mut net =
            Network::new(json!([[{ "subnet": "10.1.0.0/24" }], [{ "subnet": "fd00::/64" }]]));
        net.version = version;
        let added = net.call("ADD", "abc").stdout;
        assert_eq!(added["cniVersion"], version);
        match version {
            "0.1.0" | "0.2.0" => {
                assert_eq!(added["ip4"]["ip"], "10.1.0.2/24");
                assert_eq!(added["ip6"]["ip"], "fd00::2/64");
            }
            _ => assert_eq!(added["ips"][1]["address"], "fd00::2/64"),
        }
        net.call("DEL", "abc").silent();
    }
}

#[test]
fn requested_addresses_from_all_sources() {
    let net = Network::new(json!([[{ "subnet": "10.1.0.0/24" }]]));
    let none = json!({});
    let given = net.call_with(
        "ADD",
        "a",
        "IgnoreUnknown=1;K8S_POD_NAME=p;IP=10.1.0.50/16",
        &none,
    );
    assert_eq!(given.addresses(), ["10.1.0.50/24"]);
    let args = json!({ "args": { "cni": { "ips": ["10.1.0.60"] } } });
    assert_eq!(
        net.call_with("ADD", "b", "", &args).addresses(),
        ["10.1.0.60/24"]
    );
    let runtime = json!({ "runtimeConfig": { "ips": ["10.1.0.70/24"] } });
    assert_eq!(
        net.call_with("ADD", "c", "", &runtime).addresses(),
        ["10.1.0.70/24"]
    );
    // A requested address moves the cursor, as any other.
    assert_eq!(net.call("ADD", "d").addresses(), ["10.1.0.71/24"]);
    let ranges = json!({ "runtimeConfig": { "ipRanges": [[{ "subnet": "10.2.0.0/24" }]] } });
    assert_eq!(
        net.call_with("ADD", "e", "", &ranges).addresses(),
        ["10.2.0.2/24", "10.1.0.2/24"]
    );
}

#[test]
fn requested_addresses_that_cannot_be_given() {
    let net = Network::new(json!([[{ "subnet": "10.1.0.0/24" }]]));
    net.call_with("ADD", "owner", "IP=10.1.0.50", &json!({}))
        .addresses();
    let before = net.reservations();
    let refused = |ip: &str| net.call_with("ADD", "b", &format!("IP={ip}"), &json!({}));
    let taken = refused("10.1.0.50");
    taken.refused(
        102,
        "failed to allocate for range 0: requested IP address 10.1.0.50 is not available \
         in range set 10.1.0.1-10.1.0.254",
    );
    assert_eq!(
        taken.stdout["details"],
        r#"reserved by container "owner", interface "eth0""#
    );
    refused("10.1.0.1").refused(
        102,
        "failed to allocate for range 0: requested ip 10.1.0.1 is subnet's gateway",
    );
    refused("10.9.0.1").refused(102, "failed to allocate all requested IPs: 10.9.0.1");
    assert_eq!(net.reservations(), before);
    let cursor = fs::read_to_string(net.store().join("last_reserved_ip.0")).unwrap();
    assert_eq!(cursor, "10.1.0.50");
}

/// Also where several ranges are of one subnet.
#[test]
fn an_address_of_any_range_of_a_set_can_be_asked_for() {
    let range = |start: &str, end: &str| json!({ "subnet": "10.1.0.0/24", "rangeStart": start, "rangeEnd": end });
    let net = Network::new(json!([[
        range("10.1.0.10", "10.1.0.19"),
        range("10.1.0.50", "10.1.0.59"),
        range("10.1.0.90", "10.1.0.99"),
    ]]));
    let ask = |id: &str, ip: &str| net.call_with("ADD", id, &format!("IP={ip}"), &json!({}));
    assert_eq!(ask("a", "10.1.0.95").addresses(), ["10.1.0.95/24"]);
    // What an ADD without a DEL left is told by its owner.
    write(&net.store(), "10.1.0.97", "left\r\neth0");
    let taken = ask("b", "10.1.0.97");
    taken.refused(
        102,
        "failed to allocate for range 0: requested IP address 10.1.0.97 is not available \
         in range set 10.1.0.10-10.1.0.19,10.1.0.50-10.1.0.59,10.1.0.90-10.1.0.99",
    );
    assert_eq!(
        taken.stdout["details"],
        r#"reserved by container "left", interface "eth0""#
    );
    // Nor is it given to its owner a second time: a pod may still have it.
    let again = ask("left", "10.1.0.97");
    assert_eq!(again.stdout["msg"], taken.stdout["msg"]);
    net.call("DEL", "left").silent();
    assert_eq!(ask("b", "10.1.0.97").addresses(), ["10.1.0.97/24"]);
}

#[test]
fn a_repeated_add_changes_nothing() {
    let net = Network::new(json!([[{ "subnet": "10.1.0.0/24" }]]));
    net.call("ADD", "abc").addresses();
    let before = net.reservations();
    net.call("ADD", "abc").refused(
        103,
        "failed to allocate for range 0: 10.1.0.2 has been allocated to abc, \
         duplicate allocation is not allowed",
    );
    assert_eq!(net.reservations(), before);
}

#[test]
fn a_pool_is_used_up_and_comes_back() {
    let net = Network::new(json!([[{ "subnet": "10.1.0.0/29" }]]));
    for i in 2..=6 {
        assert_eq!(
            net.call("ADD", &format!("c{i}")).addresses(),
            [format!("10.1.0.{i}/29")]
        );
    }
    let full = "failed to allocate for range 0: \
                no IP addresses available in range set: 10.1.0.1-10.1.0.6";
    net.call("ADD", "more").refused(102, full);
    net.call("DEL", "c4").silent();
    assert_eq!(net.call("ADD", "more").addresses(), ["10.1.0.4/29"]);
}

#[test]
fn a_second_set_that_is_full_costs_nothing_of_the_first() {
    let net = Network::new(json!([
        [{ "subnet": "10.1.0.0/24" }],
        [{ "subnet": "10.2.0.0/30", "rangeStart": "10.2.0.1", "rangeEnd": "10.2.0.1" }],
    ]));
    net.call("ADD", "abc").refused(
        102,
        "failed to allocate for range 1: \
         no IP addresses available in range set: 10.2.0.1-10.2.0.1",
    );
    assert_eq!(net.reservations(), []);
    assert!(!net.store().join("last_reserved_ip.0").exists());
}

#[test]
fn thirty_two_at_once_get_thirty_two_addresses() {
    let net = Network::new(json!([[{ "subnet": "10.1.0.0/24" }], [{ "subnet": "fd00::/64" }]]));
    let config = net.config(&json!({})).to_string();
    let all = |command: &str| -> Vec<Answer> {
        let ids = (0..32).map(|i| format!("c{i}"));
        let children: Vec<_> = ids.map(|id| spawn(command, &id, "", &config)).collect();
        children
            .into_iter()
            .map(|child| Answer::of(&child.wait_with_output().unwrap()))
            .collect()
    };
    let added = all("ADD");
    let distinct: BTreeSet<&str> = added.iter().flat_map(Answer::addresses).collect();
    assert_eq!((distinct.len(), net.reservations().len()), (64, 64));
    all("DEL").iter().for_each(Answer::silent);
    assert_eq!(net.reservations(), []);
}

#[test]
fn del_needs_no_ranges() {
    for ipam in [
        json!({ "type": "host-local" }),
        json!({ "subnet": 5, "ranges": "x", "routes": [{}], "resolvConf": "/does/not/exist" }),
        json!({ "ranges": [[{ "subnet": "10.1.0.0/31" }]] }),
    ] {
        let mut net = Network::new(json!([[{ "subnet": "10.1.0.0/24" }]]));
        net.call("ADD", "abc").addresses();
        net.ipam = ipam;
        net.call_with(
            "DEL",
            "abc",
            "x;y==;",
            &json!({ "prevResult": 7, "args": [] }),
        )
        .silent();
        assert_eq!(net.reservations(), []);
    }
}

#[test]
fn where_nothing_can_be_there_is_nothing_to_free() {
    let folder = tempfile::tempdir().unwrap();
    let circle = folder.path().join("circle");
    std::os::unix::fs::symlink(&circle, &circle).unwrap();
    let net = Network::new(json!([[{ "subnet": "10.1.0.0/24" }]]));
    let with_data_dir = |data_dir: serde_json::Value| {
        let mut ipam = net.ipam.clone();
        ipam["dataDir"] = data_dir;
        json!({ "ipam": ipam })
    };
    for (more, code) in [
        (json!({ "name": "n".repeat(300) }), 7),
        (with_data_dir(json!("/a\0b")), 7),
        (with_data_dir(json!(format!("/{}", "d".repeat(300)))), 7),
        (with_data_dir(json!("/d".repeat(3000))), 7),
        (with_data_dir(json!(circle)), 5),
    ] {
        net.call_with("DEL", "abc", "", &more).silent();
        let refused = net.call_with("ADD", "abc", "", &more);
        assert_eq!(refused.stdout["code"], code, "{refused:?}");
    }
    assert!(!net.store().exists());
}

#[test]
fn del_again_and_of_what_never_was() {
    let net = Network::new(json!([[{ "subnet": "10.1.0.0/24" }]]));
    net.call("DEL", "abc").silent();
    assert!(!net.store().exists());
    net.call("ADD", "other").addresses();
    net.call("ADD", "abc").addresses();
    net.call("DEL", "abc").silent();
    net.call("DEL", "abc").silent();
    assert_eq!(
        net.reservations(),
        [("10.1.0.2".to_string(), "other\r\neth0".to_string())]
    );
}

#[test]
fn del_of_one_interface_keeps_the_other() {
    let net = Network::new(json!([[{ "subnet": "10.1.0.0/24" }]]));
    write(&net.store(), "10.1.0.5", "abc\r\neth1");
    write(&net.store(), "10.1.0.6", "abc\r\neth0");
    net.call("DEL", "abc").silent();
    assert_eq!(
        net.reservations(),
        [("10.1.0.5".to_string(), "abc\r\neth1".to_string())]
    );
}

#[test]
fn the_oldest_format_is_honoured() {
    let net = Network::new(json!([[{ "subnet": "10.1.0.0/24" }]]));
    write(&net.store(), "10.1.0.2", "abc\n");
    write(&net.store(), "10.1.0.3", "other");
    net.call("CHECK", "abc").silent();
    net.call("ADD", "abc").refused(
        103,
        "failed to allocate for range 0: 10.1.0.2 has been allocated to abc, \
         duplicate allocation is not allowed",
    );
    assert_eq!(net.call("ADD", "new").addresses(), ["10.1.0.4/24"]);
    net.call("DEL", "abc").silent();
    net.call("DEL", "new").silent();
    assert_eq!(
        net.reservations(),
        [("10.1.0.3".to_string(), "other".to_string())]
    );
}

#[test]
fn check_notices_what_is_gone_or_anothers() {
    let net = Network::new(json!([[{ "subnet": "10.1.0.0/24" }], [{ "subnet": "fd00::/64" }]]));
    let missing = "host-local: Failed to find address added by container abc";
    net.call("CHECK", "abc").refused(101, missing);
    let added = json!({ "prevResult": net.call("ADD", "abc").stdout });
    let checks =
        || [json!({}), added.clone()].map(|previous| net.call_with("CHECK", "abc", "", &previous));
    checks().iter().for_each(Answer::silent);
    write(&net.store(), "fd00::2", "abc\r\neth1");
    checks()
        .iter()
        .for_each(|answer| answer.refused(101, missing));
    fs::remove_file(net.store().join("fd00::2")).unwrap();
    checks()
        .iter()
        .for_each(|answer| answer.refused(101, missing));
    // Another address of ours is not the one that the pod has.
    write(&net.store(), "fd00::3", "abc\r\neth0");
    net.call("CHECK", "abc").silent();
    net.call_with("CHECK", "abc", "", &added)
        .refused(101, missing);
    // Addresses that are of no range of ours are other plugins' matter.
    let mut foreign = json!({ "prevResult": { "ips": [
        { "address": "10.1.0.2/24" }, { "address": "fd00::3/64" }, { "address": "192.168.0.5/24" },
    ] } });
    net.call_with("CHECK", "abc", "", &foreign).silent();
    foreign["prevResult"]["ips"][0]["address"] = json!("10.1.0.9/24");
    net.call_with("CHECK", "abc", "", &foreign)
        .refused(101, missing);
}

#[test]
fn a_bad_configuration_is_refused_before_anything_is_made() {
    let mut net = Network::new(json!([[{ "subnet": "10.1.2.3/24" }]]));
    net.call("ADD", "abc").refused(
        7,
        "invalid range set 0: Network has host bits set. \
         For a subnet mask of length 24 the network address is 10.1.2.0",
    );
    net.ipam = json!({ "subnet": "10.1.0.0/24", "resolvConf": "/does/not/exist" });
    net.call("ADD", "abc")
        .refused(5, "open /does/not/exist: no such file or directory");
    net.ipam = json!({ "subnet": ["10.1.0.0/24"] });
    assert_eq!(net.call("ADD", "abc").stdout["code"], 6);
    assert!(!net.store().exists());
}

/// Out of the range, of the other family, too long, or none.
#[test]
fn the_address_given_last_is_a_hint_and_no_more() {
    let net = Network::new(json!([[{ "subnet": "10.1.0.0/29" }]]));
    for (round, last) in [
        "10.1.0.0",
        "10.1.0.7",
        "10.9.9.9",
        "0.0.0.0",
        "255.255.255.255",
        "fd00::2",
        "10.1.0.2.100.200",
        "10.1.0.2\0\0\0",
        "",
        &"1".repeat(100_000),
    ]
    .iter()
    .enumerate()
    {
        write(&net.store(), "last_reserved_ip.0", last);
        let id = format!("c{round}");
        assert_eq!(net.call("ADD", &id).addresses(), ["10.1.0.2/29"], "{last}");
        let now = fs::read_to_string(net.store().join("last_reserved_ip.0")).unwrap();
        assert_eq!(now, "10.1.0.2");
        net.call("DEL", &id).silent();
    }
}

#[test]
fn junk_in_the_store_disturbs_nothing() {
    let net = Network::new(json!([[{ "subnet": "10.1.0.0/24" }]]));
    let store = net.store();
    write(&store.join("folder"), "10.1.0.9", "abc\r\neth0");
    write(&store.join("10.1.0.2"), "file", "x");
    write(&store, "10.1.0.3", "");
    write(&store, "last_reserved_ip.0", "\0\0\0");
    fs::write(store.join("binary"), b"\xff\xfe\0").unwrap();
    assert_eq!(net.call("ADD", "abc").addresses(), ["10.1.0.3/24"]);
    net.call("CHECK", "abc").silent();
    net.call("DEL", "abc").silent();
    assert_eq!(net.reservations(), []);
    assert!(store.join("folder/10.1.0.9").exists() && store.join("10.1.0.2/file").exists());
}
