//! `podnet lint`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use cni::runtime::{NetworkList, Runtime, read_regular};
use ipnet::IpNet;
use node::Program;
use plan::lint::{self, Binary, ConfFile, Input};
use plan::{Cluster, Document, Plan};

use crate::cluster::{self, For, Overrides};
use crate::failure::Failure;
use crate::network::Folders;
use crate::output::{Answer, Output};
use crate::reading;

const HELP: &str = "\
Examples:
  podnet lint                                      # this node's conflists and plugins
  podnet lint -f pod.yaml -f deployment.yaml       # and what becomes of these pods
  podnet lint 10-pods.conflist -f pod.yaml --offline
  podnet lint -f cluster.yaml --for node-1         # whether its subnets fit the node's range

Exit status: 0 nothing is ignored or wrong; 1 something is; 2 wrong options or files.";

/// What is looked at.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Asked {
    /// Conflists to look at, instead of those of a folder
    #[arg(value_name = "CONFLIST")]
    conflists: Vec<PathBuf>,
    /// Manifests of pods and workloads, YAML or JSON, of any number of documents; or the cluster file;
    /// may be repeated; `-` is standard input
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Look at files alone, not at the plugins' binaries
    #[arg(long)]
    offline: bool,
    /// The runtime has no root
    #[arg(long)]
    rootless: bool,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    folders: Folders,
    #[command(flatten)]
    node: For,
    #[command(flatten)]
    over: Overrides,
}

/// Looks, and prints what was found.
///
/// # Errors
/// A file cannot be read, or is none of what it must be.
pub fn run(asked: &Asked) -> Result<ExitCode, Failure> {
    let mut documents = Vec::new();
    for file in &asked.files {
        let (name, text) = reading::read(file)?;
        documents.extend(Document::parse_all(&name, &text).map_err(Failure::usage)?);
    }
    let (manifests, cluster) = lint::sort(documents).map_err(Failure::usage)?;
    let cluster = asked.over.put(cluster.unwrap_or_else(Document::empty))?;
    let (cluster, ranges) = known(&cluster, &asked.node)?;
    let places = asked.folders.of_node();
    let files = conf_files(&asked.conflists, &places.conf)?;
    let binaries = (!asked.offline).then(|| binaries(&files, &places.runtime));
    let (pods, refused) = lint::pods(&manifests);
    let report = lint::lint(&Input {
        binaries,
        pods,
        refused,
        ranges,
        rootless: asked.rootless || cluster.features.rootless,
        one_node: cluster.nodes.len() == 1,
        files,
    });
    asked.output.say(&Answer {
        text: report.text(),
        json: report.to_json(),
    })?;
    Ok(if report.is_good() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The cluster, as far as it is told, and the pod ranges of the node that is meant.
fn known(document: &Document, node: &For) -> Result<(Cluster, Option<Vec<IpNet>>), Failure> {
    let cluster = cluster::make(document, Ok)?;
    if cluster.pods.is_empty() || cluster.nodes.is_empty() {
        return Ok((cluster, None));
    }
    let plan = cluster::make(document, Plan::new)?;
    match node.node(&cluster) {
        Ok(name) => {
            let ranges = plan.node(&name).map(|(_, ranges)| ranges.to_vec());
            Ok((cluster, ranges))
        }
        Err(failure) if node.is_named() => Err(failure),
        Err(_) => {
            eprintln!(
                "podnet: this machine is no node of the cluster, and --for names none: whether subnets \
                 fit is not looked at"
            );
            Ok((cluster, None))
        }
    }
}

/// The files that are given, else those of the folder.
fn conf_files(given: &[PathBuf], folder: &Path) -> Result<Vec<ConfFile>, Failure> {
    if !given.is_empty() {
        let files = given.iter().map(|file| {
            let name = file.display().to_string();
            match reading::bytes(file) {
                Ok(raw) => Ok(ConfFile::new(&name, &raw)),
                Err(error) => Err(Failure::Usage(format!("cannot read {name}: {error}"))),
            }
        });
        return files.collect();
    }
    let files = NetworkList::files(folder).map_err(Failure::usage)?;
    let files = files.iter().map(|file| {
        let name = file.display().to_string();
        match read_regular(file) {
            Ok(raw) => ConfFile::new(&name, &raw),
            Err(error) => ConfFile::unreadable(&name, &error.to_string()),
        }
    });
    Ok(files.collect())
}

/// The plugins of all readable conflists, since it is not said yet which one is used.
fn binaries(files: &[ConfFile], runtime: &Runtime) -> Vec<Binary> {
    let lists = files.iter().filter_map(|file| file.list.as_ref().ok());
    let mut kinds: Vec<&str> = lists.flat_map(NetworkList::kinds).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let binary = |kind: &str| {
        let Program { file, versions } = Program::read(runtime, kind);
        Binary {
            kind: kind.to_owned(),
            file,
            versions,
        }
    };
    kinds.into_iter().map(binary).collect()
}
