//! An ADD whose address cannot be had leaves everything as it was, and says why; so does one whose
//! IPAM plugin answers what it must not.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use tests::{Mounted, World, with, write_script};

/// The bridge's configuration with keys of its `ipam` replaced.
fn with_ipam(world: &World, keys: &Value) -> Value {
    let config = world.configs().swap_remove(0);
    let keys = keys.as_object().unwrap();
    let ipam = keys
        .iter()
        .fold(config["ipam"].clone(), |ipam, (key, value)| {
            with(&ipam, key, value)
        });
    with(&config, "ipam", &ipam)
}

/// Asks bridge and IPAM for the same; both must refuse with the same words and change nothing.
#[track_caller]
fn refuse(world: &World, config: &Value, env: &[(&str, &str)], code: u64, words: &[&str]) {
    let case = format!("{} {env:?}", config["ipam"]);
    let pod = world.node.pod("pod");
    for plugin in ["host-local", "bridge"] {
        let answer = world.node.call(plugin, "ADD", &pod, config, env);
        answer.expect_refused(&format!("{plugin}: {case}"), code, words);
        world.expect_bare(&case, &pod);
        world.expect_untouched(&case);
    }
    pod.namespace.remove().unwrap();
}

#[test]
fn an_address_that_cannot_be_given() {
    for world in World::of_each_family("refused-ip") {
        let other = tests::address(&world.other_result).to_string();
        let asked = |ip: &str| format!("IP={ip};IgnoreUnknown=1");
        let full = json!({ "rangeStart": other, "rangeEnd": other });
        let none_left = format!("no IP addresses available in range set: {other}-{other}");
        refuse(&world, &with_ipam(&world, &full), &[], 102, &[&none_left]);

        let plain = with_ipam(&world, &json!({}));
        let args = |ip: &str, words: &[&str]| {
            refuse(&world, &plain, &[("CNI_ARGS", &asked(ip))], 102, words);
            let runtime = json!({ "ips": [format!("{ip}/24")] });
            let config = with(&plain, "runtimeConfig", &runtime);
            refuse(&world, &config, &[], 102, words);
            let config = with(&plain, "args", &json!({ "cni": { "ips": [ip] } }));
            refuse(&world, &config, &[], 102, words);
        };
        let gateway = &world.family().expand("$GATEWAY");
        let taken =
            format!("requested IP address {other} is not available in range set {gateway}-");
        args(&other, &[&taken, "container \"other\""]);
        let says = format!("requested ip {gateway} is subnet's gateway");
        args(gateway, &[&says]);
        let far = world.family().pick("10.9.0.9", "fd09::9");
        let says = format!("failed to allocate all requested IPs: {far}");
        args(far, &[&says]);

        let invalid = [("CNI_ARGS", "IP=nowhere;IgnoreUnknown=1")];
        refuse(&world, &plain, &invalid, 4, &["CNI_ARGS", "nowhere"]);
    }
}

#[test]
fn ranges_that_are_none() {
    let Some(world) = World::new("refused-range") else {
        return;
    };
    let table: [(Value, u64, &[&str]); 9] = [
        (
            json!({ "subnet": null }),
            7,
            &["no IP ranges specified", "ranges", "subnet"],
        ),
        (
            json!({ "subnet": "10.1.0.0/99" }),
            7,
            &["invalid CIDR address: 10.1.0.0/99", "subnet"],
        ),
        (json!({ "subnet": 5 }), 6, &["subnet", "5"]),
        (
            json!({ "subnet": "10.1.0.0/31" }),
            7,
            &["Network 10.1.0.0/31 too small to allocate from"],
        ),
        (
            json!({ "subnet": "10.1.0.1/24" }),
            7,
            &["Network has host bits set", "10.1.0.0"],
        ),
        (
            json!({ "rangeStart": "10.9.0.1" }),
            7,
            &["RangeStart 10.9.0.1 not in network 10.244.0.0/24"],
        ),
        (
            json!({ "ranges": [[{ "subnet": "10.244.0.128/25" }]] }),
            7,
            &["range set 0 overlaps with 1"],
        ),
        (
            json!({ "ranges": [[]] }),
            7,
            &["invalid range set 1: empty range set"],
        ),
        (
            json!({ "resolvConf": "/does/not/exist" }),
            5,
            &["open /does/not/exist: no such file or directory"],
        ),
    ];
    for (keys, code, words) in &table {
        refuse(&world, &with_ipam(&world, keys), &[], *code, words);
    }
}

