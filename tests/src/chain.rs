//! A whole chain, as a runtime calls it.

use std::path::Path;

use cni::runtime::{NetworkList, Runtime, RuntimeConf};
use cni::{AddResult, Error};
use serde_json::{Value, json};

use crate::{Node, Pod};

impl Node {
    /// A conflist of `conf/`, keeping its reservations in this node's folder.
    pub fn conflist(&self, file: &str) -> NetworkList {
        self.conflist_with(file, &[])
    }

    /// A conflist of `conf/` with other values for some keys: each change names a plugin's type,
    /// or is the list's own where that is empty.
    pub fn conflist_with(&self, file: &str, changes: &[(&str, Value)]) -> NetworkList {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conf");
        let text = std::fs::read(folder.join(file)).unwrap();
        let mut conflist: Value = serde_json::from_slice(&text).unwrap();
        for (kind, change) in changes {
            let plugins = conflist["plugins"].as_array_mut().unwrap();
            let changed = match *kind {
                "" => Some(&mut conflist),
                kind => plugins.iter_mut().find(|plugin| plugin["type"] == kind),
            };
            let changed = changed.and_then(Value::as_object_mut).unwrap();
            changed.extend(change.as_object().cloned().unwrap());
        }
        self.list(conflist)
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

    /// Edits the result that the runtime has kept, as a later plugin's ADD would have.
    pub fn tell(&self, list: &NetworkList, pod: &Pod, edit: impl FnOnce(&mut Value)) {
        let name = format!("{}-{}-{}", list.name, pod.id, pod.ifname);
        let file = self.cache.join("results").join(name);
        let mut cached: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        edit(&mut cached["result"]);
        std::fs::write(&file, cached.to_string()).unwrap();
    }

    /// A runtime with this node's plugins and a cache of its own.
    pub fn runtime(&self) -> Runtime {
        Runtime::new(vec![self.bin.clone()], self.cache.clone())
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
