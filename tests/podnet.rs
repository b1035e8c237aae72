//! `podnet` as a person calls it, over the real chain.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use std::fs;
use std::io::Read as _;
use std::process::{Child, ChildStdout, Command, Stdio};

use lab::{Namespace, Snapshot};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tests::{Answer, Node, address, binary_folder, with};

/// The network of `conf/10-k8nd.conflist`.
const NETWORK: &str = "k8nd-pod-network";

/// A node with the network's configuration in a folder, which a pod has used already.
struct Desk {
    node: Node,
    pod: Namespace,
    before: Snapshot,
}

impl Desk {
    fn new() -> Option<Desk> {
        let node = Node::new("podnet")?;
        let folder = node.folder().join("net.d");
        fs::create_dir(&folder).unwrap();
        let list = node.conflist("10-k8nd.conflist");
        fs::write(folder.join("10-k8nd.conflist"), &list.raw).unwrap();
        node.outside();
        let desk = Desk {
            pod: node.namespace("blue"),
            before: Snapshot::default(),
            node,
        };
        let port = ["--port", "7080:80"];
        desk.run(&[&["add"], &desk.target()[..], &port].concat(), &[])
            .ok();
        desk.run(&[&["del"], &desk.target()[..]].concat(), &[]).ok();
        let before = desk.node.snapshot(NETWORK);
        Some(Desk { before, ..desk })
    }

    /// NETWORK and NETNS.
    fn target(&self) -> [&str; 2] {
        [NETWORK, self.pod.path().to_str().unwrap()]
    }

    /// A call on the node, with the environment that cnitool knows.
    fn run(&self, words: &[&str], env: &[(&str, &str)]) -> Answer {
        let mut podnet = Command::new(binary_folder().join("podnet"));
        podnet
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("CNI_PATH", &self.node.bin)
            .env("NETCONFPATH", self.node.folder().join("net.d"))
            .envs(env.iter().copied())
            .args(words)
            .arg("--cache-dir")
            .arg(&self.node.cache);
        self.node.namespace.output(&mut podnet, b"").unwrap().into()
    }

    /// A verb for the pod.
    fn call(&self, verb: &str, options: &[&str], env: &[(&str, &str)]) -> Answer {
        self.run(&[&[verb], &self.target()[..], options].concat(), env)
    }

    /// The names of the cached results.
    fn cached(&self) -> Vec<String> {
        let entries = fs::read_dir(self.node.cache.join("results"));
        let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        entries
            .into_iter()
            .flatten()
            .map(Result::unwrap)
            .map(name)
            .collect()
    }

    #[track_caller]
    fn expect_clean(&self) {
        assert_eq!(self.node.snapshot(NETWORK), self.before);
        assert_eq!(self.cached(), [""; 0]);
    }
}

#[test]
fn everything_by_the_environment() {
    let Some(desk) = Desk::new() else { return };
    let given = json!({
        "portMappings": [{ "hostPort": 8080, "containerPort": 80, "protocol": "tcp" }]
    });
    let given = given.to_string();
    let env = [
        ("CAP_ARGS", given.as_str()),
        ("CNI_ARGS", "IgnoreUnknown=1;IP=10.244.0.77"),
        ("CNI_IFNAME", "net0"),
    ];
    let added = desk.call("add", &[], &env);
    let result = added.ok();
    assert_eq!(result["cniVersion"], "1.0.0");
    assert_eq!(result["ips"][0]["address"], "10.244.0.77/24");
    assert_eq!(result["interfaces"][2]["name"], "net0");
    let cached = desk.cached();
    assert_eq!(cached.len(), 1);
    let named = cached[0].starts_with(&format!("{NETWORK}-cnitool-"));
    assert!(named && cached[0].ends_with("-net0"), "{cached:?}");

    let _server = desk.pod.serve_tcp((address(result), 80).into()).unwrap();
    let seen = desk.node.namespace.ask_tcp(([192, 0, 2, 10], 8080).into());
    assert_eq!(seen.unwrap().local.ip(), address(result));

    // From then on the cache knows.
    let ifname = [("CNI_IFNAME", "net0")];
    assert_eq!(desk.call("check", &[], &ifname).stdout, "");
    desk.call("check", &[], &ifname).ok();
    assert_eq!(desk.call("del", &[], &ifname).status, 0);
    desk.expect_clean();
}

