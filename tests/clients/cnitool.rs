//! cnitool: ADD, CHECK and DEL by hand.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use std::path::{Path, PathBuf};
use std::process::Output;

use clients::{Host, Names, are_ours, chain};
use lab::Namespace;
use serde_json::{Value, json};
use tests::{address, at, sh};

/// Where `make clients` builds it.
fn cnitool() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let built = root.join("target/clients/cnitool/cnitool");
    let found = built
        .canonicalize()
        .ok()
        .or_else(|| lab::find_tool("cnitool"));
    if found.is_none() {
        lab::skip("no cnitool (make test-clients builds it, where apt has its source)");
    }
    found
}

/// A node that is used by cnitool.
struct User {
    program: PathBuf,
    host: Host,
}

/// A namespace, and its path on the node.
struct Pod {
    path: String,
    namespace: Namespace,
}

impl User {
    /// `None`, said aloud and counted, where there is no cnitool.
    fn new(label: &str) -> Option<User> {
        let program = cnitool()?;
        let host = Host::new(label, &[])?;
        Some(User { program, host })
    }

    /// A namespace that is bound on the node.
    #[track_caller]
    fn pod(&self, name: &str) -> Pod {
        self.host.read("ip", &["netns", "add", name]);
        Pod {
            path: format!("/run/netns/{name}"),
            namespace: self.host.netns(&format!("/run/netns/{name}")),
        }
    }

    fn output(&self, verb: &str, pod: &Pod, asked: &Value) -> Output {
        let mut command = self.host.command(&self.program.to_string_lossy());
        command
            .args([verb, "pods"])
            .arg(&pod.path)
            .env("CNI_PATH", "/opt/cni/bin")
            .env("NETCONFPATH", "/etc/cni/net.d")
            .env("CAP_ARGS", asked.to_string());
        self.host.node.namespace.output(&mut command, b"").unwrap()
    }

    #[track_caller]
    fn run(&self, verb: &str, pod: &Pod, asked: &Value) -> String {
        let output = self.output(verb, pod, asked);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{verb}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }
}

fn asked() -> Value {
    json!({
        "portMappings": [
            { "hostPort": 8080, "containerPort": 80, "protocol": "tcp" },
            { "hostPort": 5353, "containerPort": 53, "protocol": "udp" }
        ],
        "bandwidth": {
            "ingressRate": 10_000_000, "ingressBurst": 1_000_000,
            "egressRate": 20_000_000, "egressBurst": 1_000_000
        }
    })
}

#[test]
fn add_check_and_del() {
    for names in Names::all() {
        for version in ["0.3.1", "0.4.0", "1.0.0"] {
            let Some(user) = User::new("cnitool") else {
                return;
            };
            user.host.configure(&chain(*names, version));
            add_check_del(&user, version);
        }
    }
}

fn add_check_del(user: &User, version: &str) {
    let (host, asked) = (&user.host, asked());
    let first = user.pod("first");
    user.run("add", &first, &asked);
    user.run("del", &first, &asked);
    let before = host.snapshot("pods");
    assert_eq!(before.reservations, [""; 0]);

    let pod = user.pod("pod");
    let result: Value = serde_json::from_str(&user.run("add", &pod, &asked)).unwrap();
    let own = address(&result);
    let _tcp = pod.namespace.serve_tcp((own, 80).into()).unwrap();
    let _udp = pod.namespace.serve_udp((own, 53).into()).unwrap();
    let seen = host.outside.ask_tcp(at("192.0.2.10:8080")).unwrap();
    assert_eq!(seen.local.ip(), own);
    let seen = host.outside.ask_udp(at("192.0.2.10:5353")).unwrap();
    assert_eq!(seen.local.ip(), own);
    // One rate is a qdisc of the host's end, the other of an ifb.
    let shaped = host.snapshot("pods").since(&before).qdiscs;
    let tbf = shaped.iter().filter(|line| line.contains(" tbf "));
    assert_eq!(tbf.count(), 2, "{shaped:?}");

    // There is no CHECK before 0.4.0.
    if version != "0.3.1" && are_ours("CHECK of host ports wants rules of both families") {
        user.run("check", &pod, &asked);
        sh(&pod.namespace, "ip address flush dev eth0");
        let changed = user.output("check", &pod, &asked);
        assert!(!changed.status.success(), "{version}: CHECK passes");
    }
    for _ in 0..2 {
        user.run("del", &pod, &asked);
        host.expect_as_before(version, &before, "pods");
    }
}

#[test]
fn del_of_a_pod_whose_namespace_is_gone() {
    for names in Names::all() {
        let Some(user) = User::new("cnitool-gone") else {
            return;
        };
        let (host, asked) = (&user.host, asked());
        host.configure(&chain(*names, "1.0.0"));
        let first = user.pod("first");
        user.run("add", &first, &asked);
        user.run("del", &first, &asked);
        let before = host.snapshot("pods");

        let pod = user.pod("pod");
        user.run("add", &pod, &asked);
        sh(&pod.namespace, "ip link delete eth0");
        host.read("ip", &["netns", "delete", "pod"]);
        user.run("del", &pod, &asked);
        assert_eq!(host.snapshot("pods").reservations, [""; 0]);
        if are_ours("the masquerade rule of a pod whose namespace is gone stays") {
            host.expect_as_before("gone", &before, "pods");
        }
    }
}
