//! The log for people: a line for each call of each plugin, and what cannot go wrong with it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests, which stand outside of them"
)]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tests::{Node, Pod, VALID, kind, sh, with, with_mounts};

/// What a runtime asks of the chain.
fn asked() -> Value {
    json!({
        "portMappings": [{ "hostPort": 8080, "containerPort": 80, "protocol": "udp" }],
        "bandwidth": {
            "ingressRate": 8_000_000, "ingressBurst": 800_000,
            "egressRate": 8_000_000, "egressBurst": 800_000
        }
    })
}

/// A chain of 1.1.0, which knows every verb.
fn chain(node: &Node) -> Vec<Value> {
    let list = node.conflist_with(
        "10-k8nd.conflist",
        &[("", json!({ "cniVersion": "1.1.0" }))],
    );
    node.configs(&list, &asked())
}

fn lines(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap();
    assert!(text.ends_with('\n'), "{text}");
    let line = |line: &str| serde_json::from_str(line).unwrap_or_else(|_| panic!("torn: {line}"));
    text.lines().map(line).collect()
}

/// The lines of a log, which is empty again afterwards: each one's plugin, verb, and the steps but
/// for `all`.
fn said(file: &Path) -> Vec<(String, String)> {
    let word = |line: &Value, key: &str| line[key].as_str().unwrap().to_owned();
    let lines = lines(file);
    let said = lines.iter().map(|line| {
        let steps = line["microseconds"].as_object().unwrap().keys();
        let steps: Vec<_> = steps.map(String::as_str).collect();
        assert_eq!(steps.last(), Some(&"all"), "{line}");
        let verb = format!("{} {}", word(line, "plugin"), word(line, "command"));
        (verb, steps[..steps.len() - 1].join(" "))
    });
    let said = said.collect();
    fs::write(file, "").unwrap();
    said
}

/// That the log has these lines, each with at least these steps in this order.
#[track_caller]
fn expect_said(file: &Path, expected: &[(&str, &str)]) {
    let said = said(file);
    let verbs = said.iter().map(|(verb, _)| verb.as_str());
    let expected_verbs = expected.iter().map(|(verb, _)| *verb);
    assert_eq!(
        verbs.collect::<Vec<_>>(),
        expected_verbs.collect::<Vec<_>>()
    );
    for ((verb, steps), (_, expected)) in said.iter().zip(expected) {
        let mut steps_left = steps.split(' ');
        let are_there = expected
            .split(' ')
            .all(|step| steps_left.any(|found| found == step));
        assert!(are_there, "{verb}: {steps}, not {expected}");
    }
}

/// A node, a file for its log, and the variable that names it.
fn logging(label: &str) -> Option<(Node, PathBuf)> {
    let node = Node::new(label)?;
    let file = node.folder().join("log");
    Some((node, file))
}

fn variable(file: &Path) -> [(&str, &str); 1] {
    [("CNI_LITE_LOG", file.to_str().unwrap())]
}

#[test]
fn a_line_for_each_verb_about_an_attachment() {
    let Some((node, file)) = logging("log") else {
        return;
    };
    let (pod, configs, env) = (node.pod("pod"), chain(&node), variable(&file));
    let result = node.add_each_with(&configs, &pod, &env);
    expect_said(
        &file,
        &[
            ("host-local ADD", "read lock choose reserve answer"),
            (
                "bridge ADD",
                "read look ipam bridge veth masquerade sysctls pod port result answer",
            ),
            ("portmap ADD", "read look rules localnet conntrack answer"),
            ("bandwidth ADD", "read look egress ingress answer"),
        ],
    );
    let told = |config| with(config, "prevResult", &result);
    let configs: Vec<_> = configs.iter().map(told).collect();
    for config in &configs {
        node.call(kind(config), "CHECK", &pod, config, &env).ok();
    }
    expect_said(
        &file,
        &[
            ("host-local CHECK", "read look answer"),
            ("bridge CHECK", "read look ipam compare masquerade answer"),
            ("portmap CHECK", "read rules localnet answer"),
            ("bandwidth CHECK", "read look compare answer"),
        ],
    );
    for answer in node.del_each(&configs, &pod, &env) {
        answer.ok();
    }
    expect_said(
        &file,
        &[
            ("bandwidth DEL", "read look remove answer"),
            ("portmap DEL", "read rules conntrack answer"),
            ("host-local DEL", "read lock release answer"),
            ("bridge DEL", "read filter links ipam answer"),
        ],
    );
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
}

