//! A node that a runtime has crashed on.

use std::fs;
use std::process::Command;

use lab::{Namespace, Snapshot};
use serde_json::json;
use tests::{Answer, Node, binary_folder};

use crate::fake::FakeRuntime;

/// The network of `conf/10-k8nd.conflist`.
pub const NETWORK: &str = "k8nd-pod-network";

/// A node with a runtime, whose sandboxes get their network by `podnet add`.
pub struct Crash {
    // Dropped first: its socket is in the node's folder.
    pub runtime: FakeRuntime,
    pub pods: Vec<Namespace>,
    pub node: Node,
}

impl Crash {
    /// A node whose network is of that version of the specification.
    pub fn new(label: &str, version: &str) -> Option<Crash> {
        let node = Node::new(label)?;
        fs::create_dir(node.folder().join("net.d")).unwrap();
        node.outside();
        let mut crash = Crash {
            runtime: FakeRuntime::new(node.folder()),
            pods: Vec::new(),
            node,
        };
        crash.configure(NETWORK, 0, version);
        // What all pods share comes with the first.
        crash.add(NETWORK, "first", "eth0");
        let netns = crash.pods[0].path().to_string_lossy().into_owned();
        let del = ["del", NETWORK, &netns, "--container-id", "first"];
        crash.podnet(&del).ok();
        Some(crash)
    }

    /// Writes a network of the whole chain, with a bridge and a range of that number.
    pub fn configure(&self, name: &str, number: u8, version: &str) {
        let ipam = json!({
            "type": "host-local",
            "ranges": [[{ "subnet": format!("10.244.{number}.0/24") }]],
            "routes": [{ "dst": "0.0.0.0/0" }]
        });
        let bridge = json!({ "bridge": format!("cni{number}"), "ipam": ipam });
        let head = json!({ "name": name, "cniVersion": version });
        let changes = [("", head), ("bridge", bridge)];
        let list = self.node.conflist_with("10-k8nd.conflist", &changes);
        let file = self.node.folder().join(format!("net.d/{name}.conflist"));
        fs::write(file, list.raw).unwrap();
    }

    /// A call on the node.
    pub fn podnet(&self, words: &[&str]) -> Answer {
        let mut podnet = Command::new(binary_folder().join("podnet"));
        podnet
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("CNI_PATH", &self.node.bin)
            .env("NETCONFPATH", self.node.folder().join("net.d"))
            .args(words)
            .arg("--cache-dir")
            .arg(&self.node.cache);
        self.node.namespace.output(&mut podnet, b"").unwrap().into()
    }

    /// An attachment as a runtime asks for it, with a host port and rates.
    pub fn add(&mut self, network: &str, id: &str, ifname: &str) {
        let args = format!(
            "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=pod-{id};\
             K8S_POD_INFRA_CONTAINER_ID={id};K8S_POD_UID=u"
        );
        self.add_with(network, id, ifname, &args);
    }

    pub fn add_with(&mut self, network: &str, id: &str, ifname: &str, args: &str) {
        let name = format!("{network}-{id}-{ifname}");
        let pod = self.node.namespace(&name);
        let port = 20_000 + self.pods.len();
        let netns = pod.path().to_string_lossy().into_owned();
        self.pods.push(pod);
        let port = format!("{port}:80");
        let words = [
            "add",
            network,
            &netns,
            "--container-id",
            id,
            "--ifname",
            ifname,
            "--args",
            args,
            "--port",
            &port,
            "--ingress",
            "10M",
            "--egress",
            "10M",
        ];
        self.podnet(&words).ok();
    }

    /// GC by the runtime's list.
    pub fn gc(&self, words: &[&str]) -> Answer {
        let from = ["gc", "--from-cri", self.runtime.endpoint()];
        self.podnet(&[&from[..], words].concat())
    }

    pub fn snapshot(&self) -> Snapshot {
        self.node.snapshot(NETWORK)
    }

    /// The names of the cached results.
    pub fn cached(&self) -> Vec<String> {
        let entries = fs::read_dir(self.node.cache.join("results")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    pub fn forget(&self, network: &str, id: &str) {
        let file = format!("results/{network}-{id}-eth0");
        fs::remove_file(self.node.cache.join(file)).unwrap();
    }
}
