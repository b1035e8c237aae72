//! A node with its plugins and its store, and the pods on it.

use std::ffi::OsString;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;

use ipnet::IpNet;
use lab::{Lab, Namespace, Snapshot};
use net::{Bridge, Errno, Netlink, Netns};
use serde_json::Value;

use crate::{Answer, Family, plugin_folder};

/// A namespace that is a node, with a `CNI_PATH` and a store of its own.
#[derive(Debug)]
pub struct Node {
    /// The node's namespace.
    pub namespace: Namespace,
    /// `CNI_PATH`: every plugin under its own and its standard name.
    pub bin: PathBuf,
    /// The plugins' `PATH`; this process's own to begin with.
    pub path: OsString,
    /// For `ipam.dataDir`: the reservations' folder.
    pub data: PathBuf,
    /// For the runtime's cached results.
    pub cache: PathBuf,
    // Dropped last.
    lab: Lab,
}

/// A pod: a namespace and what the runtime calls it.
#[derive(Debug)]
pub struct Pod {
    /// The pod's namespace.
    pub namespace: Namespace,
    /// `CNI_CONTAINERID`.
    pub id: String,
    /// `CNI_IFNAME`.
    pub ifname: String,
}

impl Node {
    /// A node; `None`, said aloud and counted, where this machine cannot make one.
    pub fn new(label: &str) -> Option<Node> {
        if let Err(reason) = lab::supported() {
            lab::skip(&reason);
            return None;
        }
        static SWEPT: Once = Once::new();
        // What killed runs left is no matter of this one's tests, but should not pile up.
        SWEPT.call_once(|| drop(lab::sweep(false)));
        let lab = Lab::new(label).unwrap();
        let node = Node {
            namespace: lab.namespace("node").unwrap(),
            bin: lab.folder().join("bin"),
            path: std::env::var_os("PATH").unwrap_or_default(),
            data: lab.folder().join("networks"),
            cache: lab.folder().join("cache"),
            lab,
        };
        plugin_folder(&node.bin);
        Some(node)
    }

    /// A node whose kernel can filter a bridge by VLAN; `None`, said aloud and counted, where this
    /// machine's cannot.
    pub fn with_vlans(label: &str) -> Option<Node> {
        let node = Node::new(label)?;
        if !can_filter_vlans() {
            lab::skip("this kernel cannot filter a bridge by VLAN");
            return None;
        }
        Some(node)
    }

    /// From now on the plugins are those of a folder.
    ///
    /// # Errors
    /// They are not there.
    pub fn use_plugins(&mut self, folder: &Path) -> lab::Result<()> {
        self.bin = self.folder().join("others");
        let kinds = ["bridge", "portmap", "bandwidth", "host-local"];
        lab::link_plugins(&kinds, &[folder.to_owned()], &self.bin)?;
        Ok(())
    }

    /// A folder for what belongs to this node's test, removed with it.
    pub fn folder(&self) -> &Path {
        self.lab.folder()
    }

    /// Another namespace of this lab: an outside host, or a pod's before it is one.
    pub fn namespace(&self, name: &str) -> Namespace {
        self.lab.namespace(name).unwrap()
    }

    /// Whether this machine can filter frames that a bridge takes in, and show it; that it cannot is
    /// said aloud and counted.
    pub fn can_filter_frames(&self) -> bool {
        let rehearse = ["--check", "add table bridge nat"];
        let can = lab::find_tool("nft").is_some() && self.namespace.read("nft", &rehearse).is_ok();
        if !can {
            lab::skip("no nft, or no nf_tables for bridges");
        }
        can
    }

    /// An outside host, 192.0.2.1 and 2001:db8::1, joined to the node's uplink `eth0`, 192.0.2.10
    /// and 2001:db8::10.
    pub fn outside(&self) -> Namespace {
        self.outside_of(&Family::ALL)
    }

