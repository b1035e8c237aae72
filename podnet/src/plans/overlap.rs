//! `podnet plan overlap`.

use std::process::ExitCode;

use clap::Args;
use plan::overlap::{self, Case, Looked};

use super::EXIT_STATUS;
use crate::cluster::{self, ClusterArgs};
use crate::failure::Failure;
use crate::output::{Answer, Output};

const EXAMPLES: &str = "\
Examples:
  podnet plan overlap -f cluster.yaml
  podnet plan overlap --pod-cidr 10.244.0.0/16 --service-cidr 10.96.0.0/12 --node-cidr 192.168.0.0/24
  podnet plan overlap --case p1=10.244.0.0/16,10.96.0.0/16,192.168.10.0/24 \\
                      --case p2=10.96.0.0/12,10.96.0.0/16,192.168.10.0/24

";

/// Say whether pod, service and node ranges overlap
///
/// Which two overlap, and in what range, is said on standard error; and so is a node's address
/// outside of the node ranges, a range that reaches into loopback, link-local or multicast, and a
/// service range with fewer addresses than asked.
#[derive(Debug, Args)]
#[command(after_help = [EXAMPLES, EXIT_STATUS].concat())]
pub struct Asked {
    /// Three ranges to look at instead of the cluster's; may be repeated
    #[arg(long = "case", value_name = "NAME=POD,SERVICE,NODE", value_parser = Case::parse)]
    cases: Vec<Case>,
    /// How many addresses the service range must have
    #[arg(long, value_name = "NUMBER")]
    services: Option<u128>,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Prints a verdict for each case.
///
/// # Errors
/// Something of the cluster is wrong.
pub fn run(asked: &Asked) -> Result<ExitCode, Failure> {
    let cases = if asked.cases.is_empty() {
        let document = asked.cluster.document()?;
        let case = cluster::make(&document, |cluster| Ok(Case::of(&cluster)))?;
        if case.is_empty() {
            let reason = "no ranges: expected a cluster file, or --pod-cidr, --service-cidr and \
                          --node-cidr, or --case";
            return Err(Failure::Usage(reason.to_owned()));
        }
        vec![case]
    } else {
        asked.cases.clone()
    };
    let look = |case: Case| {
        let findings = case.findings(asked.services);
        (case, findings)
    };
    let looked: Looked = cases.into_iter().map(look).collect();
    for (case, findings) in &looked {
        for finding in findings {
            eprintln!("podnet: {}: {}", case.name, finding.said);
        }
    }
    asked.output.say(&Answer {
        text: overlap::text(&looked),
        json: overlap::to_json(&looked),
    })?;
    let good = looked.iter().all(|(_, findings)| findings.is_empty());
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