#[test]
fn everything_by_options() {
    let Some(desk) = Desk::new() else { return };
    let file = desk.node.folder().join("net.d/10-k8nd.conflist");
    let options = [
        "--conf",
        file.to_str().unwrap(),
        "--container-id",
        "web-0",
        "--ifname",
        "eth7",
        "--port",
        "8080:80/tcp",
        "--port",
        "192.0.2.10:8053:53/udp",
        "--port",
        "8081:81",
        "--ingress",
        "10M",
        "--egress",
        "20M",
        "--output",
        "table",
    ];
    let added = desk.call("add", &options, &[("NETCONFPATH", "/nowhere")]);
    assert_eq!((added.status, added.stderr.as_str()), (0, ""), "{added:?}");
    for column in [
        "INTERFACE ",
        "ADDRESS ",
        "GATEWAY ",
        "ROUTE ",
        "cni0 ",
        "eth7 ",
        "10.244.0.1 ",
    ] {
        assert!(added.stdout.contains(column), "{column}: {}", added.stdout);
    }
    assert_eq!(desk.cached(), [format!("{NETWORK}-web-0-eth7")]);

    let made = desk.node.snapshot(NETWORK).since(&desk.before);
    let rules = made.rules.join("\n");
    for rule in [
        "-p tcp -m tcp --dport 8080 -j DNAT",
        "-d 192.0.2.10/32 -p udp -m udp --dport 8053 -j DNAT",
        "-p tcp -m tcp --dport 8081 -j DNAT",
    ] {
        assert!(rules.contains(rule), "{rule}: {rules}");
    }
    let shaped = desk.node.namespace.read("tc", &["qdisc", "show"]).unwrap();
    assert!(shaped.contains("rate 10Mbit burst 128Kb "), "{shaped}");
    assert!(shaped.contains("rate 20Mbit burst 250000b "), "{shaped}");

    let target = ["--container-id", "web-0", "--ifname", "eth7"];
    desk.call("check", &target, &[]).ok();
    desk.call("del", &target, &[]).ok();
    desk.expect_clean();
}

#[test]
fn del_knows_what_add_was_given() {
    let Some(desk) = Desk::new() else { return };
    let options = ["--port", "8080:80", "--ingress", "10M", "--egress", "20M"];
    desk.call("add", &options, &[]).ok();
    let path = desk.pod.path().display().to_string();
    let Desk { node, pod, before } = desk;
    pod.remove().unwrap();
    let desk = Desk {
        pod: node.namespace("stand-in"),
        node,
        before,
    };
    // Twice, since there is no harm in it.
    for _ in 0..2 {
        desk.run(&["del", NETWORK, &path], &[]).ok();
        desk.expect_clean();
    }
}

/// The cache has it still; and who was never attached is named a network that is not there.
#[test]
fn del_works_after_the_configuration_has_gone() {
    let Some(desk) = Desk::new() else { return };
    desk.call("add", &["--port", "8080:80"], &[]).ok();
    fs::remove_dir_all(desk.node.folder().join("net.d")).unwrap();
    // What else is in the cache, and cannot be read, does not matter.
    let another = desk.node.cache.join("results/another");
    fs::write(&another, "{").unwrap();
    assert_eq!(desk.call("check", &[], &[]).status, 2);
    desk.call("del", &[], &[]).ok();
    fs::remove_file(another).unwrap();
    desk.expect_clean();
    assert_eq!(desk.call("del", &[], &[]).status, 2);
}

