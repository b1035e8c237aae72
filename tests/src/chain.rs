//! A whole chain, as a runtime calls it.

use std::path::Path;

use cni::runtime::{NetworkList, Runtime, RuntimeConf};
use cni::{AddResult, Error};
use serde_json::{Value, json};

use crate::{Node, Pod};

impl Node {
    /// A conflist of `conf/`, keeping its reservations in this node's folder.
    pub fn conflist(&self, file: &str) -> NetworkList {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conf");
        let text = std::fs::read(folder.join(file)).unwrap();
        self.list(serde_json::from_slice(&text).unwrap())
    }

    /// Any conflist, keeping its reservations in this node's folder.
    pub fn list(&self, mut conflist: Value) -> NetworkList {
        for plugin in conflist["plugins"].as_array_mut().into_iter().flatten() {
            if let Some(ipam) = plugin.get_mut("ipam").and_then(Value::as_object_mut) {
                ipam.insert("dataDir".to_owned(), json!(self.data));
            }
        }
        NetworkList::parse(conflist.to_string().into_bytes()).unwrap()
    }

    /// ADD of the chain, with `capabilities` as a runtime gives them: `{"portMappings": …}`.
    ///
    /// # Errors
    /// The plugin's.
    pub fn add(
        &self,
        list: &NetworkList,
        pod: &Pod,
        capabilities: Value,
    ) -> Result<AddResult, Error> {
        let conf = conf(pod, capabilities);
        self.namespace
            .run(|| self.runtime().add(list, &conf))
            .unwrap()
    }

    /// CHECK of the chain, with what ADD was given.
    ///
    /// # Errors
    /// The plugin's.
    pub fn check(&self, list: &NetworkList, pod: &Pod) -> Result<(), Error> {
        let conf = conf(pod, Value::Null);
        self.namespace
            .run(|| self.runtime().check(list, &conf))
            .unwrap()
    }

    /// DEL of the chain, with what ADD was given.
    ///
    /// # Errors
    /// The plugin's.
    pub fn del(&self, list: &NetworkList, pod: &Pod) -> Result<(), Error> {
        let conf = conf(pod, Value::Null);
        self.namespace
            .run(|| self.runtime().del(list, &conf))
            .unwrap()
    }

    /// A runtime with this node's plugins and a cache of its own.
    pub fn runtime(&self) -> Runtime {
        Runtime {
            path: vec![self.bin.clone()],
            cache: self.cache.clone(),
        }
    }
}

fn conf(pod: &Pod, capabilities: Value) -> RuntimeConf {
    RuntimeConf {
        container_id: pod.id.clone(),
        netns: Some(pod.namespace.path().to_owned()),
        ifname: pod.ifname.clone(),
        args: Vec::new(),
        capability_args: capabilities.as_object().cloned().unwrap_or_default(),
    }
}