#[test]
fn a_line_for_each_verb_about_a_network() {
    let Some((node, file)) = logging("lognetwork") else {
        return;
    };
    let env = variable(&file);
    let configs = chain(&node);
    // The store and what pods share.
    let pod = node.pod("pod");
    node.add_each(&configs, &pod);
    node.del_each(&configs, &pod, &[]);
    for config in &configs {
        node.call_network("STATUS", config, &env).ok();
        let none = with(config, VALID, &json!([]));
        node.call_network("GC", &none, &env).ok();
        node.call_network("VERSION", config, &env).ok();
    }
    expect_said(
        &file,
        &[
            ("host-local STATUS", "read look answer"),
            ("bridge STATUS", "read look ipam answer"),
            ("host-local GC", "read lock release answer"),
            ("bridge GC", "read masquerade filter links ipam answer"),
            ("bridge VERSION", "read answer"),
            ("portmap STATUS", "read look answer"),
            ("portmap GC", "read rules conntrack answer"),
            ("portmap VERSION", "read answer"),
            ("bandwidth STATUS", "read try answer"),
            ("bandwidth GC", "read look answer"),
            ("bandwidth VERSION", "read answer"),
        ],
    );
}

#[test]
fn a_line_tells_whose_call_it_was_and_how_it_ended() {
    let Some((node, file)) = logging("logline") else {
        return;
    };
    let (pod, config) = (node.pod("pod"), chain(&node).remove(0));
    let mut env = variable(&file).to_vec();
    env.push(("CNI_ARGS", "IgnoreUnknown=1;K8S_POD_NAME=web"));
    let added = node.call("bridge", "ADD", &pod, &config, &env);
    let line = lines(&file).remove(1);
    for (key, expected) in [
        ("plugin", json!("bridge")),
        ("command", json!("ADD")),
        ("network", json!("k8nd-pod-network")),
        ("containerID", json!("pod")),
        ("ifname", json!("eth0")),
        ("netns", json!(pod.namespace.path())),
        ("args", json!("IgnoreUnknown=1;K8S_POD_NAME=web")),
        ("cniVersion", json!("1.1.0")),
        ("exit", json!(0)),
        ("result", added.ok().clone()),
    ] {
        assert_eq!(line[key], expected, "{line}");
    }
    assert_eq!(line["asked"]["ipam"], config["ipam"]);
    // The step that failed is the last one before the answer.
    fs::write(&file, "").unwrap();
    let again = node.call("bridge", "ADD", &pod, &config, &env);
    let (code, _) = again.error();
    let line = lines(&file).remove(0);
    assert_eq!(line["error"]["code"], code);
    expect_said(&file, &[("bridge ADD", "read look answer")]);
}

#[test]
fn a_refused_call_has_its_line() {
    let Some((node, file)) = logging("logrefused") else {
        return;
    };
    let (pod, configs) = (node.pod("pod"), chain(&node));
    let bad_mtu = with(&configs[0], "mtu", &json!(70_000));
    let bad_version = with(&configs[0], "cniVersion", &json!("9.9.9"));
    let no_name = with(&configs[0], "name", &Value::Null);
    // Configuration, verb, variables; and what the line has of the call.
    let table = [
        ("{".to_owned(), "ADD", vec![], Value::Null),
        (
            configs[0].to_string(),
            "ADD",
            vec![("CNI_IFNAME", "")],
            Value::Null,
        ),
        (
            configs[0].to_string(),
            "FOO",
            vec![],
            json!("k8nd-pod-network"),
        ),
        (no_name.to_string(), "DEL", vec![], Value::Null),
        (
            bad_version.to_string(),
            "CHECK",
            vec![],
            json!("k8nd-pod-network"),
        ),
        (
            bad_mtu.to_string(),
            "ADD",
            vec![],
            json!("k8nd-pod-network"),
        ),
    ];
    for (config, verb, mut env, network) in table {
        env.extend(variable(&file));
        let answer = node.call("bridge", verb, &pod, &config, &env);
        answer.error();
        let [line] = &lines(&file)[..] else {
            panic!("{config}: not one line")
        };
        assert_eq!((&line["error"], &line["exit"]), (&answer.json, &json!(1)));
        assert_eq!(
            (&line["command"], &line["network"]),
            (&json!(verb), &network)
        );
        assert_eq!(line["containerID"], "pod");
        fs::write(&file, "").unwrap();
    }
}

#[test]
fn lines_of_calls_at_one_time_stay_whole() {
    const CALLS: usize = 32;
    let Some((node, file)) = logging("logmany") else {
        return;
    };
    let config = chain(&node).remove(0);
    // Long enough for several pages.
    let config = with(
        &config,
        "runtimeConfig",
        &json!({ "x": vec!["text"; 5000] }),
    );
    let config = with(&config, "logFile", &json!(file));
    let pods: Vec<_> = (0..CALLS).map(|n| node.pod(&format!("pod{n}"))).collect();
    std::thread::scope(|scope| {
        for pod in &pods {
            scope.spawn(|| node.call("bridge", "ADD", pod, &config, &[]).ok().clone());
        }
    });
    let mut ids: Vec<_> = lines(&file)
        .iter()
        .map(|line| {
            let (id, plugin) = (line["containerID"].as_str(), line["plugin"].as_str());
            format!("{} {}", plugin.unwrap(), id.unwrap())
        })
        .collect();
    ids.sort();
    let both = ["bridge", "host-local"];
    let mut expected: Vec<_> = pods
        .iter()
        .flat_map(|pod| both.map(|plugin| format!("{plugin} {}", pod.id)))
        .collect();
    expected.sort();
    assert_eq!(ids, expected);
}

