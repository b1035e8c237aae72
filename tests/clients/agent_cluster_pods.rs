//! The agent as it is shipped, on a cluster: a control plane, and three nodes with containerd and a kubelet each.
//! `make test-cluster` builds what it needs, once; without that it is skipped.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

#[path = "cluster/worker.rs"]
mod worker;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clients::{CONTAINERD, Host, SERVER, are_here, fetch};
use lab::{Namespace, Window, read_reservations, rules_by};
use serde_json::{Value, json};
use tests::{Plane, Segment, at, binary_folder, eventually_within, soon_or_later};

use worker::Worker;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// The agent's network, where no cluster file gives it another name.
const NETWORK: &str = "k8nd-pod-network";
const NODES: [&str; 3] = ["k8sworker0", "k8sworker1", "k8sworker2"];
/// How long a cluster may take for what needs many of its programs. GC alone is done every 3 minutes.
const LONG: Duration = Duration::from_secs(600);
/// What both annotations of the application's pods say, in bits per second.
const RATE: f64 = 1e6;

/// Waits until something is so; else says what it found last.
#[track_caller]
fn in_the_end(attempt: impl Fn() -> Result<(), String>) {
    let last = eventually_within(LONG, attempt);
    assert_eq!(last, Ok(()), "not so after {LONG:?}");
}

/// The agent's image, made of the built programs.
fn image(folder: &Path) -> PathBuf {
    let programs = binary_folder().canonicalize().unwrap();
    let mut image = Command::new(Path::new(ROOT).join("packaging/image"));
    let output = image.arg(programs).arg(folder).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8(output.stdout).unwrap().trim().into()
}

/// A pod of an application on every node.
fn application() -> Value {
    let labels = json!({ "app": "web" });
    let rates = json!({
        "kubernetes.io/ingress-bandwidth": "1M",
        "kubernetes.io/egress-bandwidth": "1M"
    });
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": "web" },
        "spec": {
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels, "annotations": rates },
                "spec": { "containers": [{
                    "name": "web", "image": SERVER.name, "imagePullPolicy": "Never",
                    "ports": [{ "containerPort": 80, "hostPort": 8080 }]
                }] }
            }
        }
    })
}

/// Waits until a DaemonSet has a ready pod on each node.
#[track_caller]
fn rolled_out(plane: &Plane, namespace: &str, name: &str) {
    in_the_end(|| {
        let set = plane.get(&["daemonset", name, "-n", namespace]);
        let (status, wanted) = (&set["status"], &set["metadata"]["generation"]);
        let is_out = &status["observedGeneration"] == wanted
            && status["updatedNumberScheduled"] == 3
            && status["numberReady"] == 3;
        if is_out {
            Ok(())
        } else {
            Err(status.to_string())
        }
    });
}

/// Says of a node, as a cloud's controller does, that it has no network.
fn without_network(plane: &Plane, name: &str) {
    let status = format!("/api/v1/nodes/{name}/status");
    soon_or_later(|| {
        let mut node = plane.node(name);
        let conditions = node["status"]["conditions"].as_array_mut().unwrap();
        conditions.push(json!({
            "type": "NetworkUnavailable", "status": "True", "reason": "NoRoute", "message": "none yet"
        }));
        let words = ["replace", "--raw", &status, "-f", "-"];
        plane.kubectl(&words, &node.to_string()).is_some()
    });
}

/// The effects of a node's taints, by their keys.
fn taints(plane: &Plane, name: &str) -> Vec<String> {
    let node = plane.get(&["node", name]);
    let taints = node["spec"]["taints"].as_array().cloned();
    let taints = taints.unwrap_or_default().into_iter();
    taints
        .map(|taint| taint["key"].as_str().unwrap_or_default().to_owned())
        .collect()
}

fn address(number: usize) -> IpAddr {
    at(&format!("192.168.199.21{number}"))
}

/// From each pod of the application to each, and from outside to the host port of each node.
#[track_caller]
fn expect_all_reached(workers: &mut [Worker], other: &Namespace) {
    let pods: Vec<_> = workers.iter_mut().map(Worker::web).collect();
    for (number, (from, own)) in pods.iter().enumerate() {
        for (_, to) in pods.iter().filter(|(_, to)| to != own) {
            fetch(from, SocketAddr::new(*to, 80));
        }
        fetch(other, SocketAddr::new(address(number), 8080));
    }
}

