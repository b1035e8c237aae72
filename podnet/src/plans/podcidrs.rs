//! `podnet plan podcidrs`.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use plan::podcidrs;

use super::EXIT_STATUS;
use crate::cluster::ClusterArgs;
use crate::failure::Failure;
use crate::output::{Answer, Output};

const EXAMPLES: &str = "\
Examples:
  podnet plan podcidrs -f cluster.yaml
  podnet plan podcidrs --pod-cidr 10.244.0.0/16 --node node-1=192.168.0.11 --node node-2=192.168.0.12
  kubectl get nodes -o json | podnet plan podcidrs --nodes - --pod-cidr 10.244.0.0/16 --format patch | sh

";

/// Cut the range of all pods into one for each node
///
/// Ranges that nodes have already are kept, and never handed out again. The other nodes get the
/// first free ones, in the order of their names: node-2 before node-10.
#[derive(Debug, Args)]
#[command(after_help = [EXAMPLES, EXIT_STATUS].concat())]
pub struct Asked {
    /// What the lines are for
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A node's name and its range
    Text,
    /// `kubectl patch`, which sets spec.podCIDR and spec.podCIDRs
    Patch,
    /// Manifests of nodes
    Yaml,
}

/// Prints each node's range.
///
/// # Errors
/// Something of the cluster is wrong; not all nodes fit.
pub fn run(asked: &Asked) -> Result<ExitCode, Failure> {
    let plan = asked.cluster.plan()?;
    if plan.cluster.nodes.is_empty() {
        eprintln!("podnet: there is no node: expected nodes in the file, --node or --nodes");
    }
    let text = match asked.format {
        Format::Text => podcidrs::text(&plan),
        Format::Patch => podcidrs::patches(&plan),
        Format::Yaml => podcidrs::manifests(&plan),
    };
    if asked.format == Format::Patch {
        eprintln!("podnet: {}", podcidrs::SET_FOR_GOOD);
    }
    asked.output.say(&Answer {
        text,
        json: podcidrs::to_json(&plan),
    })?;
    Ok(ExitCode::SUCCESS)
}
