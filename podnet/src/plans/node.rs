//! `podnet plan node`.

use std::process::ExitCode;

use clap::Args;
use plan::keys::{KeptBack, NodeName, TaintKey};
use plan::taints;

use super::EXIT_STATUS;
use crate::failure::Failure;
use crate::output::{Answer, Output};

const EXAMPLES: &str = "\
Examples:
  podnet plan node --name edge-1 --taint example.com/cni-missing | kubectl apply -f -
  podnet plan node --name edge-1 --taint example.com/cni-missing | podnet taints

";

/// Print the manifest of a node that is kept from use until its plugins are there
///
/// It has spec.unschedulable and one taint with the effect NoSchedule; what the node controller adds
/// to these is said in a comment.
#[derive(Debug, Args)]
#[command(after_help = [EXAMPLES, EXIT_STATUS].concat())]
pub struct Asked {
    /// Name of the node
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: NodeName,
    /// Key of the taint
    #[arg(long, value_name = "KEY", value_parser = taint)]
    taint: TaintKey,
    #[command(flatten)]
    output: Output,
}

fn name(text: &str) -> Result<NodeName, String> {
    NodeName::try_from(text.to_owned())
}

fn taint(text: &str) -> Result<TaintKey, String> {
    TaintKey::try_from(text.to_owned())
}

/// Prints the manifest.
///
/// # Errors
/// Standard output cannot be written to.
pub fn run(asked: &Asked) -> Result<ExitCode, Failure> {
    let node = KeptBack {
        name: asked.name.clone(),
        taint: asked.taint.clone(),
    };
    asked.output.say(&Answer {
        text: taints::manifest(&node),
        json: taints::manifest_json(&node),
    })?;
    Ok(ExitCode::SUCCESS)
}