/// Applies what is shipped, as the docs say, and waits until each node has its network.
#[track_caller]
fn deploy(plane: &Plane) {
    let deploy = Path::new(ROOT).join("deploy").display().to_string();
    plane.kubectl(&["apply", "-k", &deploy], "").unwrap();
    // No kube-proxy is there.
    let api = [
        "KUBERNETES_SERVICE_HOST=192.168.199.1",
        "KUBERNETES_SERVICE_PORT=6443",
    ];
    let set = ["set", "env", "daemonset/podnet-agent", "-n", "kube-system"];
    plane.kubectl(&[&set[..], &api].concat(), "").unwrap();
    rolled_out(plane, "kube-system", "podnet-agent");
    for name in NODES {
        in_the_end(|| match taints(plane, name) {
            taints if taints.is_empty() => Ok(()),
            taints => Err(format!("{name}: {taints:?}")),
        });
    }
}

fn reservations(host: &Host) -> Vec<String> {
    read_reservations(&host.node.data.join(NETWORK)).unwrap()
}

/// That a node which crashes and comes back finds removed what its pod has left, and that this is there before.
#[track_caller]
fn crash_and_return(worker: &mut Worker, image: &Path) {
    let leaked = worker.web_sandbox();
    let host = worker.host;
    let leaks = || {
        let of_rules = rules_by(&host.node.namespace, "iptables-save").unwrap();
        [reservations(host), of_rules].map(|list| list.iter().any(|line| line.contains(&leaked)))
    };
    worker.crash();
    assert_eq!(leaks(), [true, true]);
    worker.restart(image);
    in_the_end(|| match leaks() {
        [false, false] => Ok(()),
        left => Err(format!("reservation, rules: {left:?}")),
    });
}

#[test]
fn the_agent_makes_the_network_of_a_cluster() {
    if !are_here(&CONTAINERD) {
        return;
    }
    let Some(mut segment) = Segment::new("cluster") else {
        return;
    };
    let nodes = std::mem::take(&mut segment.nodes);
    let folder = segment.file.parent().unwrap();
    let Some(mut plane) = Plane::new(&segment.other, folder) else {
        return;
    };
    let outside = || Namespace::open(segment.other.path()).unwrap();
    let of_each = nodes.into_iter();
    let hosts: Vec<Host> = of_each.map(|node| Host::of(node, outside())).collect();
    let image = image(folder);
    let delete = ["delete", "daemonset", "podnet-agent", "-n", "kube-system"];
    plane.kubectl(&delete, "").unwrap();
    plane.run_pods();
    let of_each = hosts.iter().zip(NODES);
    let start = |(host, name)| Worker::start(host, name, &plane, &image);
    let mut workers: Vec<Worker> = of_each.map(start).collect();
    let is_there = |name| plane.get(&["node", name]).is_object();
    soon_or_later(|| NODES.into_iter().all(is_there));
    let [first, ..] = NODES;
    without_network(&plane, first);
    let taint = "node.kubernetes.io/network-unavailable".to_owned();
    soon_or_later(|| taints(&plane, first).contains(&taint));

    deploy(&plane);
    plane.create(&application());
    rolled_out(&plane, "default", "web");
    expect_all_reached(&mut workers, &segment.other);
    expect_shaped(&mut workers[0], &segment.other);

    crash_and_return(&mut workers[1], &image);
    rolled_out(&plane, "default", "web");
    expect_all_reached(&mut workers, &segment.other);
    expect_all_removed(&plane, &hosts);
}

/// That the end of the application leaves nothing on the nodes, where the agent's pods still see all that was mounted.
#[track_caller]
fn expect_all_removed(plane: &Plane, hosts: &[Host]) {
    plane.kubectl(&["delete", "daemonset", "web"], "").unwrap();
    for host in hosts {
        in_the_end(|| {
            let (namespaces, reservations) = (host.namespaces(), reservations(host));
            match namespaces.is_empty() && reservations.is_empty() {
                true => Ok(()),
                false => Err(format!("{namespaces:?} {reservations:?}")),
            }
        });
        let rules = rules_by(&host.node.namespace, "iptables-save").unwrap();
        assert!(
            !rules.iter().any(|rule| rule.contains(NETWORK)),
            "{rules:?}"
        );
    }
}

/// That no more passes than the annotations say. The burst is a second's worth at so low a rate.
#[track_caller]
fn expect_shaped(worker: &mut Worker, other: &Namespace) {
    let (pod, own) = worker.web();
    let window = Window {
        warm_up: Duration::from_secs(2),
        counted: Duration::from_secs(2),
    };
    let node = &worker.host.node.namespace;
    for (from, to, address) in [
        (node, &pod, SocketAddr::new(own, 0)),
        (&pod, other, at("192.168.199.1:0")),
    ] {
        let passed = lab::throughput(from, to, address, window).unwrap();
        assert!(passed < RATE * 1.1, "to {address}: {passed}");
    }
}
