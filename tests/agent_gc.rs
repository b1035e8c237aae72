//! `podnet agent` beside a container runtime: what crashed sandboxes have left goes, and the plugins come.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

#[path = "gc_cri/crash.rs"]
#[allow(dead_code, reason = "another test's as well")]
mod crash;
#[path = "gc_cri/fake.rs"]
#[allow(dead_code, reason = "another test's as well")]
mod fake;

use std::path::Path;
use std::process::{Child, Command};

use tests::{Agent, Api, Node, binary_folder, soon};

use crash::{Crash, NETWORK};

#[test]
fn what_crashed_sandboxes_left_goes_and_only_where_the_list_is_whole() {
    let Some(mut crash) = Crash::new("agent-gc", "1.1.0") else {
        return;
    };
    let api = Api::with_nodes(&crash.node.namespace);
    crash.add(NETWORK, "ready", "eth0");
    crash.runtime.has(&["ready"]);
    let living = crash.snapshot().reservations;
    crash.add(NETWORK, "leaked", "eth0");
    let both = crash.snapshot().reservations;
    let cache = crash.node.cache.to_string_lossy().into_owned();
    // No runtime is there: nothing is known of who lives.
    let words = ["--resync", "1", "--cache-dir", &cache, "--grace", "0"];
    let missing = [&words[..], &["--from-cri", "unix:///nowhere.sock"]].concat();
    let mut agent = Agent::start(&crash.node, &api, &missing);
    agent.says("GC failed, and is tried again");
    assert!(agent.runs());
    assert_eq!(crash.snapshot().reservations, both);
    agent.kill();
    let endpoint = crash.runtime.endpoint().to_owned();
    let found = [&words[..], &["--from-cri", &endpoint]].concat();
    let agent = Agent::start(&crash.node, &api, &found);
    soon(|| crash.snapshot().reservations == living, || agent.log());
    let line = "podnet_agent_gc_removed_total 1";
    let is_counted = || agent.get("/metrics").1.lines().any(|one| one == line);
    soon(is_counted, || agent.get("/metrics").1);
}

/// Runs what follows as in the manifest's pod: the node's root is mounted in the first folder, and those that are
/// named next, up to `--`, are the node's alone. So is the socket of the runtime.
const POD: &str = r#"
mount --rbind / "$1"
mount --bind /dev/null "$2"
shift 2
while [ "$1" != -- ]; do mount -t tmpfs tmpfs "$1"; shift; done
shift
exec "$@"
"#;

/// Those that the manifest gives, as setpriv takes them.
fn capabilities() -> String {
    let manifest = include_str!("../deploy/podnet-agent.yaml");
    let (_, added) = manifest.split_once("            add:\n").unwrap();
    let (added, _) = added.split_once("volumeMounts").unwrap();
    let added = added
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- "));
    added
        .map(|name| format!(",+{}", name.to_lowercase()))
        .collect()
}

/// The command line that does so, for a node's folders.
fn pod(node: &Node, root: &Path) -> Vec<String> {
    let socket = node.folder().join("cri.sock");
    let programs = lab::find_tool("iptables").unwrap();
    let hidden = [
        &node.configurations(),
        &node.bin,
        &node.cache,
        &node.data,
        programs.parent().unwrap(),
    ];
    let words = ["unshare", "--mount", "sh", "-ec", POD, "pod"];
    let drop = format!("--bounding-set=-all{}", capabilities());
    let places = [root, &socket].into_iter().chain(hidden);
    let places = places.map(|place| place.to_string_lossy().into_owned());
    let words = words.into_iter().map(str::to_owned).chain(places);
    let then = ["--", "setpriv", &drop].map(str::to_owned);
    words.chain(then).collect()
}

