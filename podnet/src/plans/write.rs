//! `podnet plan write`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;

use clap::Args;
use plan::files::{Files, Wanted};
use plan::{Merge, Plan};
use serde_json::json;

use super::EXIT_STATUS;
use super::conflist::Types;
use super::folder::{self, Writer};
use super::routes::Format;
use crate::cluster::{self, ClusterArgs};
use crate::failure::Failure;
use crate::output::{Answer, Output};

const EXAMPLES: &str = "\
Examples:
  podnet plan write -f cluster.yaml --out pod-network
  podnet plan write -f cluster.yaml --out pod-network --format netplan --types lite
  podnet plan write -f cluster.yaml --out pod-network --node node-4=192.168.0.14   # one node more

";

/// Write all of it into a folder: ranges, and each node's conflist and routes
///
/// A README there says where each file goes. A later run into the same folder keeps the ranges that
/// were written there, so that a node more changes nothing of the others. It may be interrupted at
/// any moment, and run again: a file is there whole or not at all, and the ranges come first.
#[derive(Debug, Args)]
#[command(after_help = [EXAMPLES, EXIT_STATUS].concat())]
pub struct Asked {
    /// The folder, which is made where it is not there
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// What each node's routes are for; several with commas. gcloud's are written in any case
    #[arg(
        long = "format",
        value_enum,
        default_value = "iproute2",
        value_delimiter = ','
    )]
    formats: Vec<Format>,
    /// Which names the plugins have
    #[arg(long, value_enum, default_value_t = Types::Standard)]
    types: Types,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Writes the files, and prints how many.
///
/// # Errors
/// Something of the cluster is wrong; a file cannot be written.
pub fn run(asked: &Asked) -> Result<ExitCode, Failure> {
    let mut document = asked.cluster.document()?;
    let earlier = folder::earlier(&asked.out)?;
    document.add_nodes(earlier.clone(), Merge::Known);
    let plan = cluster::make(&document, Plan::new)?;
    for gone in folder::gone(&asked.out, &earlier, &plan) {
        eprintln!("podnet: {gone}");
    }
    let formats = asked.formats.iter().filter(|one| **one != Format::Gcloud);
    let wanted = Wanted {
        types: asked.types.into(),
        formats: formats.map(|format| (*format).into()).collect(),
    };
    let files = Files::new(&plan, &wanted);
    let files = files.map_err(|fault| Failure::usage(document.locate(fault)))?;
    let written = put_all(&asked.out, &files)?;
    for finding in files.findings() {
        eprintln!("podnet: {}", finding.said);
    }
    let (out, nodes) = (asked.out.display().to_string(), plan.cluster.nodes.len());
    asked.output.say(&Answer {
        text: format!("out={out}\nnodes={nodes}\nfiles={written}\n"),
        json: json!({ "out": out, "nodes": nodes, "files": written }),
    })?;
    Ok(if files.findings().is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// How many files were written. The nodes are shared among threads, since most of the time goes into
/// copying to the kernel.
fn put_all(out: &Path, files: &Files) -> Result<usize, Failure> {
    let mut writer = Writer::new(out);
    files.common(|path, pieces| writer.put(path, pieces))?;
    let threads = thread::available_parallelism().map_or(1, Into::into);
    let share = files.nodes().div_ceil(threads).max(1);
    let write = &|first: usize| {
        let mut writer = Writer::new(out);
        let last = first.saturating_add(share).min(files.nodes());
        files.of_nodes(first..last, |path, pieces| writer.put(path, pieces))?;
        Ok(writer.written)
    };
    let of_nodes: Result<Vec<usize>, Failure> = thread::scope(|scope| {
        let firsts = (0..files.nodes()).step_by(share);
        let running: Vec<_> = firsts
            .map(|first| scope.spawn(move || write(first)))
            .collect();
        let ended = running.into_iter().map(|thread| {
            let died = |_| {
                Err(Failure::Failed(
                    "a thread that writes files died".to_owned(),
                ))
            };
            thread.join().unwrap_or_else(died)
        });
        ended.collect()
    });
    let of_nodes: usize = of_nodes?.into_iter().sum();
    Ok(of_nodes.saturating_add(writer.written))
}
