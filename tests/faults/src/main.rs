//! `faults`: what the plugins leave when they are killed, or the kernel fails them, at any system call.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    faults::main(&faults::Options::parse())
}
