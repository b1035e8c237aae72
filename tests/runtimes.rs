//! Calls as real runtimes make them, without one. The runtimes themselves: `tests/clients`.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use std::process::{Command, Stdio};

use lab::Snapshot;
use serde_json::{Value, json};
use tests::{Node, Pod, expect_none, kind, with};

/// What the CRI puts into CNI_ARGS, in one of its orders.
const CRI_ARGS: &str = "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web-0;\
    K8S_POD_INFRA_CONTAINER_ID=0123abcd;K8S_POD_UID=5c7a4c02-0f2e-4d5a-b0a4-2f7d4f2b9b1e";
/// What it gives as the burst when only a rate was annotated, in bits.
const NO_BURST: u64 = 4_294_967_295;

/// The chain of the conflist as containerd hands it over.
fn containerd(node: &Node, version: &str, runtime_config: Option<Value>) -> Vec<Value> {
    let list = node.conflist("10-k8nd.conflist");
    let configs = node.configs(&list, &json!({}));
    let complete = |config: &Value| {
        let mut config = with(config, "cniVersion", &json!(version));
        match &runtime_config {
            Some(given) => config["runtimeConfig"] = given.clone(),
            None => config = with(&config, "runtimeConfig", &Value::Null),
        }
        config
    };
    configs.iter().map(complete).collect()
}

fn add(node: &Node, configs: &[Value], pod: &Pod, env: &[(&str, &str)]) -> Value {
    let mut result = Value::Null;
    for config in configs {
        let config = with(config, "prevResult", &result);
        let answer = node.call(kind(&config), "ADD", pod, &config, env);
        result = answer.ok().clone();
    }
    result
}

/// As a runtime does it at the end of a pod: with all it knows, and once more with little.
#[track_caller]
fn del_twice(node: &Node, configs: &[Value], pod: &Pod, result: &Value, args: &str) {
    for (netns, result) in [(None, result), (Some(""), &Value::Null)] {
        for config in configs.iter().rev() {
            let config = with(config, "prevResult", result);
            let mut env = vec![("CNI_ARGS", args)];
            env.extend(netns.map(|netns| ("CNI_NETNS", netns)));
            let answer = node.call(kind(&config), "DEL", pod, &config, &env);
            assert_eq!(
                (answer.status, answer.stdout.as_str()),
                (0, ""),
                "{answer:?}"
            );
        }
    }
}

/// A node on which a pod was, and what it holds.
fn used() -> Option<(Node, Snapshot)> {
    let node = Node::new("runtimes")?;
    let ports = json!([{ "hostPort": 7080, "containerPort": 80, "protocol": "tcp" }]);
    let configs = containerd(&node, "1.0.0", Some(json!({ "portMappings": ports })));
    let pod = node.pod("first");
    let result = add(&node, &configs, &pod, &[]);
    del_twice(&node, &configs, &pod, &result, "");
    let before = node.snapshot("k8nd-pod-network");
    Some((node, before))
}

#[test]
fn containerd_with_ports_and_rates() {
    let Some((node, before)) = used() else {
        return;
    };
    let outside = node.outside();
    let before = Snapshot {
        links: node.snapshot("k8nd-pod-network").links,
        ..before
    };
    let given = json!({
        "portMappings": [
            { "HostPort": 18080, "ContainerPort": 8080, "Protocol": "tcp", "HostIP": "" }
        ],
        "bandwidth": {
            "IngressRate": 10_000_000, "IngressBurst": NO_BURST,
            "EgressRate": 20_000_000, "EgressBurst": NO_BURST
        },
        "dns": { "Servers": [], "Searches": [], "Options": [] },
        "io.kubernetes.cri.pod-annotations": { "kubernetes.io/ingress-bandwidth": "10M" },
        "cgroupPath": "/kubepods/besteffort/pod1"
    });
    for version in ["0.3.1", "0.4.0", "1.0.0", "1.1.0"] {
        let configs = containerd(&node, version, Some(given.clone()));
        let pod = Pod {
            id: "0123456789abcdef".repeat(4),
            ..node.pod(&format!("cni-{version}"))
        };
        let result = add(&node, &configs, &pod, &[("CNI_ARGS", CRI_ARGS)]);

        let address = tests::address(&result);
        let _server = pod.namespace.serve_tcp((address, 8080).into()).unwrap();
        let seen = outside.ask_tcp(([192, 0, 2, 10], 18080).into()).unwrap();
        assert_eq!(seen.local.ip(), address, "{version}");
        let veth = result["interfaces"][1]["name"].as_str().unwrap();
        let ifb = result["interfaces"][3]["name"].as_str().unwrap();
        for (link, rate, burst) in [(veth, "10Mbit", "128Kb"), (ifb, "20Mbit", "250000b")] {
            let arguments = ["-d", "qdisc", "show", "dev", link, "root"];
            let said = node.namespace.read("tc", &arguments).unwrap();
            assert!(
                said.contains(&format!("rate {rate} burst {burst}/1 ")),
                "{said}"
            );
        }
        del_twice(&node, &configs, &pod, &result, CRI_ARGS);
        assert_eq!(node.snapshot("k8nd-pod-network"), before, "{version}");
    }
}

