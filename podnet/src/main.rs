//! `podnet`: drives, demonstrates and explains a node's CNI chain.

mod cli;
mod demo;
mod every;
mod failure;
mod garbage;
mod network;
mod port;
mod rate;
mod table;
mod target;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    cli::run(&cli::Cli::parse()).unwrap_or_else(|failure| failure.report())
}
