//! `podnet`: drives, demonstrates and explains a node's CNI chain.

mod agent;
mod cli;
mod cluster;
mod demo;
mod doctor;
mod every;
mod examples;
mod failure;
mod garbage;
mod install;
mod lint;
mod network;
mod node_root;
mod output;
mod plans;
mod port;
mod rate;
mod reading;
mod routes;
mod shell;
mod table;
mod taints;
mod target;
mod trace;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    cli::run(&cli::Cli::parse()).unwrap_or_else(|failure| failure.report())
}
