//! `podnet taints`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use plan::Document;
use plan::taints::{self, Tainted};
use serde_json::Value;

use crate::failure::Failure;
use crate::output::{Answer, Output};
use crate::reading;

const HELP: &str = "\
Examples:
  kubectl get node edge-1 -o json | podnet taints
  podnet taints -f node.yaml --all

Exit status: 0 done; 2 wrong options or file.";

/// Which node, and how much of it.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Asked {
    /// What `kubectl get node -o json` prints, or a manifest; `-` is standard input
    #[arg(short = 'f', long = "file", value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// Also say of each taint who adds it and who removes it again
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    output: Output,
}

/// Prints whose each taint is.
///
/// # Errors
/// The file cannot be read, or has no node.
pub fn run(asked: &Asked) -> Result<ExitCode, Failure> {
    let (name, text) = reading::read(&asked.file)?;
    let documents = Document::parse_all(&name, &text).map_err(Failure::usage)?;
    let nodes = taints::read(&documents).map_err(Failure::usage)?;
    if nodes.is_empty() {
        return Err(Failure::Usage(format!("{name}: there is no node in it")));
    }
    let json: Vec<Value> = nodes.iter().map(|node| node.to_json(asked.all)).collect();
    let texts: Vec<String> = nodes
        .iter()
        .map(|node: &Tainted| node.text(asked.all))
        .collect();
    asked.output.say(&Answer {
        text: texts.concat(),
        json: match <[Value; 1]>::try_from(json) {
            Ok([one]) => one,
            Err(several) => several.into(),
        },
    })?;
    Ok(ExitCode::SUCCESS)
}
