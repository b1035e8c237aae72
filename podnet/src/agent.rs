//! `podnet agent`: this node's pod network, as the API tells of the nodes.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use agent::{Options, Outlook, Seen, Settings, Step};
use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use cri::Endpoint;
use node::{USUAL_AGENT, USUAL_AGENT_CONFLIST};
use plan::kubernetes::{Told, told};
use plan::{Document, check_node};
use serde_json::json;

use crate::cluster;
use crate::failure::Failure;
use crate::garbage::GRACE;
use crate::network::Folders;
use crate::output::{Answer, Output};
use crate::plans::conflist::Types;
use crate::reading::read;
use crate::routes::answer;

const EXAMPLES: &str = "\
Examples:
  sudo podnet agent --kubeconfig /etc/kubernetes/agent.conf --node-name node-1
  podnet agent --plan --kubeconfig ~/.kube/config --node-name node-1
  kubectl get nodes -o json | podnet agent --plan --nodes - --node-name node-1

";

const EXIT_STATUS: &str = "\
A signal ends it; routes and conflist stay. Nothing that the API or the kernel answers does.

Exit status: 0 it was ended; with --plan 0 nothing is to be done, 1 something is, or is wrong; 2 wrong \
options or files.";

/// Keep this node's pod network right on Kubernetes
///
/// Of what the API tells of the nodes: routes to the others' pod ranges, and the conflist of the own
/// one. What is wrong with one node stops none of the others, and is said with a reason.
#[derive(Debug, Args)]
#[command(after_help = [EXAMPLES, EXIT_STATUS].concat())]
pub struct Asked {
    /// Only say what would be done
    #[arg(long)]
    plan: bool,
    /// Nodes as `kubectl get nodes -o json` prints them, and not as the API says; `-` is standard input
    #[arg(
        long,
        value_name = "FILE",
        requires = "plan",
        conflicts_with = "kubeconfig"
    )]
    nodes: Option<PathBuf>,
    /// Where the API is [default: as KUBECONFIG says, or the service account of the pod]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
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
    #[arg(long, value_name = "NAME", default_value = USUAL_AGENT_CONFLIST, value_parser = file_name)]
    conflist: String,
    /// The folder of reservations [default: host-local's, /var/lib/cni/networks]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    running: Running,
    #[command(flatten)]
    folders: Folders,
    #[command(flatten)]
    output: Output,
}

/// How it runs.
#[derive(Debug, Args)]
#[command(next_help_heading = "Running")]
struct Running {
    /// Where /readyz, /livez, /metrics and /findings are served
    #[arg(long, value_name = "ADDRESS:PORT", default_value = USUAL_AGENT)]
    listen: SocketAddr,
    /// How often all is looked at although nothing was heard, and how often GC is done
    #[arg(long, value_name = "SECONDS", default_value_t = 180,
        value_parser = RangedU64ValueParser::<u64>::new().range(1..=3600))]
    resync: u64,
    /// The socket of a container runtime, as unix:///run/containerd/containerd.sock: what crashed sandboxes
    /// have left is removed, as `podnet gc --all --from-cri` does
    #[arg(long, value_name = "ENDPOINT")]
    from_cri: Vec<Endpoint>,
    /// How old what crashed sandboxes have left must be, as for `podnet gc`
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = GRACE,
        requires = "from_cri"
    )]
    grace: u64,
    /// Where the node's root is mounted in the agent's pod: what crashed sandboxes have left is removed
    /// there, with the node's own plugins and iptables. Needs CAP_SYS_CHROOT, and what GC itself does
    #[arg(long, value_name = "DIR", requires = "from_cri")]
    node_root: Option<PathBuf>,
    /// Install the plugins of this folder, as `podnet install` does, into the first folder of --cni-path
    #[arg(long, value_name = "DIR")]
    install_from: Option<PathBuf>,
    /// How much is said on standard error
    #[arg(long, value_enum, default_value_t = Level::Info)]
    log_level: Level,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Level {
    Error,
    Warn,
    Info,
    Debug,
}

impl From<Level> for agent::Level {
    fn from(level: Level) -> agent::Level {
        match level {
            Level::Error => agent::Level::ERROR,
            Level::Warn => agent::Level::WARN,
            Level::Info => agent::Level::INFO,
            Level::Debug => agent::Level::DEBUG,
        }
    }
}

/// Runtimes read files of that ending alone as lists.
fn file_name(text: &str) -> Result<String, String> {
    let is_name = install::configuration_name(Path::new(text)) == Ok(text);
    if is_name && text.ends_with(".conflist") {
        return Ok(text.to_owned());
    }
    Err("expected a file's name that ends in .conflist, as 10-podnet.conflist".to_owned())
}

/// Runs the agent, or says what it would do.
///
/// # Errors
/// Options or files are wrong; this node cannot be read; the API does not tell what is to be planned.
pub fn run(asked: &Asked) -> Result<ExitCode, Failure> {
    let settings = asked.settings()?;
    if let Some(file) = &asked.nodes {
        let (name, text) = read(file)?;
        let told = told(&name, &text).map_err(Failure::usage)?;
        return plan(asked, &settings, &told);
    }
    let kubeconfig = asked.kubeconfig.as_deref();
    if asked.plan {
        let told = agent::list(kubeconfig).map_err(of_agent)?;
        return plan(asked, &settings, &told);
    }
    let running = &asked.running;
    let plugins = settings.places.runtime.path.first().cloned();
    let options = Options {
        kubeconfig: asked.kubeconfig.clone(),
        listen: running.listen,
        install: running.install_from.clone().zip(plugins),
        collect: asked.collect()?,
        resync: Duration::from_secs(running.resync),
        level: running.log_level.into(),
        settings,
    };
    agent::run(&options).map_err(of_agent)?;
    Ok(ExitCode::SUCCESS)
}

fn of_agent(error: agent::Error) -> Failure {
    match error {
        agent::Error::Config(_) => Failure::usage(error),
        agent::Error::Api(_) | agent::Error::Io(_) => Failure::Failed(error.to_string()),
    }
}

fn plan(asked: &Asked, settings: &Settings, told: &[Told]) -> Result<ExitCode, Failure> {
    let seen = Seen::look(settings);
    let seen = seen.map_err(|unread| Failure::Failed(format!("cannot read {unread}")))?;
    let outlook = Outlook::new(settings, told, seen);
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
    /// The command by which GC is done, where a runtime is named that says who lives.
    fn collect(&self) -> Result<Option<Vec<OsString>>, Failure> {
        let runtimes = &self.running.from_cri;
        if runtimes.is_empty() {
            return Ok(None);
        }
        let own = std::env::current_exe();
        let own = own.map_err(|error| Failure::Failed(format!("where podnet is: {error}")))?;
        let mut command: Vec<OsString> = vec![own.into(), "gc".into(), "--all".into()];
        for runtime in runtimes {
            command.extend(["--from-cri".into(), runtime.to_string().into()]);
        }
        let grace = self.running.grace.to_string();
        command.extend(["--grace".into(), grace.into()]);
        if let Some(root) = &self.running.node_root {
            command.extend(["--node-root".into(), root.into()]);
        }
        command.extend(self.folders.options());
        command.extend(["--output".into(), "json".into()]);
        Ok(Some(command))
    }

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
            api: Vec::new(),
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