#[test]
fn in_a_pod_it_is_done_in_the_root_of_the_node() {
    let Some(mut crash) = Crash::new("agent-node-root", "1.1.0") else {
        return;
    };
    let api = Api::with_nodes(&crash.node.namespace);
    crash.add(NETWORK, "ready", "eth0");
    crash.runtime.has(&["ready"]);
    crash.add_with(NETWORK, "another", "eth0", "IgnoreUnknown=1");
    let _process = known_by_process(&crash, "another");
    let living = crash.snapshot();
    for id in ["lost", "leaked"] {
        crash.add(NETWORK, id, "eth0");
    }
    // The other's namespace is still there.
    crash.pods.pop().unwrap().remove().unwrap();
    let rules = crash.snapshot().rules;
    let root = crash.node.folder().join("root");
    std::fs::create_dir(&root).unwrap();
    let pod = pod(&crash.node, &root);
    let pod: Vec<&str> = pod.iter().map(String::as_str).collect();
    let (root, cache) = (root.to_string_lossy(), crash.node.cache.to_string_lossy());
    let endpoint = crash.runtime.endpoint();
    let words = ["--resync", "1", "--cache-dir", &cache, "--grace", "0"];
    let words = [&words[..], &["--from-cri", endpoint]].concat();
    let kubeconfig = api.kubeconfig(crash.node.folder());
    let start =
        |words: &[&str]| Agent::start_by(&crash.node, &pod, "k8sworker0", &kubeconfig, words);
    // What is to be seen in the pod itself is not the node's.
    let mut agent = start(&words);
    agent.says("GC failed, and is tried again");
    assert_eq!(crash.snapshot().rules, rules);
    agent.kill();
    let agent = start(&[&words[..], &["--node-root", &root]].concat());
    soon(|| crash.cached().len() == 2, || agent.log());
    assert_eq!(crash.snapshot(), living);
}

/// Ends with its test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Has the cache name the last pod's namespace by a process in it, as it is with nerdctl. Who has not all of that
/// process's capabilities, nor CAP_SYS_PTRACE, cannot look at that.
fn known_by_process(crash: &Crash, id: &str) -> Process {
    let pod = crash.pods.last().unwrap();
    let process = pod.spawn(Command::new("sleep").arg("1000")).unwrap();
    let file = format!("results/{NETWORK}-{id}-eth0");
    let file = crash.node.cache.join(file);
    let text = std::fs::read_to_string(&file).unwrap();
    let before = pod.path().to_string_lossy().into_owned();
    let text = text.replace(&before, &format!("/proc/{}/ns/net", process.id()));
    assert!(text.contains("/proc/"), "{text}");
    std::fs::write(file, text).unwrap();
    Process(process)
}

#[test]
fn a_root_that_cannot_be_had_is_named() {
    if lab::find_tool("setpriv").is_none() {
        lab::skip("no setpriv");
        return;
    }
    let gc = |root: &str| {
        let mut gc = Command::new("setpriv");
        gc.arg("--bounding-set=-sys_chroot")
            .arg(binary_folder().join("podnet"))
            .args(["gc", "--all", "--from-cri", "unix:///nowhere.sock"])
            .args(["--node-root", root]);
        let gc = gc.output().unwrap();
        let said = String::from_utf8(gc.stderr).unwrap();
        (gc.status.code(), said)
    };
    for (root, why) in [
        ("/nowhere", "expected a folder that is there"),
        (
            "/",
            "it cannot be made the root, which needs CAP_SYS_CHROOT: Operation not permitted",
        ),
    ] {
        let expected = format!("podnet: --node-root {root:?}: {why}\n");
        assert_eq!(gc(root), (Some(2), expected));
    }
}

#[test]
fn the_plugins_are_installed_and_put_back_when_they_are_lost() {
    let Some(crash) = Crash::new("agent-install", "1.1.0") else {
        return;
    };
    let api = Api::with_nodes(&crash.node.namespace);
    let to = crash.node.folder().join("installed");
    let from = crash.node.bin.to_string_lossy().into_owned();
    let path = to.to_string_lossy().into_owned();
    let words = [
        "--cni-path",
        &path,
        "--install-from",
        &from,
        "--resync",
        "1",
    ];
    let agent = Agent::start(&crash.node, &api, &words);
    let plugin = to.join("bridge-lite");
    soon(|| plugin.is_file(), || agent.log());
    // Runtimes run it by that name.
    assert!(to.join("loopback").is_file());
    std::fs::remove_file(&plugin).unwrap();
    soon(|| plugin.is_file(), || agent.log());
}
