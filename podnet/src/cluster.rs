//! Which cluster a command is about: the cluster file, a list of nodes, and options over both.

use std::collections::HashSet;
use std::path::PathBuf;

use clap::Args;
use plan::{Cluster, Document, Fault, GivenNode, Machine, Merge, Plan};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::reading::read;

/// Which cluster.
#[derive(Debug, Clone, Default, Args)]
pub struct ClusterArgs {
    /// The cluster file, YAML or JSON; `-` is standard input
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub over: Overrides,
}

/// What is said of the cluster without its file, or over it.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Cluster")]
pub struct Overrides {
    /// Nodes as `kubectl get nodes -o json` prints them: names, internal addresses, pod ranges and
    /// allocatable pods; what the cluster file says of a node counts before it; `-` is standard input
    #[arg(long, value_name = "FILE")]
    nodes: Option<PathBuf>,
    /// The range of all pods; twice for IPv4 and IPv6
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    pod_cidr: Vec<String>,
    /// Prefix length of a node's pod range, one for each range of all pods [default: 24 for IPv4, 64
    /// for IPv6]
    #[arg(long, value_name = "LENGTH", value_delimiter = ',')]
    node_prefix: Vec<u64>,
    /// The range of services; twice for IPv4 and IPv6
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    service_cidr: Vec<String>,
    /// A network of the nodes' own addresses; may be repeated
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    node_cidr: Vec<String>,
    /// A node, and its address or one of each family with a comma; may be repeated
    #[arg(long = "node", value_name = "NAME=ADDRESS")]
    node: Vec<String>,
    /// How many pods a node's kubelet takes, unless the node has its own limit [default: 110]
    #[arg(long, value_name = "NUMBER")]
    pod_limit: Option<u64>,
    /// Name of the pod network, and of the cloud's [default: k8nd-pod-network]
    #[arg(long, value_name = "NAME")]
    network: Option<String>,
    /// The nodes' interface through which other nodes are reached
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
}

/// Which node of the cluster.
#[derive(Debug, Clone, Default, Args)]
pub struct For {
    /// The node [default: the one of this machine's host name, else of one of its addresses]
    #[arg(long = "for", value_name = "NAME")]
    name: Option<String>,
}

impl ClusterArgs {
    /// The cluster with a pod range for each node.
    ///
    /// # Errors
    /// Something of it is wrong.
    pub fn plan(&self) -> Result<Plan, Failure> {
        make(&self.document()?, Plan::new)
    }

    /// The cluster file, with what the options say.
    ///
    /// # Errors
    /// A file cannot be read, or is none of what it must be.
    pub fn document(&self) -> Result<Document, Failure> {
        let document = match &self.file {
            None => Document::empty(),
            Some(file) => {
                let (name, text) = read(file)?;
                Document::parse(&name, &text).map_err(Failure::usage)?
            }
        };
        self.over.put(document)
    }
}

/// The cluster that a document describes, and what makes of it what is asked for.
///
/// # Errors
/// Something of it is wrong.
pub fn make<T>(
    document: &Document,
    make: impl FnOnce(Cluster) -> Result<T, Fault>,
) -> Result<T, Failure> {
    let keys = document.read().map_err(Failure::usage)?;
    let made = Cluster::new(keys).and_then(make);
    made.map_err(|fault| Failure::usage(document.locate(fault)))
}

impl Overrides {
    /// What the options say, over a document.
    ///
    /// # Errors
    /// A file cannot be read, or is none of what it must be.
    pub fn put(&self, mut document: Document) -> Result<Document, Failure> {
        if let Some(file) = &self.nodes {
            let (name, text) = read(file)?;
            let nodes = plan::kubernetes::nodes(&name, &text).map_err(Failure::usage)?;
            plan::kubernetes::check_agreement(&document, &nodes).map_err(Failure::usage)?;
            document.add_nodes(nodes, Merge::Under);
        }
        for (key, option, values) in [
            ("podSubnet", "--pod-cidr", json!(self.pod_cidr)),
            ("nodePrefix", "--node-prefix", json!(self.node_prefix)),
            ("serviceSubnet", "--service-cidr", json!(self.service_cidr)),
            ("nodeSubnet", "--node-cidr", json!(self.node_cidr)),
            ("maxPods", "--pod-limit", json!(self.pod_limit)),
            ("network", "--network", json!(self.network)),
            ("cloudNetwork", "--network", json!(self.network)),
            ("device", "--device", json!(self.device)),
        ] {
            if !values.is_null() && values != json!([]) {
                document.set(key, values, option);
            }
        }
        document.add_nodes(given_nodes(&self.node)?, Merge::Over);
        Ok(document)
    }
}

impl For {
    /// Whether it is said which.
    pub fn is_named(&self) -> bool {
        self.name.is_some()
    }

    /// How it is said which.
    pub fn meant(&self, name: &str) -> String {
        match self.name {
            Some(_) => format!("--for {name}"),
            None => format!("this machine has the name of {name}"),
        }
    }

    /// The name of the node.
    ///
    /// # Errors
    /// It is none of the cluster's.
    pub fn node(&self, cluster: &Cluster) -> Result<String, Failure> {
        let machine = match &self.name {
            Some(_) => Machine {
                named: self.name.clone(),
                ..Machine::default()
            },
            None => this_machine()?,
        };
        let node = cluster.which(&machine).map_err(|reason| {
            Failure::Usage(match &self.name {
                Some(_) => format!("--for: {reason}"),
                None => format!("{reason}; --for NAME says which one is meant"),
            })
        })?;
        Ok(node.name.clone())
    }
}

/// This machine's host name; empty where it has none that can be read.
pub fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// What this machine is known by.
fn this_machine() -> Result<Machine, Failure> {
    let addresses = || -> net::Result<Vec<_>> {
        let netlink = net::Netlink::current()?;
        let mut addresses = Vec::new();
        for link in netlink.links()? {
            addresses.extend(netlink.addresses(link.index)?);
        }
        Ok(addresses)
    };
    let addresses = addresses().map_err(|error| Failure::Failed(error.to_string()))?;
    Ok(Machine {
        named: None,
        host_name: host_name(),
        addresses: addresses.iter().map(|address| address.net.addr()).collect(),
    })
}

/// The nodes of all `--node`.
fn given_nodes(texts: &[String]) -> Result<Vec<GivenNode>, Failure> {
    let nodes = texts.iter().map(|text| given_node(text));
    let nodes: Vec<GivenNode> = nodes.collect::<Result<_, _>>()?;
    let mut seen = HashSet::new();
    match nodes.iter().find(|node| !seen.insert(&node.name)) {
        None => Ok(nodes),
        Some(twice) => Err(Failure::Usage(format!(
            "--node: {:?} is the name of two nodes",
            twice.name
        ))),
    }
}

/// `NAME=ADDRESS[,ADDRESS]`; a name alone is a node without an address.
fn given_node(text: &str) -> Result<GivenNode, Failure> {
    let (name, addresses) = match text.split_once('=') {
        Some((name, addresses)) => (name, Some(addresses)),
        None => (text, None),
    };
    if name.is_empty() || addresses == Some("") {
        let reason = format!("--node: {text:?} is no node: expected NAME or NAME=ADDRESS");
        return Err(Failure::Usage(reason));
    }
    let addresses = addresses.map(|addresses| ("address", Value::from(addresses)));
    Ok(GivenNode {
        name: name.to_owned(),
        keys: addresses.into_iter().collect(),
        from: "--node".to_owned(),
    })
}
