//! `podnet plan`: what a cluster's pod network is to be.

mod capacity;
pub mod conflist;
mod folder;
mod node;
mod overlap;
mod podcidrs;
mod routes;
mod write;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::failure::Failure;

/// What is planned.
#[derive(Debug, Args)]
pub struct Plans {
    #[command(subcommand)]
    what: What,
}

/// The end of every help.
const EXIT_STATUS: &str = "Exit status: 0 done; 1 a finding; 2 wrong options or files, or \
a file that cannot be written.";

#[derive(Debug, Subcommand)]
enum What {
    Podcidrs(podcidrs::Asked),
    Capacity(capacity::Asked),
    Overlap(overlap::Asked),
    Conflist(conflist::Asked),
    Routes(routes::Asked),
    Write(write::Asked),
    Node(node::Asked),
}

/// Plans.
///
/// # Errors
/// Something of the cluster is wrong.
pub fn run(plans: &Plans) -> Result<ExitCode, Failure> {
    match &plans.what {
        What::Podcidrs(asked) => podcidrs::run(asked),
        What::Capacity(asked) => capacity::run(asked),
        What::Overlap(asked) => overlap::run(asked),
        What::Conflist(asked) => conflist::run(asked),
        What::Routes(asked) => routes::run(asked),
        What::Write(asked) => write::run(asked),
        What::Node(asked) => node::run(asked),
    }
}
