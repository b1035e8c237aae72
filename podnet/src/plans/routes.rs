//! `podnet plan routes`.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use plan::Plan;
use plan::routes::{self, Routes, Written};
use serde_json::{Value, json};

use super::EXIT_STATUS;
use crate::cluster::{self, ClusterArgs, For};
use crate::failure::Failure;
use crate::output::{Answer, Output};

const EXAMPLES: &str = "\
Examples:
  podnet plan routes -f cluster.yaml --for node-1 | sudo sh
  podnet plan routes -f cluster.yaml --for node-1 --format netplan --device eth0
  podnet plan routes -f cluster.yaml --format gcloud --network kubernetes-the-hard-way

";

/// Print a node's routes to the pods of the other nodes, and none to its own
///
/// Each leads to a node's pod range by that node's address.
#[derive(Debug, Args)]
#[command(after_help = [EXAMPLES, EXIT_STATUS].concat())]
pub struct Asked {
    #[command(flatten)]
    node: For,
    /// What the routes are for
    #[arg(long, value_enum, default_value_t = Format::Iproute2)]
    format: Format,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// What the routes are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Lines of `ip route replace`
    Iproute2,
    /// A whole file for /etc/netplan, to be merged with the others there
    Netplan,
    /// A drop-in for the interface's .network file of systemd-networkd
    Networkd,
    /// Lines of `nmcli`
    Networkmanager,
    /// Lines of `gcloud compute routes create` for every node: the network's table is no node's own
    Gcloud,
    /// A list of objects
    Json,
}

impl From<Format> for routes::Format {
    fn from(format: Format) -> routes::Format {
        match format {
            Format::Iproute2 => routes::Format::Iproute2,
            Format::Netplan => routes::Format::Netplan,
            Format::Networkd => routes::Format::Networkd,
            Format::Networkmanager => routes::Format::NetworkManager,
            Format::Gcloud => routes::Format::Gcloud,
            Format::Json => routes::Format::Json,
        }
    }
}

/// Prints the routes.
///
/// # Errors
/// Something of the cluster is wrong; the node is none of it.
pub fn run(asked: &Asked) -> Result<ExitCode, Failure> {
    let document = asked.cluster.document()?;
    let plan = cluster::make(&document, Plan::new)?;
    let located = |fault| Failure::usage(document.locate(fault));
    let routes = Routes::of(&plan).map_err(located)?;
    let own = if asked.format == Format::Gcloud {
        None
    } else {
        Some(asked.node.node(&plan.cluster)?)
    };
    let is_own = |node: &routes::ToNode| Some(&node.name) == own.as_ref();
    let place = routes.nodes().iter().position(is_own);
    let device = place.and_then(|place| routes.nodes().get(place)?.device.as_deref());
    let written = Written::new(&routes, asked.format.into(), device).map_err(located)?;
    asked.output.say(&Answer {
        text: written.without(place.unwrap_or(usize::MAX)).concat(),
        json: to_json(&routes, own.as_deref().unwrap_or_default()),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The routes of the node of that name; of every node where there is none.
fn to_json(routes: &Routes, name: &str) -> Value {
    let routes = routes.of_node(name).map(|(node, route)| {
        json!({ "node": node.name, "destination": route.destination, "via": route.via })
    });
    routes.collect::<Vec<_>>().into()
}
