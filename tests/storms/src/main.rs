//! `storms`: pods come and go by many workers, with kills in between, and nothing may be left.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    storms::main(&storms::Options::parse())
}
