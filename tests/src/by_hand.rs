//! A chain whose plugins are called one by one, so that each can be given what no runtime would
//! give it.

use std::path::PathBuf;
use std::process::Command;

use cni::runtime::NetworkList;
use serde_json::{Map, Value, json};

use crate::{Answer, Node, Pod};

impl Node {
    /// The configuration of each plugin, with what the runtime was `asked` for its capabilities.
    pub fn configs(&self, list: &NetworkList, asked: &Value) -> Vec<Value> {
        list.plugins
            .iter()
            .map(|plugin| {
                let capable = |key: &str| plugin.get("capabilities")?.get(key)?.as_bool();
                let given: Map<_, _> = asked
                    .as_object()
                    .into_iter()
                    .flatten()
                    .filter(|(key, _)| capable(key) == Some(true))
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect();
                let mut config = plugin.clone();
                config.insert("cniVersion".to_owned(), json!(list.cni_version.as_str()));
                config.insert("name".to_owned(), json!(list.name));
                config.insert("runtimeConfig".to_owned(), Value::Object(given));
                config.remove("capabilities");
                Value::Object(config)
            })
            .collect()
    }

    /// ADD of each, with the result of the one before; the last one's result.
    #[track_caller]
    pub fn add_each(&self, configs: &[Value], pod: &Pod) -> Value {
        self.add_each_with(configs, pod, &[])
    }

    /// As [`Node::add_each`], with variables replaced or added.
    #[track_caller]
    pub fn add_each_with(&self, configs: &[Value], pod: &Pod, env: &[(&str, &str)]) -> Value {
        let mut result = Value::Null;
        for config in configs {
            let config = with(config, "prevResult", &result);
            let added = self.call(kind(&config), "ADD", pod, &config, env);
            result = added.ok().clone();
        }
        result
    }

    /// DEL of each, the last first, whatever the others answer; the answers in that order.
    #[track_caller]
    pub fn del_each(&self, configs: &[Value], pod: &Pod, env: &[(&str, &str)]) -> Vec<Answer> {
        self.del_each_as(Command::new, configs, pod, env)
    }

    /// As [`Node::del_each`], with each plugin started by the command line that `start` makes.
    #[track_caller]
    pub fn del_each_as(
        &self,
        start: impl Fn(PathBuf) -> Command,
        configs: &[Value],
        pod: &Pod,
        env: &[(&str, &str)],
    ) -> Vec<Answer> {
        let backwards = configs.iter().rev();
        backwards
            .map(|config| {
                let process = start(self.bin.join(kind(config)));
                self.call_as(process, "DEL", pod, config, env)
            })
            .collect()
    }
}

/// A plugin's `type`.
///
/// # Panics
/// There is none.
pub fn kind(config: &Value) -> &str {
    config["type"].as_str().unwrap()
}

/// The configuration with one key more, or another value for it; null takes the key away.
pub fn with(config: &Value, key: &str, value: &Value) -> Value {
    let mut config = config.clone();
    if let Some(keys) = config.as_object_mut() {
        keys.remove(key);
        if !value.is_null() {
            keys.insert(key.to_owned(), value.clone());
        }
    }
    config
}