    /// As [`Node::outside`], with addresses of these families alone.
    pub fn outside_of(&self, families: &[Family]) -> Namespace {
        let outside = self.namespace("outside");
        let nets = |v4: &str, v6: &str| -> Vec<IpNet> {
            let of_each = families.iter().map(|family| family.pick(v4, v6));
            of_each.map(|text| text.parse().unwrap()).collect()
        };
        let (node, host) = (
            nets("192.0.2.10/24", "2001:db8::10/64"),
            nets("192.0.2.1/24", "2001:db8::1/64"),
        );
        let end = |namespace, addresses| lab::End {
            namespace,
            link: "eth0",
            addresses,
        };
        lab::connect(end(&self.namespace, &node), end(&outside, &host)).unwrap();
        outside
    }

    /// A pod whose container id is its name, and whose interface is `eth0`.
    pub fn pod(&self, name: &str) -> Pod {
        Pod {
            namespace: self.namespace(name),
            id: name.to_owned(),
            ifname: "eth0".to_owned(),
        }
    }

    /// Starts a plugin in the node's namespace as a runtime does. `config` is what it reads;
    /// `overrides` replace or add variables (an empty value counts as a missing one).
    #[track_caller]
    pub fn call(
        &self,
        plugin: &str,
        command: &str,
        pod: &Pod,
        config: impl Display,
        overrides: &[(&str, &str)],
    ) -> Answer {
        let process = Command::new(self.bin.join(plugin));
        self.call_as(process, command, pod, config, overrides)
    }

    /// As [`Node::call`], with the command line that starts the plugin, as from another program.
    #[track_caller]
    pub fn call_as(
        &self,
        mut process: Command,
        command: &str,
        pod: &Pod,
        config: impl Display,
        overrides: &[(&str, &str)],
    ) -> Answer {
        self.set_environment(&mut process, command, pod, overrides);
        let output = self
            .namespace
            .output(&mut process, config.to_string().as_bytes());
        output.unwrap().into()
    }

    /// Gives a process the environment that a runtime gives a plugin, and nothing else.
    pub fn set_environment(
        &self,
        process: &mut Command,
        command: &str,
        pod: &Pod,
        overrides: &[(&str, &str)],
    ) {
        process
            .env_clear()
            .env("PATH", &self.path)
            .env("CNI_COMMAND", command)
            .env("CNI_CONTAINERID", &pod.id)
            .env("CNI_NETNS", pod.namespace.path())
            .env("CNI_IFNAME", &pod.ifname)
            .env("CNI_PATH", &self.bin)
            .envs(overrides.iter().copied());
    }

    /// What the node holds, with the reservations of one network.
    #[track_caller]
    pub fn snapshot(&self, network: &str) -> Snapshot {
        Snapshot::of(&self.namespace, &self.data.join(network)).unwrap()
    }

    /// A configuration of the bridge with this node's store: `more` replaces or adds keys.
    pub fn bridge_config(&self, more: Value) -> Value {
        let mut config = serde_json::json!({
            "cniVersion": "1.0.0",
            "name": "testnet",
            "type": "bridge",
            "bridge": "cni0",
            "isGateway": true,
            "ipam": {
                "type": "host-local",
                "subnet": "10.244.0.0/24",
                "dataDir": self.data,
                "routes": [{ "dst": "0.0.0.0/0" }]
            }
        });
        if let (Some(config), Value::Object(more)) = (config.as_object_mut(), more) {
            config.extend(more);
        }
        config
    }
}

/// Whether this kernel can filter a bridge by VLAN, tried out in a namespace that ends here.
///
/// # Panics
/// It cannot be tried out.
#[track_caller]
pub fn can_filter_vlans() -> bool {
    let elsewhere = Netlink::in_netns(&Netns::anonymous().unwrap()).unwrap();
    let made = elsewhere.create_bridge(&Bridge {
        name: "bridge",
        mac: None,
        mtu: None,
        vlan_filtering: true,
    });
    match made {
        Err(error) if error.is(Errno::EOPNOTSUPP) => false,
        made => made.is_ok() || panic!("{made:?}"),
    }
}
