//! DEL where what all pods share, or the place of the reservations, is lost.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;
use tests::{Node, World, address, failures};

#[test]
fn the_store_is_gone() {
    for world in World::of_each_family("lost-store") {
        let store = world.node.data.join(&world.list.name);
        let aside = world.node.folder().join("aside");
        type Place = fn(&Path);
        let places: [(&str, Place); 4] = [
            ("nothing", |_| {}),
            ("an empty folder", |path| fs::create_dir(path).unwrap()),
            ("a plain file", |path| fs::write(path, "").unwrap()),
            ("a folder whose lock is a folder", |path| {
                fs::create_dir_all(path.join("lock")).unwrap();
            }),
        ];
        for (number, (case, make)) in places.iter().enumerate() {
            let (pod, configs) = world.pod(&format!("pod{number}"));
            let reservation = address(&configs[0]["prevResult"]).to_string();
            fs::rename(&store, &aside).unwrap();
            make(&store);
            world.del(case, &configs, &pod, &[]);
            world.expect_bare(case, &pod);
            let _ = fs::remove_file(&store);
            let _ = fs::remove_dir_all(&store);
            fs::rename(&aside, &store).unwrap();
            fs::remove_file(store.join(reservation)).unwrap();
            world.expect_untouched(case);
        }
    }
}

/// Nothing can be removed from it: all else goes, the error names the address, and DEL succeeds
/// when it can be written again.
#[test]
fn the_store_cannot_be_written() {
    for world in World::of_each_family("lost-write") {
        let (pod, configs) = world.pod("pod");
        let store = world.node.data.join(&world.list.name);
        let file = store.join(address(&configs[0]["prevResult"]).to_string());
        mount(&["--bind"], &store, &store);
        mount(&["-o", "remount,bind,ro"], &store, &store);
        let answers = world.node.del_each(&configs, &pod, &[]);
        let left = world.left();
        unmount(&store);

        let failed = failures(&answers);
        assert_eq!(failed.len(), 1, "{answers:?}");
        let file = file.display().to_string();
        failed[0].expect_refused("read-only", 5, &[&file, "read-only file system"]);
        world.expect_bare("read-only", &pod);
        assert_eq!(left.reservations.len(), 1, "{left}");
        let rest = left.filter(|line| !line.ends_with(" pod eth0"));
        assert!(rest.is_empty(), "left:\n{rest}");

        world.del("written again", &configs, &pod, &[]);
        world.expect_untouched("written again");
    }
}

#[test]
fn the_bridge_is_deleted() {
    let Some(node) = Node::new("lost-bridge") else {
        return;
    };
    let list = node.conflist("20-dual-stack.conflist");
    let asked = json!({
        "portMappings": [{ "hostPort": 8080, "containerPort": 80, "protocol": "tcp" }],
        "bandwidth": { "egressRate": 8_000_000, "egressBurst": 800_000 }
    });
    let ip = |words: &[&str]| node.namespace.read("ip", words).unwrap();
    // What all pods share comes with the first.
    let first = node.pod("first");
    node.add(&list, &first, asked.clone()).unwrap();
    node.del(&list, &first).unwrap();
    ip(&["link", "del", "cni0"]);
    let before = node.snapshot(&list.name);
    for (case, again) in [("deleted", false), ("made-by-another", true)] {
        let pod = node.pod(case);
        node.add(&list, &pod, asked.clone()).unwrap();
        ip(&["link", "del", "cni0"]);
        if again {
            ip(&["link", "add", "cni0", "type", "bridge"]);
        }
        node.del(&list, &pod).unwrap();
        let left = node.snapshot(&list.name).since(&before);
        let left = left.filter(|line| !line.starts_with("cni0 bridge "));
        assert!(left.is_empty(), "{case}: left:\n{left}");
    }
}

fn mount(options: &[&str], from: &Path, to: &Path) {
    let status = Command::new("mount")
        .args(options)
        .arg(from)
        .arg(to)
        .status();
    assert!(status.unwrap().success(), "mount {options:?}");
}

fn unmount(folder: &Path) {
    let status = Command::new("umount").arg(folder).status();
    assert!(status.unwrap().success());
}
