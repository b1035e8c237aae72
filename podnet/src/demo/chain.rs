//! The chain as a runtime calls it, with its store, its cache and its plugins below one folder.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use cni::AddResult;
use cni::runtime::{NetworkList, Runtime, RuntimeConf};
use ipnet::IpNet;
use lab::Namespace;
use serde_json::{Map, Value, json};

use super::Outcome;

/// The pods' interface.
pub(super) const IFNAME: &str = "eth0";

/// A conflist, and the runtime that calls it on a node.
#[derive(Debug)]
pub(super) struct Chain {
    runtime: Runtime,
    list: NetworkList,
    store: PathBuf,
    plugins: Vec<String>,
}

/// What a runtime asks of the chain for one pod.
#[derive(Debug)]
pub(super) struct Ask<'a> {
    /// Its namespace, whose name is its container id.
    pub(super) pod: &'a Namespace,
    /// Ports and rates, as a runtime writes them.
    pub(super) capabilities: Map<String, Value>,
}

impl Chain {
    /// Makes a `CNI_PATH` with the plugins that the conflist calls, and lets the conflist keep its
    /// reservations below `folder`.
    pub(super) fn new(conflist: &str, path: &[PathBuf], folder: &Path) -> Outcome<Chain> {
        let mut conflist: Value = serde_json::from_str(conflist)
            .map_err(|error| format!("the conflist is not JSON: {error}"))?;
        let bin = folder.join("bin");
        let plugins = lab::link_plugins(&kinds(&conflist), path, &bin)
            .map_err(|error| format!("{error} (--cni-path)"))?;
        let networks = folder.join("networks");
        redirect_store(&mut conflist, &networks);
        let list = NetworkList::parse(conflist.to_string().into_bytes())?;
        Ok(Chain {
            runtime: Runtime::new(vec![bin], folder.join("cache")),
            store: networks.join(&list.name),
            list,
            plugins,
        })
    }

    /// The programs that serve the chain, by name.
    pub(super) fn plugins(&self) -> &[String] {
        &self.plugins
    }

    /// The folder with the reservations.
    pub(super) fn store(&self) -> &Path {
        &self.store
    }

    pub(super) fn add(&self, node: &Namespace, ask: &Ask) -> Outcome<Given> {
        given(&node.run(|| self.runtime.add(&self.list, &conf(ask)))??)
    }

    pub(super) fn check(&self, node: &Namespace, ask: &Ask) -> Outcome<()> {
        Ok(node.run(|| self.runtime.check(&self.list, &conf(ask)))??)
    }

    pub(super) fn del(&self, node: &Namespace, ask: &Ask) -> Outcome<()> {
        Ok(node.run(|| self.runtime.del(&self.list, &conf(ask)))??)
    }
}

fn conf(ask: &Ask) -> RuntimeConf {
    RuntimeConf {
        container_id: ask.pod.name().to_owned(),
        netns: Some(ask.pod.path().to_owned()),
        ifname: IFNAME.to_owned(),
        args: Vec::new(),
        capability_args: ask.capabilities.clone(),
    }
}

/// What ADD gave a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) addresses: Vec<IpNet>,
    /// The first IPv4 address, by which the pod is reached.
    pub(super) address: IpAddr,
    /// Its gateway.
    pub(super) gateway: IpAddr,
}

fn given(result: &AddResult) -> Outcome<Given> {
    let mut ips = result.ips.iter();
    let first = ips.find(|ip| ip.address.addr().is_ipv4());
    let first = first.ok_or("ADD gave no IPv4 address, and the demo speaks IPv4")?;
    Ok(Given {
        addresses: result.ips.iter().map(|ip| ip.address).collect(),
        address: first.address.addr(),
        gateway: first.gateway.ok_or("ADD gave no gateway")?,
    })
}

/// Where plugins are looked for: the option, else `CNI_PATH`, else this program's own folder.
pub(super) fn plugin_path(option: Option<&Path>) -> Outcome<Vec<PathBuf>> {
    let given = option
        .map(Into::into)
        .or_else(|| std::env::var_os("CNI_PATH"));
    if let Some(path) = given.filter(|path| !path.is_empty()) {
        return Ok(std::env::split_paths(&path).collect());
    }
    let own = std::env::current_exe()?;
    Ok(own.parent().map(Path::to_owned).into_iter().collect())
}

/// Names of the plugins that a conflist calls, IPAM plugins included.
fn kinds(conflist: &Value) -> Vec<&str> {
    let mut kinds = Vec::new();
    for plugin in conflist["plugins"].as_array().into_iter().flatten() {
        let both = [&plugin["type"], &plugin["ipam"]["type"]];
        kinds.extend(both.into_iter().filter_map(Value::as_str));
    }
    kinds
}

/// Lets every IPAM plugin of the conflist keep its reservations below `folder`.
fn redirect_store(conflist: &mut Value, folder: &Path) {
    for plugin in conflist["plugins"].as_array_mut().into_iter().flatten() {
        if let Some(ipam) = plugin.get_mut("ipam").and_then(Value::as_object_mut) {
            ipam.insert("dataDir".to_owned(), json!(folder));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conflist() -> Value {
        serde_json::from_str(super::super::CONFLIST).unwrap()
    }

    #[test]
    fn the_store_is_redirected_and_nothing_else() {
        let mut changed = conflist();
        redirect_store(&mut changed, Path::new("/lab"));
        assert_eq!(changed["plugins"][0]["ipam"]["dataDir"], "/lab");
        changed["plugins"][0]["ipam"]
            .as_object_mut()
            .unwrap()
            .shift_remove("dataDir");
        assert_eq!(changed, conflist());
    }
}
