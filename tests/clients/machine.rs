//! The node on which clients run: what is on it is the test's own, and ends with it.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use std::fs::File;
use std::io::Seek;
use std::path::Path;

use clients::{Host, Names, SERVER, patiently};
use serde_json::json;

#[test]
fn a_node_has_folders_processes_and_a_network_of_its_own() {
    let Some(host) = Host::new("machine", &["busybox"]) else {
        return;
    };
    host.configure(&json!({ "name": "net", "plugins": [] }));
    assert_eq!(host.read("ls", &["/etc/cni/net.d"]), "net.conflist");
    let plugins = host.read("ls", &["/opt/cni/bin"]);
    for plugin in ["bridge", "portmap", "bandwidth", "host-local", "loopback"] {
        for names in Names::all() {
            let name = names.of(plugin);
            assert!(plugins.lines().any(|line| line == name), "{name}");
        }
    }
    assert_eq!(host.namespaces(), [""; 0]);
    host.read("ip", &["netns", "add", "pod"]);
    assert_eq!(host.namespaces(), ["pod"]);
    assert!(!Path::new("/run/netns/pod").exists());
    host.netns("/run/netns/pod").set_up("lo").unwrap();

    // An orphan is collected by the first process.
    host.read("sh", &["-c", "(true &) &"]);
    patiently(|| {
        let processes = host.read("sh", &["-c", "cat /proc/[0-9]*/stat"]);
        let undead = processes.lines().any(|line| line.contains(") Z "));
        if undead { Err(processes) } else { Ok(()) }
    });
}

#[test]
fn what_runs_on_a_node_ends_with_it() {
    let Some(host) = Host::new("machine", &["busybox"]) else {
        return;
    };
    let image = SERVER.write(host.folder());
    assert!(image.is_file());
    let sleeper = "sleep 1000000 >/dev/null 2>&1 & echo $!";
    let pid = host.read("sh", &["-c", sleeper]);
    // The same process, seen from outside, for as long as it is there.
    let file = host.path(&format!("/proc/{pid}/comm"));
    let mut process = File::open(file).unwrap();
    assert_eq!(std::io::read_to_string(&process).unwrap(), "sleep\n");
    process.rewind().unwrap();
    // A control group of its own, be there one tree of them or several.
    let made = "for root in /sys/fs/cgroup /sys/fs/cgroup/*; do
        test ! -e $root/cgroup.procs || { mkdir $root/mine; break; }
    done";
    host.read("sh", &["-c", made]);
    let folder = host.folder().to_owned();
    let name = folder.file_name().unwrap().to_string_lossy().into_owned();
    assert_eq!(groups(&["mine"]), [""; 0]);
    assert_eq!(groups(&[&name, "mine"]).len(), 1);
    drop(host);
    assert!(!folder.exists());
    assert_eq!(groups(&[&name]), [""; 0]);
    assert!(std::io::read_to_string(&process).is_err());
}

/// The machine's control groups of this path, in whichever tree.
fn groups(path: &[&str]) -> Vec<String> {
    let trees = std::fs::read_dir("/sys/fs/cgroup").unwrap();
    let trees = trees.map(|tree| tree.unwrap().path());
    let roots = trees.chain([Path::new("/sys/fs/cgroup").to_owned()]);
    let found = roots.map(|root| path.iter().fold(root, |folder, name| folder.join(name)));
    let found = found.filter(|group| group.is_dir());
    found.map(|group| group.display().to_string()).collect()
}
