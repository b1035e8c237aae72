//! `podnet plan conflist`.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use plan::conflist;

use super::EXIT_STATUS;
use crate::cluster::{ClusterArgs, For};
use crate::failure::Failure;
use crate::output::{Answer, Output};

const EXAMPLES: &str = "\
Examples:
  podnet plan conflist -f cluster.yaml --for node-1
  podnet plan conflist -f cluster.yaml --types lite > /etc/cni/net.d/10-pods.conflist
  podnet plan conflist --pod-cidr 10.244.0.0/16 --node node-1 --for node-1

";

/// Print a node's network configuration list: bridge, portmap, bandwidth
///
/// host-local gets the node's pod range; the gateway is its first usable address; routes lead out,
/// and to the pods of all nodes.
#[derive(Debug, Args)]
#[command(after_help = [EXAMPLES, EXIT_STATUS].concat())]
pub struct Asked {
    #[command(flatten)]
    node: For,
    /// Which names the plugins have
    #[arg(long, value_enum, default_value_t = Types::Standard)]
    types: Types,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Which names the plugins have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Types {
    /// bridge, host-local, portmap, bandwidth
    Standard,
    /// The same with -lite behind them
    Lite,
}

impl From<Types> for conflist::Types {
    fn from(types: Types) -> conflist::Types {
        match types {
            Types::Standard => conflist::Types::Standard,
            Types::Lite => conflist::Types::Lite,
        }
    }
}

/// Prints the list.
///
/// # Errors
/// Something of the cluster is wrong; the node is none of it.
pub fn run(asked: &Asked) -> Result<ExitCode, Failure> {
    let plan = asked.cluster.plan()?;
    let name = asked.node.node(&plan.cluster)?;
    let ranges = plan.node(&name).map(|(_, ranges)| ranges);
    let list = conflist::conflist(
        &plan.cluster,
        ranges.unwrap_or_default(),
        asked.types.into(),
    );
    asked.output.say(&Answer {
        text: conflist::text(&list),
        json: list,
    })?;
    Ok(ExitCode::SUCCESS)
}
