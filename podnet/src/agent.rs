//! `podnet agent`: this node's pod network, as the API tells of the nodes.

use std::path::PathBuf;
use std::process::ExitCode;

use agent::{Outlook, Seen, Settings, Step};
use clap::Args;
use plan::kubernetes::{Told, told};
use plan::{Document, check_node};
use serde_json::json;

use crate::cluster;
use crate::failure::Failure;
use crate::network::Folders;
use crate::output::{Answer, Output};
use crate::plans::conflist::Types;
use crate::reading::read;
use crate::routes::answer;

const EXAMPLES: &str = "\
Examples:
  kubectl get nodes -o json > nodes.json
  podnet agent --plan --nodes nodes.json --node-name node-1

";

const EXIT_STATUS: &str = "\
Exit status: with --plan 0 nothing is to be done, 1 something is, or is wrong; 2 wrong options or files.";

/// Keep this node's pod network right on Kubernetes
///
/// Of what the API tells of the nodes: routes to the others' pod ranges, and the conflist of the own
/// one. What is wrong with one node stops none of the others, and is said with a reason.
#[derive(Debug, Args)]
#[command(after_help = [EXAMPLES, EXIT_STATUS].concat())]
pub struct Asked {
    /// Only say what would be done
    #[arg(long, required = true)]
    plan: bool,
    /// Nodes as `kubectl get nodes -o json` prints them; `-` is standard input
    #[arg(long, value_name = "FILE", required = true)]
    nodes: PathBuf,
    /// The name of this node [default: the host name]
    #[arg(long, value_name = "NAME", env = "NODE_NAME")]
    node_name: Option<String>,
    /// The cluster file, for the network's name, its bridge and features, and the ranges of all pods;
    /// it names no nodes
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    file: Option<PathBuf>,
    /// The range of all pods; twice for IPv4 and IPv6
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    pod_cidr: Vec<String>,
    /// This node's interface through which other nodes are reached [default: as routes say]
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// Which names the plugins have
    #[arg(long, value_enum, default_value_t = Types::Lite)]
    types: Types,
    /// The name of the conflist in the folder of configurations
    #[arg(long, value_name = "NAME", default_value = "10-podnet.conflist", value_parser = file_name)]
    conflist: String,
    /// The folder of reservations [default: host-local's, /var/lib/cni/networks]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    folders: Folders,
    #[command(flatten)]
    output: Output,
}

/// Runtimes read files of that ending alone as lists.
fn file_name(text: &str) -> Result<String, String> {
    let is_plain =
        !text.contains('/') && !text.starts_with('.') && !text.contains(char::is_control);
    if is_plain && text.ends_with(".conflist") {
        return Ok(text.to_owned());
    }
    Err("expected a file's name that ends in .conflist, as 10-podnet.conflist".to_owned())
}

/// Says what would be done.
///
/// # Errors
/// Options or files are wrong; this node cannot be read.
pub fn run(asked: &Asked) -> Result<ExitCode, Failure> {
    let (name, text) = read(&asked.nodes)?;
    let told = told(&name, &text).map_err(Failure::usage)?;
    plan(asked, &told)
}

fn plan(asked: &Asked, told: &[Told]) -> Result<ExitCode, Failure> {
    let settings = asked.settings()?;
    let seen = Seen::look(&settings);
    let seen = seen.map_err(|unread| Failure::Failed(format!("cannot read {unread}")))?;
    let outlook = Outlook::new(&settings, told, seen);
    asked.output.say(&said(&outlook))?;
    Ok(match outlook.is_done() && outlook.findings.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// The routes as `podnet routes diff` says them, then the conflist, then what is wrong.
fn said(outlook: &Outlook) -> Answer {
    let (node, change) = (&outlook.node, &outlook.change);
    let foreign = answer::others(node, &outlook.lines, change);
    let mut said = answer::changed(node, change, &foreign);
    let conflist = &outlook.conflist;
    let file = conflist.file.display();
    let step = match conflist.step {
        Step::Keep => "unchanged",
        Step::Write => "written",
        Step::Wait => "waits",
    };
    if conflist.step == Step::Write {
        for (index, net) in &conflist.former {
            said.text
                .push_str(&format!("- address {net} dev {}\n", node.name_of(*index)));
        }
        said.text.push_str(&format!("+ {file}\n"));
        for line in conflist.text.lines() {
            said.text.push_str(&format!("  {line}\n"));
        }
    }
    let findings = outlook.findings.iter();
    said.text
        .extend(findings.clone().map(|finding| format!("! {finding}\n")));
    let findings = findings.map(
        |finding| json!({ "node": finding.node, "reason": finding.reason.as_str(), "message": finding.message }),
    );
    said.json["conflist"] =
        json!({ "file": file.to_string(), "step": step, "text": conflist.text });
    said.json["findings"] = findings.collect();
    said
}

impl Asked {
    fn settings(&self) -> Result<Settings, Failure> {
        let own = match &self.node_name {
            Some(name) => name.clone(),
            None => cluster::host_name(),
        };
        check_node(&own).map_err(|reason| Failure::Usage(format!("--node-name: {reason}")))?;
        let document = self.document()?;
        let folders = self.folders.of_node();
        let cluster = cluster::make(&document, Ok)?;
        Ok(Settings {
            own,
            data: self.data_dir.clone(),
            file: folders.conf.join(&self.conflist),
            device: self.device.clone(),
            types: self.types.into(),
            places: folders,
            cluster,
        })
    }

    fn document(&self) -> Result<Document, Failure> {
        let mut document = match &self.file {
            None => Document::empty(),
            Some(file) => {
                let (name, text) = read(file)?;
                Document::parse(&name, &text).map_err(Failure::usage)?
            }
        };
        if document.value().get("nodes").is_some() {
            let reason = "the API says which nodes there are: expected a file without them";
            return Err(Failure::usage(
                document.locate(plan::Fault::new("nodes", reason)),
            ));
        }
        if !self.pod_cidr.is_empty() {
            document.set("podSubnet", json!(self.pod_cidr), "--pod-cidr");
        }
        Ok(document)
    }
}
