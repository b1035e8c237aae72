//! The reference plugins, to be called beside ours on nodes that are alike.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::by_hand::{kind, with};
use crate::{Answer, Node, Pod};

/// Where Debian's package `containernetworking-plugins` puts them.
const FOLDER: &str = "/usr/lib/cni";

/// One set of plugins, to be called as a runtime does on a node.
#[derive(Debug)]
pub struct Plugins<'a> {
    /// The node.
    pub node: &'a Node,
    /// `CNI_PATH`.
    folder: PathBuf,
    /// `PATH`.
    path: String,
}

impl Plugins<'_> {
    /// Ours, on a node whose iptables is of `variant`.
    pub fn ours<'a>(node: &'a Node, variant: &str) -> Plugins<'a> {
        Plugins::of_folder(node, node.bin.clone(), variant)
    }

    /// The reference plugins, on a node whose iptables is of `variant`.
    pub fn theirs<'a>(node: &'a Node, variant: &str) -> Plugins<'a> {
        Plugins::of_folder(node, FOLDER.into(), variant)
    }

    fn of_folder<'a>(node: &'a Node, folder: PathBuf, variant: &str) -> Plugins<'a> {
        let path = lab::iptables_path(&node.folder().join(variant), variant).unwrap();
        Plugins {
            node,
            folder,
            path: path.into_string().unwrap(),
        }
    }

    /// One call of one plugin.
    #[track_caller]
    pub fn call(&self, config: &Value, command: &str, pod: &Pod, env: &[(&str, &str)]) -> Answer {
        let program = self.folder.join(kind(config)).display().to_string();
        let folder = self.folder.display().to_string();
        let mut all = vec![("CNI_PATH", folder.as_str()), ("PATH", &self.path)];
        all.extend(env);
        self.node.call(&program, command, pod, config, &all)
    }

    /// Runs a tool as the plugins find it.
    ///
    /// # Panics
    /// It fails.
    pub fn tool(&self, program: &str, arguments: &[&str]) -> String {
        let path = format!("PATH={}", self.path);
        let arguments = [&[path.as_str(), program], arguments].concat();
        self.node.namespace.read("env", &arguments).unwrap()
    }

    /// ADD of each plugin, with the result of the one before; the last one's answer, or that of
    /// the one that failed.
    #[track_caller]
    pub fn add(&self, configs: &[Value], pod: &Pod, env: &[(&str, &str)]) -> Answer {
        let mut result = Value::Null;
        let mut last = None;
        for config in configs {
            let answer = self.call(&with(config, "prevResult", &result), "ADD", pod, env);
            result = answer.json.clone();
            let failed = answer.status != 0;
            last = Some(answer);
            if failed {
                break;
            }
        }
        last.unwrap()
    }

    /// CHECK of each plugin with the chain's result; all must succeed.
    #[track_caller]
    pub fn check(&self, configs: &[Value], pod: &Pod, result: &Value) {
        for config in configs {
            let config = with(config, "prevResult", result);
            let answer = self.call(&config, "CHECK", pod, &[]);
            assert_eq!(answer.status, 0, "CHECK of {}: {answer:?}", kind(&config));
        }
    }

    /// DEL of each plugin with the chain's result, the last first; all must succeed.
    #[track_caller]
    pub fn del(&self, configs: &[Value], pod: &Pod, result: &Value) {
        for config in configs.iter().rev() {
            let config = with(config, "prevResult", result);
            let answer = self.call(&config, "DEL", pod, &[]);
            assert_eq!(answer.status, 0, "DEL of {}: {answer:?}", kind(&config));
        }
    }
}

/// The variants of iptables with which the two can be compared on this machine. None, said aloud
/// and counted, where the reference plugins are missing.
pub fn reference_variants() -> Vec<&'static str> {
    if !Path::new(FOLDER).join("bridge").is_file() {
        lab::skip("no reference plugins in /usr/lib/cni (Debian's containernetworking-plugins)");
        return Vec::new();
    }
    let there = |variant: &&str| {
        let found = lab::find_tool(&format!("iptables-{variant}")).is_some();
        if !found {
            lab::skip(&format!(
                "no iptables-{variant} to compare the plugins with"
            ));
        }
        found
    };
    ["nft", "legacy"].into_iter().filter(there).collect()
}
