//! `podnet plan capacity`.

use std::process::ExitCode;

use clap::Args;
use plan::capacity::Capacity;

use super::EXIT_STATUS;
use crate::cluster::{self, ClusterArgs};
use crate::failure::Failure;
use crate::output::{Answer, Output};

const EXAMPLES: &str = "\
Examples:
  podnet plan capacity --pod-cidr 10.244.0.0/16
  podnet plan capacity --pod-cidr 10.244.0.0/16 --node-prefix 26 --pod-limit 250
  podnet plan capacity -f cluster.yaml --all

";

/// Count how many nodes, addresses and pods there is room for, and what binds first
///
/// Where nodes' pod limits differ, the smallest is taken. Where there are two pod ranges, each
/// number is the smaller one's, since a pod needs an address of both.
#[derive(Debug, Args)]
#[command(after_help = [EXAMPLES, EXIT_STATUS].concat())]
pub struct Asked {
    /// Also what host-local hands out, nodes left, pods that fit, and a line for each node
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Prints the numbers.
///
/// # Errors
/// Something of the cluster is wrong.
pub fn run(asked: &Asked) -> Result<ExitCode, Failure> {
    let document = asked.cluster.document()?;
    let capacity = cluster::make(&document, |cluster| Capacity::of(&cluster))?;
    asked.output.say(&Answer {
        text: capacity.text(asked.all),
        json: capacity.to_json(asked.all),
    })?;
    Ok(ExitCode::SUCCESS)
}
