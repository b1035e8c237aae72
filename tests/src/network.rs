//! Calls that are about a network and not about one attachment: GC and STATUS.

use std::process::Command;

use serde_json::{Value, json};

use crate::by_hand::{kind, with};
use crate::{Answer, Node};

/// The key that lists the valid attachments.
pub const VALID: &str = "cni.dev/valid-attachments";

impl Node {
    /// One call of the plugin that the configuration names, as a runtime makes it: without the
    /// variables of an attachment. `overrides` replace or add variables.
    #[track_caller]
    pub fn call_network(
        &self,
        command: &str,
        config: &Value,
        overrides: &[(&str, &str)],
    ) -> Answer {
        let process = Command::new(self.bin.join(kind(config)));
        self.call_network_as(process, command, config, overrides)
    }

    /// As [`Node::call_network`], with the command line that starts the plugin.
    #[track_caller]
    pub fn call_network_as(
        &self,
        mut process: Command,
        command: &str,
        config: &Value,
        overrides: &[(&str, &str)],
    ) -> Answer {
        process
            .env_clear()
            .env("PATH", &self.path)
            .env("CNI_COMMAND", command)
            .env("CNI_PATH", &self.bin)
            .envs(overrides.iter().copied());
        let input = config.to_string();
        let output = self.namespace.output(&mut process, input.as_bytes());
        output.unwrap().into()
    }

    /// GC of each plugin of a chain, whatever the others answer.
    #[track_caller]
    pub fn gc_each(&self, configs: &[Value], valid: &[Value]) -> Vec<Answer> {
        let config = |config| with(config, VALID, &json!(valid));
        let calls = configs.iter().map(config);
        calls
            .map(|config| self.call_network("GC", &config, &[]))
            .collect()
    }
}

/// An entry of the list of valid attachments.
pub fn entry(container_id: &str, ifname: &str) -> Value {
    json!({ "containerID": container_id, "ifname": ifname })
}
