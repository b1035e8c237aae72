//! Nodes of Kubernetes itself, as tests make, change and look at them.

use std::fs;
use std::path::Path;
use std::process::Command;

use cni::runtime::NetworkList;
use serde_json::{Value, json};

use crate::{Agent, Node, Pings, Plane, api_node, soon};

/// A Node of a [`crate::Segment`], as a kubelet registers it: without a range.
pub fn registered(number: u8) -> Value {
    let address = format!("192.168.199.21{number}");
    kubernetes_node(&format!("k8sworker{number}"), &[], &[&address])
}

/// A Node with ranges and InternalIPs.
pub fn kubernetes_node(name: &str, ranges: &[&str], addresses: &[&str]) -> Value {
    let mut node = api_node(name, ranges, addresses);
    node["apiVersion"] = "v1".into();
    if ranges.is_empty() {
        node["spec"] = json!({});
    }
    node
}

/// Routes in the order in which they are told.
pub fn routes_to(ranges: &[(&str, &str)]) -> Vec<String> {
    let mut routes: Vec<_> = ranges
        .iter()
        .map(|(range, via)| format!("{range} {via}"))
        .collect();
    routes.sort_by_key(|route| {
        let range = route.split(' ').next().unwrap_or_default();
        range.parse::<ipnet::IpNet>().unwrap()
    });
    routes
}

/// The conflist that an agent has written for pods of its node. It must know the node's folder of reservations.
#[track_caller]
pub fn agents_conflist(node: &Node, agent: &Agent) -> NetworkList {
    let file = node.configurations().join("10-podnet.conflist");
    soon(|| file.exists(), || agent.log());
    NetworkList::parse(fs::read(file).unwrap()).unwrap()
}

/// A pod on each of two nodes, by the conflists of their agents; they ping each other from here on.
#[track_caller]
pub fn pods_that_ping(nodes: &[Node], agents: [&Agent; 2]) -> [Pings; 2] {
    let mut pods = nodes.iter().zip(agents).map(|(node, agent)| {
        let pod = node.pod("pod");
        let list = agents_conflist(node, agent);
        let added = node.add(&list, &pod, json!({})).unwrap();
        (pod, added.ips[0].address.addr())
    });
    let (first, second) = (pods.next().unwrap(), pods.next().unwrap());
    [(&first, &second), (&second, &first)].map(|(from, to)| Pings::start(&from.0.namespace, to.1))
}

impl Plane<'_> {
    /// The range that a node was given.
    pub fn range_of(&self, name: &str) -> Option<String> {
        self.ranges_of(name).into_iter().next()
    }

    /// The ranges that a node was given.
    pub fn ranges_of(&self, name: &str) -> Vec<String> {
        let node = self.node(name);
        let ranges = node["spec"]["podCIDRs"].as_array();
        let ranges = ranges.into_iter().flatten();
        ranges
            .filter_map(|range| range.as_str().map(str::to_owned))
            .collect()
    }

    /// Whether it is said that a node has no network.
    pub fn condition(&self, name: &str) -> Option<Value> {
        Some(self.network_unavailable(name)?["status"].clone())
    }

    /// The condition by which pods are kept off a node.
    pub fn network_unavailable(&self, name: &str) -> Option<Value> {
        let node = self.node(name);
        let conditions = node["status"]["conditions"].as_array()?;
        let mut conditions = conditions.iter();
        conditions
            .find(|one| one["type"] == "NetworkUnavailable")
            .cloned()
    }

    /// Gives a node other InternalIPs, as its kubelet does.
    #[track_caller]
    pub fn readdress(&self, name: &str, addresses: &[&str]) {
        let status = kubernetes_node(name, &[], addresses)["status"].clone();
        let patch = json!({ "status": status }).to_string();
        let words = ["patch", "node", name, "--subresource=status", "-p", &patch];
        let merge = ["--type", "merge"];
        let said = self.kubectl(&[&words[..], &merge].concat(), "");
        assert!(said.is_some(), "{name}: {patch}");
    }

    /// Keeps what the store holds now; nobody is served meanwhile.
    pub fn keep_store(&mut self) {
        self.stop_all();
        let kept = self.path("kept");
        let _ = fs::remove_dir_all(&kept);
        copy_folder(&self.path("store"), &kept);
        self.start_store();
        self.start_api();
    }

    /// Takes the store back to what was kept, as from a backup.
    pub fn roll_back(&mut self) {
        self.stop_all();
        fs::remove_dir_all(self.path("store")).unwrap();
        copy_folder(&self.path("kept"), &self.path("store"));
        self.start_store();
        self.start_api();
    }

    fn stop_all(&mut self) {
        for name in ["kube-controller-manager", "kube-apiserver", "etcd"] {
            self.stop(name);
        }
    }

    /// Deletes a node.
    #[track_caller]
    pub fn delete(&self, name: &str) {
        let said = self.kubectl(&["delete", "node", name], "");
        assert!(said.is_some(), "{name} cannot be deleted");
    }

    /// The reasons of the events about nodes, each after its node's name, as `kubectl get events` tells them.
    pub fn events(&self) -> Vec<String> {
        let words = ["get", "events", "--all-namespaces", "-o", "json"];
        let text = self.kubectl(&words, "").unwrap_or_default();
        let events: Value = serde_json::from_str(&text).unwrap_or_default();
        let events = events["items"].as_array().cloned().unwrap_or_default();
        let events = events
            .iter()
            .filter(|event| event["source"]["component"] != "node-controller");
        let mut told: Vec<_> = events
            .filter_map(|event| {
                let name = event["involvedObject"]["name"].as_str()?;
                Some(format!("{name} {}", event["reason"].as_str()?))
            })
            .collect();
        told.sort();
        told
    }

    /// What the agents have asked, by the API server's own log: verb, URI, and the answer's status.
    pub fn asked(&self) -> Vec<(String, String, u64)> {
        let log = fs::read_to_string(self.path("audit.log")).unwrap_or_default();
        let entries = log
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        entries
            .filter(|entry| {
                // What goes on is written down twice.
                let is_watch = entry["verb"] == "watch";
                (entry["stage"] == "ResponseStarted") == is_watch
            })
            .map(|entry| {
                let status = entry["responseStatus"]["code"].as_u64();
                (
                    text(&entry["verb"]),
                    text(&entry["requestURI"]),
                    status.unwrap_or_default(),
                )
            })
            .collect()
    }
}

fn copy_folder(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(copied.unwrap().success(), "{}", from.display());
}
