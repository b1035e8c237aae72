//! The tool as it is called, with plugins that only note what they are given.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

const PLUGIN: &str = r#"#!/bin/sh
cd "$(dirname "$0")"
cat > input
env | grep ^CNI_ | sort > environment
if [ -e fails ]; then echo '{"code": 11, "msg": "no"}'; exit 1; fi
case $CNI_COMMAND in
ADD) echo '{"cniVersion": "1.0.0", "ips": [{"address": "10.1.0.2/24"}]}';;
VERSION) echo '{"supportedVersions": ["1.0.0"]}';;
esac
"#;

/// A folder that holds the plugin, its network and the cache.
struct Node(TempDir);

impl Node {
    fn new() -> Node {
        let node = Node(tempfile::tempdir().unwrap());
        fs::write(node.path().join("fake"), PLUGIN).unwrap();
        fs::set_permissions(node.path().join("fake"), fs::Permissions::from_mode(0o755)).unwrap();
        node.write_list(json!({ "cniVersion": "1.0.0", "name": "n" }));
        node
    }

    fn write_list(&self, mut list: Value) {
        let capabilities = json!({"portMappings": true, "mac": true});
        list["plugins"] = json!([{"type": "fake", "capabilities": capabilities}]);
        fs::write(self.path().join("n.conflist"), list.to_string()).unwrap();
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// A call with the environment that cnitool knows.
    fn podnet(&self, words: &[&str], environment: &[(&str, &str)]) -> Output {
        let mut podnet = Command::new(env!("CARGO_BIN_EXE_podnet"));
        podnet.args(words);
        if matches!(words, [command, ..] if *command != "demo") {
            podnet.arg("--cache-dir").arg(self.path().join("cache"));
        }
        // What runs the tests has `CNI_` variables of its own.
        let path = std::env::var_os("PATH").unwrap_or_default();
        podnet
            .env_clear()
            .env("PATH", path)
            .env("CNI_PATH", self.path())
            .env("NETCONFPATH", self.path())
            .envs(environment.iter().copied())
            .output()
            .unwrap()
    }

    fn note(&self, name: &str) -> String {
        fs::read_to_string(self.path().join(name)).unwrap()
    }

    fn input(&self) -> Value {
        serde_json::from_str(&self.note("input")).unwrap()
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn the_environment_of_cnitool() {
    let node = Node::new();
    let environment = [
        ("CAP_ARGS", r#"{"mac": "02:00:00:00:00:01", "ips": []}"#),
        ("CNI_ARGS", "IgnoreUnknown=1;A=B"),
        ("CNI_IFNAME", "net1"),
    ];
    let output = node.podnet(&["add", "n", "/run/netns/blue"], &environment);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed["ips"][0]["address"], "10.1.0.2/24");
    let expected = [
        "CNI_ARGS=IgnoreUnknown=1;A=B",
        "CNI_COMMAND=ADD",
        "CNI_CONTAINERID=cnitool-df26705e2e4ffd095eb1",
        "CNI_IFNAME=net1",
        "CNI_NETNS=/run/netns/blue",
        &format!("CNI_PATH={}", node.path().display()),
    ];
    assert_eq!(
        node.note("environment").lines().collect::<Vec<_>>(),
        expected
    );
    assert_eq!(
        node.input()["runtimeConfig"],
        json!({"mac": "02:00:00:00:00:01"})
    );
}

#[test]
fn add_is_remembered_for_check_and_del() {
    let node = Node::new();
    let cached = node.path().join("cache/results/n-c-eth0");
    let target = ["n", "/run/netns/blue", "--container-id", "c"];
    let call = |command: &str, more: &[&str]| {
        let words = [&[command], &target[..], more].concat();
        let output = node.podnet(&words, &[]);
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
        output.stdout
    };
    let table = call("add", &["--port", "8080:80/udp", "--output", "table"]);
    assert_eq!(
        text(&table),
        "ADDRESS      GATEWAY  INTERFACE\n10.1.0.2/24\n"
    );
    assert!(cached.exists());
    for command in ["check", "del"] {
        assert!(call(command, &[]).is_empty());
        let input = node.input();
        let port = json!({"hostPort": 8080, "containerPort": 80, "protocol": "udp"});
        assert_eq!(input["runtimeConfig"]["portMappings"], json!([port]));
        assert_eq!(input["prevResult"]["ips"][0]["address"], "10.1.0.2/24");
    }
    assert!(!cached.exists());
    call("del", &[]);
}

/// The command of the last call.
fn last_command(node: &Node) -> String {
    let environment = node.note("environment");
    let mut lines = environment.lines();
    lines
        .find_map(|line| line.strip_prefix("CNI_COMMAND="))
        .unwrap()
        .to_owned()
}

#[test]
fn gc_tells_the_plugins_who_lives() {
    let node = Node::new();
    node.write_list(json!({ "cniVersion": "1.1.0", "name": "n" }));
    let own = "/proc/self/ns/net";
    for (id, netns) in [("alive", own), ("dead", "/run/netns/of-nobody")] {
        let output = node.podnet(&["add", "n", netns, "--container-id", id], &[]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
    let entry = |id: &str, ifname: &str| json!({"containerID": id, "ifname": ifname});
    let valid = json!([entry("alive", "eth0"), entry("told", "net1")]);
    for dry_run in [true, false] {
        let mut words = vec!["gc", "n", "--valid", "told/net1"];
        words.extend(Some("--dry-run").filter(|_| dry_run));
        let output = node.podnet(&words, &[]);
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
        let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
        let gone = json!([entry("dead", "eth0")]);
        assert_eq!(
            printed,
            json!({ "cni.dev/valid-attachments": valid, "gone": gone })
        );
        assert_eq!(last_command(&node), if dry_run { "ADD" } else { "GC" });
        let cached = node.path().join("cache/results/n-dead-eth0");
        assert_eq!(cached.exists(), dry_run);
    }
    assert_eq!(node.input()["cni.dev/valid-attachments"], valid);
    let words = [
        "gc",
        "n",
        "--dry-run",
        "--valid",
        "told/net1",
        "--output",
        "table",
    ];
    let expected = "\
CONTAINER  INTERFACE  STATE  WHY
alive      eth0       valid  /proc/self/ns/net is there
told       net1       valid  told
";
    assert_eq!(text(&node.podnet(&words, &[]).stdout), expected);
}

#[test]
fn gc_of_what_nobody_knows_is_refused() {
    let node = Node::new();
    node.write_list(json!({ "cniVersion": "1.1.0", "name": "n" }));
    let output = node.podnet(&["gc", "n"], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("--none-valid"),
        "{}",
        text(&output.stderr)
    );
    let output = node.podnet(&["gc", "n", "--none-valid"], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(node.input()["cni.dev/valid-attachments"], json!([]));
    // Whoever lives must not be taken for dead because of a torn file.
    fs::create_dir_all(node.path().join("cache/results")).unwrap();
    fs::write(node.path().join("cache/results/n-c-eth0"), "{").unwrap();
    let output = node.podnet(&["gc", "n", "--none-valid"], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("n-c-eth0"),
        "{}",
        text(&output.stderr)
    );
    node.write_list(json!({ "cniVersion": "1.1.0", "name": "n", "disableGC": true }));
    let output = node.podnet(&["gc", "n", "--valid", "c/eth0"], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("disableGC"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn older_networks_have_neither_gc_nor_status() {
    let node = Node::new();
    let output = node.podnet(&["status", "n"], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("1.1.0 brought STATUS"));
    let output = node.podnet(&["gc", "n", "--valid", "c/eth0"], &[]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stderr).contains("1.1.0 brought GC"));
    assert!(!node.path().join("environment").exists());
}

#[test]
fn status_is_the_plugins() {
    let node = Node::new();
    node.write_list(json!({ "cniVersion": "1.1.0", "name": "n" }));
    let output = node.podnet(&["status", "n"], &[]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
    assert_eq!(last_command(&node), "STATUS");
    fs::write(node.path().join("fails"), "").unwrap();
    let output = node.podnet(&["status", "n"], &[]);
    assert_eq!(output.status.code(), Some(1));
    let expected = "podnet: plugin type=\"fake\" failed (status): no [code 11]\n";
    assert_eq!(text(&output.stderr), expected);
}

#[test]
fn check_of_all_that_is_known() {
    let node = Node::new();
    let check = |words: &[&str]| node.podnet(&[&["check", "--all"], words].concat(), &[]);
    assert_eq!(text(&check(&[]).stdout), "");
    for (id, netns) in [("a", "/run/netns/blue"), ("b", "/run/netns/red")] {
        let words = ["add", "n", netns, "--container-id", id, "--port", "80:80"];
        node.podnet(&words, &[]);
    }
    // With what it was made with, whatever has become of the file.
    fs::remove_file(node.path().join("n.conflist")).unwrap();
    let output = check(&[]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
    let head = "NETWORK  CONTAINER  INTERFACE  FOUND\n";
    let expected =
        format!("{head}n        a          eth0       good\nn        b          eth0       good\n");
    assert_eq!(text(&output.stdout), expected);
    assert!(
        node.note("environment")
            .contains("CNI_NETNS=/run/netns/red\n")
    );
    assert_eq!(
        node.input()["runtimeConfig"]["portMappings"][0]["hostPort"],
        80
    );
    // A version that has no CHECK, as that of containerd's loopback, is no fault.
    node.write_list(json!({ "cniVersion": "0.3.1", "name": "n" }));
    let old = ["add", "n", "/run/netns/old", "--container-id", "old"];
    node.podnet(&old, &[]);
    let output = check(&[]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
    let said = "eth0       not checked: 0.3.1 has no CHECK\n";
    assert!(text(&output.stdout).ends_with(said), "{output:?}");
    fs::remove_file(node.path().join("cache/results/n-old-eth0")).unwrap();
    // A file that cannot be read is told, and takes no other's turn.
    let torn = node.path().join("cache/results/n-a0-eth0");
    fs::write(&torn, "{").unwrap();
    let output = check(&["n"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), expected);
    let said = text(&output.stderr);
    assert!(
        said.contains("n-a0-eth0: EOF") && said.lines().count() == 1,
        "{said}"
    );
    fs::write(node.path().join("fails"), "").unwrap();
    let output = check(&["--output", "json"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let first = &json["attachments"][0];
    assert_eq!(
        (&first["containerID"], &first["good"]),
        (&json!("a"), &json!(false))
    );
    let error = first["error"].as_str().unwrap();
    assert!(error.contains("failed (check): no"), "{json}");
    assert_eq!(json["unreadable"].as_array().unwrap().len(), 1, "{json}");
    assert_eq!(output.status.code(), Some(1));
    fs::remove_file(torn).unwrap();
    let output = check(&["n"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        text(&output.stdout).matches("failed (check): no").count(),
        2
    );
    assert_eq!(check(&["other"]).status.code(), Some(0));
}

#[test]
fn versions() {
    let node = Node::new();
    let file = node.path().join("n.conflist").display().to_string();
    let output = node.podnet(&["version", "n", "--conf", &file, "--output", "table"], &[]);
    assert_eq!(text(&output.stdout), "PLUGIN  VERSIONS\nfake    1.0.0\n");
    fs::write(node.path().join("fails"), "").unwrap();
    let output = node.podnet(&["version", "n", "/run/netns/blue"], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("\"error\""));
}

#[test]
fn exit_statuses() {
    let node = Node::new();
    let netns = "/run/netns/blue";
    let file = node.path().join("n.conflist").display().to_string();
    for (words, environment, says) in [
        (
            vec!["add", "m", netns],
            vec![],
            "no net configuration with name \"m\"",
        ),
        (
            vec!["add", "m", netns, "--conf", &file],
            vec![],
            "name is \"n\", not \"m\"",
        ),
        (
            vec!["add", "n", netns],
            vec![("CAP_ARGS", "x")],
            "CAP_ARGS is no JSON object",
        ),
        (
            vec!["add", "n", netns],
            vec![("CNI_ARGS", "x")],
            "invalid CNI_ARGS pair \"x\"",
        ),
        (
            vec!["add", "n", netns, "--port", "80:x"],
            vec![],
            "port \"x\" is no number",
        ),
        (
            vec!["add", "n", netns, "--ingress", "-1"],
            vec![],
            "as 500k, 10M or 1G, more than 0",
        ),
        (
            vec!["add", "n", netns, "--container-id", "a b"],
            vec![],
            "--container-id \"a b\": expected",
        ),
        (
            vec!["del", "n", netns],
            vec![("CNI_IFNAME", "a/b")],
            "--ifname (CNI_IFNAME) \"a/b\"",
        ),
        (vec!["add", "n"], vec![], "NETNS"),
    ] {
        let output = node.podnet(&words, &environment);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(
            text(&output.stderr).contains(says),
            "{}",
            text(&output.stderr)
        );
    }
    fs::write(node.path().join("fails"), "").unwrap();
    for (command, verb) in [("add", "add"), ("check", "check"), ("del", "delete")] {
        let output = node.podnet(&[command, "n", netns], &[]);
        let expected = format!("podnet: plugin type=\"fake\" failed ({verb}): no [code 11]\n");
        assert_eq!(
            (output.status.code(), text(&output.stderr)),
            (Some(1), expected.as_str())
        );
        assert!(output.stdout.is_empty());
    }
}