#[test]
fn a_log_that_cannot_be_written_changes_nothing() {
    let Some(node) = Node::new("logbad") else {
        return;
    };
    let config = chain(&node).remove(0);
    let at = |name: &str| node.folder().join(name);
    for folder in ["folder", "full", "readonly"] {
        fs::create_dir(at(folder)).unwrap();
    }
    fs::write(at("target"), "").unwrap();
    symlink(at("target"), at("link")).unwrap();
    sh(&node.namespace, &format!("mkfifo {}", at("fifo").display()));
    let mounts = [
        format!("mount -t tmpfs -o size=4k tmpfs {}", at("full").display()),
        format!("echo x > {}", at("full/other").display()),
        format!("mount -t tmpfs -o ro tmpfs {}", at("readonly").display()),
    ];
    let table: [(PathBuf, &str); 8] = [
        ("relative/log".into(), "absolute"),
        (at("folder"), "Is a directory"),
        (at("missing/log"), "No such file"),
        (at("fifo"), "no regular file"),
        (at("link"), "symbolic link"),
        ("/dev/null".into(), "no regular file"),
        (at("full/log"), "No space"),
        (at("readonly/log"), "Read-only"),
    ];
    for (number, (file, reason)) in table.iter().enumerate() {
        let pod = node.pod(&format!("pod{number}"));
        let env = variable(file);
        for verb in ["ADD", "DEL"] {
            let bridge = with_mounts(&mounts, node.bin.join("bridge"));
            let answer = node.call_as(bridge, verb, &pod, &config, &env);
            let succeeded = answer.ok();
            assert_eq!(succeeded.is_null(), verb == "DEL", "{answer:?}");
            for plugin in ["bridge", "host-local"] {
                let told = format!("{plugin}: cannot write the log ");
                assert!(answer.stderr.contains(&told), "{answer:?}");
            }
            assert!(answer.stderr.contains(reason), "{answer:?}");
        }
    }
    assert_eq!(fs::read(at("target")).unwrap(), b"");
}

/// One ADD and DEL of the bridge; what they said on standard error.
fn come_and_go(node: &Node, pod: &Pod, config: &Value, env: &[(&str, &str)]) -> String {
    let added = node.call("bridge", "ADD", pod, config, env);
    added.ok();
    let gone = node.call("bridge", "DEL", pod, config, env);
    gone.ok();
    added.stderr + &gone.stderr
}

#[test]
fn the_variable_the_key_or_no_log() {
    let Some(node) = Node::new("logwhere") else {
        return;
    };
    let (pod, config) = (node.pod("pod"), chain(&node).remove(0));
    let [key, named] = ["key", "named"].map(|name| node.folder().join(name));
    let by_key = with(&config, "logFile", &json!(key));
    let env = variable(&named);
    for (config, env, keys, variables) in [
        (&config, &[][..], 0, 0),
        (&by_key, &[("CNI_LITE_LOG", "")], 4, 0),
        (&config, &env, 0, 4),
        (&by_key, &env, 0, 4),
    ] {
        assert_eq!(come_and_go(&node, &pod, config, env), "");
        for (file, count) in [(&key, keys), (&named, variables)] {
            let found = fs::read_to_string(file).unwrap_or_default();
            assert_eq!(found.lines().count(), count, "{config} {env:?}");
            drop(fs::remove_file(file));
        }
    }
    let relative = with(&config, "logFile", &json!("log"));
    let refused = node.call("bridge", "ADD", &pod, &relative, &[]);
    refused.expect_refused("ADD", 7, &["logFile", "\"log\"", "absolute"]);
    node.call("bridge", "DEL", &pod, &relative, &[]).ok();
    let wrong = with(&config, "logFile", &json!(5));
    let refused = node.call("bridge", "ADD", &pod, &wrong, &[]);
    refused.expect_refused("ADD", 6, &["logFile"]);
    node.call("bridge", "DEL", &pod, &wrong, &[]).ok();
    // By hand nothing is asked.
    let mut by_hand = Command::new(node.bin.join("bridge"));
    by_hand.env_remove("CNI_COMMAND").envs(env);
    assert!(by_hand.output().unwrap().status.success());
    assert!(!named.exists());
}