#[test]
fn containerd_with_nothing_to_tell() {
    let Some((node, before)) = used() else {
        return;
    };
    for given in [None, Some(Value::Null), Some(json!({}))] {
        let configs = containerd(&node, "1.0.0", given.clone());
        let pod = node.pod("pod");
        let result = add(&node, &configs, &pod, &[("CNI_ARGS", CRI_ARGS)]);
        let names: Vec<_> = result["interfaces"].as_array().unwrap().iter().collect();
        assert_eq!(names.len(), 3, "{given:?}: no ifb");
        let made = node.snapshot("k8nd-pod-network").since(&before);
        assert_eq!(made.qdiscs, [""; 0], "{given:?}");
        assert!(!made.to_string().contains("CNI-DN-"), "{given:?}");
        del_twice(&node, &configs, &pod, &result, CRI_ARGS);
        assert_eq!(node.snapshot("k8nd-pod-network"), before, "{given:?}");
        pod.namespace.remove().unwrap();
    }
}

#[test]
fn a_namespace_that_is_known_by_its_process() {
    let Some((node, before)) = used() else {
        return;
    };
    let pod = node.pod("default-c1");
    let mut process = Command::new("sleep");
    let process = process.arg("1000").stdin(Stdio::null());
    let mut child = pod.namespace.spawn(process).unwrap();
    let netns = format!("/proc/{}/ns/net", child.id());
    let configs = containerd(&node, "1.0.0", None);
    let env = [("CNI_NETNS", netns.as_str())];
    let result = add(&node, &configs, &pod, &env);
    assert_eq!(result["interfaces"][2]["sandbox"], netns);
    for config in &configs {
        let config = with(config, "prevResult", &result);
        node.call(kind(&config), "CHECK", &pod, &config, &env).ok();
    }
    // The process ends first.
    child.kill().unwrap();
    child.wait().unwrap();
    for config in configs.iter().rev() {
        let config = with(config, "prevResult", &result);
        node.call(kind(&config), "DEL", &pod, &config, &env).ok();
    }
    assert_eq!(node.snapshot("k8nd-pod-network"), before);
}

#[test]
fn podman_with_a_static_address_and_mac() {
    let Some(node) = Node::new("runtimes") else {
        return;
    };
    // As `podman network create` writes it, without the plugins that are not ours.
    let written = json!({
        "cniVersion": "0.4.0", "name": "web",
        "plugins": [
            {
                "type": "bridge", "bridge": "cni-podman1", "isGateway": true, "ipMasq": true,
                "hairpinMode": true,
                "ipam": {
                    "type": "host-local", "routes": [{ "dst": "0.0.0.0/0" }],
                    "ranges": [[{ "subnet": "10.89.5.0/24", "gateway": "10.89.5.1" }]]
                },
                "capabilities": { "ips": true }
            },
            { "type": "portmap", "capabilities": { "portMappings": true } }
        ]
    });
    expect_none(schemas::flaws(&schemas::shipped("conflist"), &written));
    let list = node.list(written);
    let args = "IgnoreUnknown=1;K8S_POD_NAME=w2;MAC=02:11:22:33:44:55;IP=10.89.5.77";
    let asked = json!({ "portMappings": [
        { "hostPort": 8080, "containerPort": 80, "protocol": "tcp", "hostIP": "" }
    ] });
    let configs = node.configs(&list, &asked);
    let pod = node.pod("w2");
    // The same container again, as after a restart.
    for _ in 0..2 {
        let result = add(&node, &configs, &pod, &[("CNI_ARGS", args)]);
        assert_eq!(result["ips"][0]["address"], "10.89.5.77/24");
        assert_eq!(result["ips"][0]["version"], "4");
        assert_eq!(result["interfaces"][2]["mac"], "02:11:22:33:44:55");
        let inside = pod.namespace.read("ip", &["link", "show", "eth0"]).unwrap();
        assert!(inside.contains("02:11:22:33:44:55"), "{inside}");
        del_twice(&node, &configs, &pod, &result, args);
        assert!(node.snapshot("web").reservations.is_empty());
    }
}

#[test]
fn status_as_a_kubelet_asks_for_it() {
    let Some((node, _)) = used() else {
        return;
    };
    let nobody = ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"].map(|name| (name, ""));
    let pod = node.pod("pod");
    for config in containerd(&node, "1.1.0", None) {
        let answer = node.call(kind(&config), "STATUS", &pod, &config, &nobody);
        assert_eq!(
            (answer.status, answer.stdout.as_str()),
            (0, ""),
            "{answer:?}"
        );
    }
}
