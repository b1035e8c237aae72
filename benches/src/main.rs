//! `bench`: measures CNI plugins side by side.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    benches::main(&benches::Options::parse())
}