/// The second address of the network of everything is the loopback's.
#[test]
fn a_gateway_that_no_bridge_can_have() {
    let Some(world) = World::new("refused-gateway") else {
        return;
    };
    let pod = world.node.pod("pod");
    let ipam = with_ipam(
        &world,
        &json!({ "subnet": "::/0", "rangeStart": "fd00::2", "routes": null }),
    );
    let answer = world.node.call("bridge", "ADD", &pod, &ipam, &[]);
    let words = [
        "no bridge can have gateway ::1 of address fd00::2/0",
        "isGateway is true",
    ];
    answer.expect_refused("::/0", 7, &words);
    world.expect_bare("::/0", &pod);
    world.expect_untouched("::/0");
}

/// A store that cannot be made, and one on a file system without room.
#[test]
fn a_store_that_takes_no_reservation() {
    let Some(world) = World::new("refused-store") else {
        return;
    };
    let nowhere = with_ipam(&world, &json!({ "dataDir": "/proc/sys" }));
    refuse(&world, &nowhere, &[], 5, &["/proc/sys/k8nd-pod-network"]);

    let full = Mounted::at(world.node.folder().join("full"), "nr_inodes=3,size=4k");
    let name = full.0.display().to_string();
    let config = with_ipam(&world, &json!({ "dataDir": full.0 }));
    let store = full.0.join("k8nd-pod-network");
    std::fs::create_dir(&store).unwrap();
    std::fs::write(store.join("lock"), "").unwrap();
    refuse(&world, &config, &[], 5, &[&name, "no space left on device"]);
    let files = std::fs::read_dir(&store).unwrap();
    let names: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
    assert_eq!(names, ["lock"]);

    // Room for a file, and for nothing in it.
    let full = Mounted::at(world.node.folder().join("page"), "nr_blocks=1");
    std::fs::write(full.0.join("blob"), [1; 100]).unwrap();
    let config = with_ipam(&world, &json!({ "dataDir": full.0 }));
    let name = full.0.display().to_string();
    refuse(&world, &config, &[], 5, &[&name, "no space left on device"]);
    let files = std::fs::read_dir(full.0.join("k8nd-pod-network")).unwrap();
    let names: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
    assert_eq!(names, ["lock"]);
}

/// An IPAM that reserves an address and then answers what it must not.
#[test]
fn an_answer_that_is_none() {
    let Some(world) = World::new("refused-answer") else {
        return;
    };
    let nothing = ["missing IP config"];
    let table: [(&str, u64, &[&str]); 11] = [
        ("echo garbage", 6, &[]),
        ("echo '{\"cniVersion\": \"1.0.0\", \"ips\": ['", 6, &[]),
        (":", 6, &[]),
        ("echo '{}'", 7, &nothing),
        (
            "echo '{\"cniVersion\": \"1.0.0\", \"ips\": []}'",
            7,
            &nothing,
        ),
        (
            "echo '{\"ips\": [{\"address\": \"nowhere\"}]}'",
            6,
            &["nowhere"],
        ),
        ("echo '{\"ips\": \"x\"}'", 6, &["ips"]),
        (
            "echo '{\"cniVersion\": \"9.9.9\", \"ips\": [{\"address\": \"10.244.0.9/24\"}]}'",
            6,
            &["9.9.9"],
        ),
        (
            "echo '{\"code\": 142, \"msg\": \"no more\", \"details\": \"ask later\"}'; exit 1",
            142,
            &["no more", "ask later"],
        ),
        (
            "exit 3",
            100,
            &["netplugin failed with no error message", "3"],
        ),
        ("kill -9 $$", 100, &["netplugin failed", "9"]),
    ];
    let real = world.node.bin.join("host-local");
    for (number, (answer, code, words)) in table.iter().enumerate() {
        let kind = format!("ipam{number}");
        let text = format!(
            "#!/bin/sh\n[ $CNI_COMMAND = ADD ] || exec {real}\n{real} > /dev/null\n{answer}\n",
            real = real.display()
        );
        write_script(&world.node.bin.join(&kind), &text);
        let config = with_ipam(&world, &json!({ "type": kind }));
        let pod = world.node.pod("pod");
        let refused = world.node.call("bridge", "ADD", &pod, &config, &[]);
        refused.expect_refused(answer, *code, words);
        world.expect_bare(answer, &pod);
        world.expect_untouched(answer);
        pod.namespace.remove().unwrap();
    }
}
