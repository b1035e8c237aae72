//! `podnet plan write`.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;

use clap::Args;
use plan::files::{Files, RANGES, Wanted};
use plan::{GivenNode, Merge, Plan, podcidrs};
use serde_json::json;

use super::EXIT_STATUS;
use super::conflist::Types;
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
/// were written there, so that a node more changes nothing of the others.
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
    let earlier = earlier(&asked.out)?;
    document.add_nodes(earlier.clone(), Merge::Known);
    let plan = cluster::make(&document, Plan::new)?;
    say_gone(&earlier, &plan, &asked.out);
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

/// The ranges that an earlier run has written.
fn earlier(out: &Path) -> Result<Vec<GivenNode>, Failure> {
    let file = out.join(RANGES);
    match fs::read_to_string(&file) {
        Ok(text) => podcidrs::read(&file.display().to_string(), &text).map_err(Failure::usage),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Failure::Usage(format!(
            "cannot read {}: {error}",
            file.display()
        ))),
    }
}

/// Nodes that are no more keep their folders, since nobody asked for their removal.
fn say_gone(earlier: &[GivenNode], plan: &Plan, out: &Path) {
    let names: std::collections::HashSet<&str> =
        plan.nodes().map(|(node, _)| node.name.as_str()).collect();
    for node in earlier
        .iter()
        .filter(|node| !names.contains(node.name.as_str()))
    {
        let folder = out.join("nodes").join(&node.name);
        eprintln!(
            "podnet: node {} is no more: its range is free, {} can be removed",
            node.name,
            folder.display()
        );
    }
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

/// Writes files below a folder.
struct Writer<'a> {
    out: &'a Path,
    /// The folder that was made last.
    made: PathBuf,
    written: usize,
}

impl<'a> Writer<'a> {
    fn new(out: &'a Path) -> Writer<'a> {
        Writer {
            out,
            made: PathBuf::new(),
            written: 0,
        }
    }

    fn put(&mut self, path: &str, pieces: &[&str]) -> Result<(), Failure> {
        let file = self.out.join(path);
        self.try_put(&file, pieces)
            .map_err(|error| Failure::Failed(format!("cannot write {}: {error}", file.display())))
    }

    fn try_put(&mut self, file: &Path, pieces: &[&str]) -> io::Result<()> {
        let folder = file.parent().unwrap_or(self.out);
        if self.made != folder {
            fs::create_dir_all(folder)?;
            folder.clone_into(&mut self.made);
        }
        let mut file = File::create(file)?;
        let mut pieces = pieces.iter().filter(|piece| !piece.is_empty());
        pieces.try_for_each(|piece| file.write_all(piece.as_bytes()))?;
        self.written = self.written.saturating_add(1);
        Ok(())
    }
}
