//! A node that `podnet doctor` looks at.

use std::io::ErrorKind;

use cni::runtime::NetworkList;
use serde_json::json;

use crate::tools::legacy_path;
use crate::{Answer, Pod, Segment, eventually, expect_none, sh};

/// The network of planned conflists.
pub const NETWORK: &str = "k8nd-pod-network";

/// The first of three nodes, with two pods on it.
#[derive(Debug)]
pub struct Patient {
    /// The nodes.
    pub segment: Segment,
    /// The chain of the first.
    pub list: NetworkList,
    /// Its pods, `one` and `two`, with the host ports 8080 and 8081.
    pub pods: Vec<Pod>,
    veth: String,
}

/// Something that can go wrong on a node: its name, the shell lines that do it, and the one kind of
/// finding that there must be then. In the lines, `$VETH` is the first pod's link on the node, `$POD` its
/// namespace, `$STORE` the folder of reservations, `$CONF` and `$BIN` those of configurations and plugins.
pub type Fault<'a> = (&'a str, &'a str, &'a str);

/// Whether the doctor can read all rules here; else that is said aloud and counted.
pub fn can_read_rules() -> bool {
    let tables = std::fs::read("/proc/net/ip_tables_names");
    let hidden = tables.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied);
    if hidden {
        lab::skip("the kernel tells an ordinary user nothing of legacy tables");
    }
    !hidden
}

impl Patient {
    /// `None`, said aloud and counted, where this machine cannot make it.
    pub fn new(label: &str) -> Option<Patient> {
        Patient::with(label, "iptables")
    }

    /// With pods whose rules are made by that backend; `legacy` is that variant of iptables.
    pub fn with(label: &str, backend: &str) -> Option<Patient> {
        let mut segment = Segment::new(label).filter(|_| can_read_rules())?;
        if backend == "legacy" {
            let node = &mut segment.nodes[0];
            let path = legacy_path(&node.folder().join("legacy"));
            node.path = path.or_else(|| {
                lab::skip("iptables-legacy is not installed");
                None
            })?;
        }
        let backend = if backend == "legacy" {
            "iptables"
        } else {
            backend
        };
        segment.podnet(0, "routes apply").ok();
        let mut list = segment.conflist(0);
        for plugin in &mut list.plugins {
            let key = match plugin["type"].as_str().unwrap() {
                "bridge" => "ipMasqBackend",
                "portmap" => "backend",
                _ => continue,
            };
            plugin.insert(key.to_owned(), json!(backend));
        }
        let node = &segment.nodes[0];
        let mut pods = Vec::new();
        let mut veth = String::new();
        for (index, name) in ["one", "two"].into_iter().enumerate() {
            let pod = node.pod(name);
            let given = json!({
                "portMappings": [{ "hostPort": 8080 + index, "containerPort": 80, "protocol": "tcp" }],
                "bandwidth": { "ingressRate": 8_000_000, "ingressBurst": 8_000_000,
                    "egressRate": 8_000_000, "egressBurst": 8_000_000 },
            });
            let added = node.add(&list, &pod, given).unwrap();
            if index == 0 {
                veth.clone_from(&added.interfaces[1].name);
            }
            pods.push(pod);
        }
        Some(Patient {
            segment,
            list,
            pods,
            veth,
        })
    }

    /// `podnet doctor` with the plan.
    #[track_caller]
    pub fn doctor(&self, words: &str) -> Answer {
        let cache = self.segment.nodes[0].cache.display().to_string();
        self.segment
            .podnet(0, &format!("doctor --cache-dir {cache} {words}"))
    }

    /// Without it.
    #[track_caller]
    pub fn alone(&self, words: &[&str]) -> Answer {
        let cache = self.segment.nodes[0].cache.display().to_string();
        let words = [&["doctor", "--cache-dir", &cache], words].concat();
        self.segment.nodes[0].podnet(&words)
    }

    /// Runs shell lines on the node.
    #[track_caller]
    pub fn sh(&self, lines: &str) -> String {
        sh(&self.segment.nodes[0].namespace, &self.expand(lines))
    }

    /// The lines with what `$VETH` and the like stand for.
    pub fn expand(&self, lines: &str) -> String {
        let node = &self.segment.nodes[0];
        lines
            .replace("$VETH", &self.veth)
            .replace("$STORE", &node.data.join(NETWORK).to_string_lossy())
            .replace("$CONF", &node.configurations().to_string_lossy())
            .replace("$BIN", &node.bin.to_string_lossy())
            .replace("$POD", &self.pods[0].namespace.path().to_string_lossy())
    }

    /// That the node is in good order, by what could be read of it.
    ///
    /// # Errors
    /// What was said instead.
    pub fn is_healthy(&self) -> Result<(), String> {
        let answer = self.doctor("");
        let healthy = "node=k8sworker0\nfindings=0\n";
        match (answer.status, answer.stdout.as_str()) {
            (0, said) if said == healthy => Ok(()),
            _ => Err(format!("not healthy: {}{}", answer.stdout, answer.stderr)),
        }
    }

    /// That a fault gives this kind of finding and no other, and that the commands that are told mend
    /// it.
    fn is_found(&self, (name, done, id): Fault) -> Result<(), String> {
        self.sh(done);
        let found = eventually(|| {
            let answer = self.doctor("");
            let found = told(&answer, "finding=");
            match found.iter().all(|found| found == id) && !found.is_empty() && answer.status == 1 {
                true => Ok(answer),
                false => Err(format!("{name}: {}{}", answer.stdout, answer.stderr)),
            }
        })?;
        for line in told(&found, "mend=") {
            let ran = self.mend(&line);
            ran.map_err(|error| format!("{name}: {line}: {error}"))?;
        }
        eventually(|| self.is_healthy()).map_err(|said| format!("{name}: {said}"))
    }

    /// Runs a command that the doctor has told, on the node.
    ///
    /// # Errors
    /// It fails.
    pub fn mend(&self, command: &str) -> lab::Result<String> {
        let node = &self.segment.nodes[0].namespace;
        node.read("sh", &["-ec", &self.usual(command)])
    }

    /// A command with the node's folders and the built binaries.
    fn usual(&self, command: &str) -> String {
        let node = &self.segment.nodes[0];
        let bin = crate::binary_folder().canonicalize().unwrap();
        format!(
            "export PATH={}:$PATH CNI_PATH={} NETCONFPATH={}; {command}",
            bin.display(),
            node.bin.display(),
            node.configurations().display()
        )
    }

    /// That each fault is found, and mended.
    ///
    /// # Panics
    /// With all that were not.
    #[track_caller]
    pub fn expect_found(&self, faults: &[Fault]) {
        self.is_healthy().unwrap();
        expect_none(
            faults
                .iter()
                .filter_map(|fault| self.is_found(*fault).err())
                .collect(),
        );
    }
}

/// What follows a key in each of its lines.
pub fn told(answer: &Answer, key: &str) -> Vec<String> {
    let lines = answer
        .stdout
        .lines()
        .filter_map(|line| line.strip_prefix(key));
    lines.map(str::to_owned).collect()
}