#[test]
fn refusals_have_their_exit_statuses() {
    let Some(desk) = Desk::new() else { return };
    desk.call("add", &[], &[]).ok();
    let says = |answer: &Answer, status: i32, text: &str| {
        assert_eq!(answer.status, status, "{answer:?}");
        assert_eq!(answer.stdout, "", "{answer:?}");
        assert!(answer.stderr.starts_with("podnet: "), "{answer:?}");
        assert!(answer.stderr.contains(text), "{answer:?}");
    };
    let again = desk.call("add", &[], &[]);
    says(&again, 1, "plugin type=\"bridge\" failed (add): ");
    says(&again, 1, "[code 103]");

    desk.pod
        .read("ip", &["address", "flush", "dev", "eth0"])
        .unwrap();
    let checked = desk.call("check", &[], &[]);
    says(&checked, 1, "plugin type=\"bridge\" failed (check): ");
    desk.call("del", &[], &[]).ok();

    // A chain that fails at its end leaves the rest to del.
    let half = [("CAP_ARGS", r#"{"bandwidth": {"ingressRate": 1000000}}"#)];
    let failed = desk.call("add", &[], &half);
    says(
        &failed,
        1,
        "plugin type=\"bandwidth\" failed (add): if rate is set, burst must",
    );
    desk.call("del", &[], &[]).ok();
    desk.expect_clean();

    let nothing = desk.call("add", &[], &[("NETCONFPATH", "/nowhere")]);
    says(&nothing, 2, "/nowhere");
    let path = desk.pod.path().display().to_string();
    says(&desk.run(&["add", "another", &path], &[]), 2, "\"another\"");
    says(&desk.call("add", &[], &[("CAP_ARGS", "[]")]), 2, "CAP_ARGS");
    desk.expect_clean();
}

#[test]
fn the_versions_of_a_chain() {
    let Some(desk) = Desk::new() else { return };
    let answer = desk.run(&["version", NETWORK], &[]);
    let told = answer.ok().as_object().unwrap();
    let kinds: Vec<_> = told.keys().collect();
    assert_eq!(kinds.len(), 4, "{kinds:?}");
    for kind in ["bridge", "host-local", "portmap", "bandwidth"] {
        let versions = told[kind]["supportedVersions"].as_array().unwrap();
        assert_eq!(versions.last().unwrap(), "1.1.0", "{kind}");
    }
    let table = desk.run(&["version", NETWORK, "--output", "table"], &[]);
    assert!(table.stdout.starts_with("PLUGIN "), "{}", table.stdout);

    fs::remove_file(desk.node.bin.join("portmap")).unwrap();
    let answer = desk.run(&["version", NETWORK], &[]);
    assert_eq!(answer.status, 1);
    let told = answer.json["portmap"]["error"].as_str().unwrap();
    assert!(told.contains("failed to find plugin"), "{told}");
}

/// What the demo of that process has left, by name.
fn left_of(demo: u32) -> Vec<String> {
    let own = format!("lab-demo-{demo}-");
    let folders = [std::env::temp_dir(), "/run/netns".into()];
    let entries = folders
        .iter()
        .filter_map(|folder| fs::read_dir(folder).ok());
    entries
        .flatten()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap_or_default())
        .filter(|name| name.starts_with(&own))
        .collect()
}

/// Starts the demo, reads its first line, and gives it to `end`; its exit status, and what it said
/// on standard error.
fn ended_demo(end: fn(&mut Child, ChildStdout)) -> (Option<i32>, String) {
    let mut demo = Command::new(binary_folder().join("podnet"))
        .arg("demo")
        .arg("--cni-path")
        .arg(binary_folder())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = demo.stdout.take().unwrap();
    let mut byte = [0];
    while byte != *b"\n" {
        output.read_exact(&mut byte).unwrap();
    }
    assert_ne!(left_of(demo.id()), [""; 0]);
    end(&mut demo, output);
    let id = demo.id();
    let output = demo.wait_with_output().unwrap();
    assert_eq!(left_of(id), [""; 0]);
    let said = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), said)
}

#[test]
fn a_demo_that_is_ended_leaves_nothing() {
    if Node::new("ended").is_none() {
        return;
    }
    let (status, said) = ended_demo(|demo, _output| {
        let demo = Pid::from_raw(demo.id().try_into().unwrap());
        kill(demo, Signal::SIGTERM).unwrap();
    });
    assert_eq!((status, said.as_str()), (Some(143), ""));
    // As by `head -1`.
    let (status, said) = ended_demo(|_, output| drop(output));
    assert_eq!((status, said.as_str()), (Some(141), ""));
}

#[test]
fn the_demo_fails_without_a_plugin() {
    let Some(node) = Node::new("demo") else {
        return;
    };
    let demo = |conflist: &Value, path: &std::path::Path| -> Answer {
        let file = node.folder().join("demo.conflist");
        fs::write(&file, conflist.to_string()).unwrap();
        let mut podnet = Command::new(binary_folder().join("podnet"));
        podnet
            .arg("demo")
            .arg("--cni-path")
            .arg(path)
            .arg("--conf")
            .arg(file);
        node.namespace.output(&mut podnet, b"").unwrap().into()
    };
    let text = include_str!("../conf/10-k8nd.conflist");
    let whole: Value = serde_json::from_str(text).unwrap();

    // Its file is missing.
    let bin = node.folder().join("few");
    tests::plugin_folder(&bin);
    for name in ["bandwidth", "bandwidth-lite"] {
        fs::remove_file(bin.join(name)).unwrap();
    }
    let answer = demo(&whole, &bin);
    assert_eq!(answer.status, 1, "{answer:?}");
    assert!(
        answer
            .stderr
            .contains("neither bandwidth-lite nor bandwidth"),
        "{answer:?}"
    );

    // It is not called. (The rates are measured on a busy machine, and may fail as well.)
    let plugins = whole["plugins"].as_array().unwrap();
    let unmapped = with(&whole, "plugins", &json!([plugins[0], plugins[2]]));
    let answer = demo(&unmapped, &node.bin);
    assert_eq!(answer.status, 1, "{answer:?}");
    let failed = |line: &&str| line.starts_with("FAILED  host port from ");
    let failed = answer.stdout.lines().filter(failed).count();
    assert_eq!(failed, 4, "{}", answer.stdout);
    let last = answer.stdout.lines().last().unwrap();
    assert!(
        last.starts_with("FAILED: host port from outside, "),
        "{last}"
    );
}
