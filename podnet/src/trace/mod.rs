//! `podnet trace`: the path of a pod's packets.

mod answer;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use net::Netns;
use node::trace::{self, Destination, Subject};
use node::{Case, Node, Site};

use crate::cluster::{ClusterArgs, For};
use crate::failure::Failure;
use crate::network::Folders;
use crate::output::Output;
use crate::routes;

const EXAMPLES: &str = "\
Examples:
  sudo podnet trace 10.244.1.7
  sudo podnet trace 3f2a --to 10.96.0.10:53/udp
  sudo podnet trace k8nd-pod-network/3f2a9c/eth0 --output json
  sudo podnet trace blue --to 192.0.2.7:443
  sudo podnet trace eth0 --to 192.168.10.11:8080
  sudo podnet trace 10.244.2.9 -f cluster.yaml --for node-1
  sudo podnet trace 10.244.1.7 | grep fault=

";

const EXIT_STATUS: &str = "\
A hop a line: which way (`out` of the pod, `in` to it), what it is, its name, what is so of it as \
key=value, and fault= where no packet goes on from it. Nothing is sent: what is said follows from \
links, routes and rules. Of conditions of rules that nobody can judge from outside none is taken to \
drop a packet.

Exit status: 0 no fault on the path; 1 a fault, or something that could not be read; 2 wrong options \
or files, or nothing on this node has that name.";

/// Where Linux distributions keep named namespaces.
const NAMED: &str = "/run/netns";

/// Show the path of a pod's packets, both ways, hop by hop
#[derive(Debug, Args)]
#[command(after_help = [EXAMPLES, EXIT_STATUS].concat())]
pub struct Asked {
    /// A pod: its container's id or how that begins, NETWORK/ID/INTERFACE, its address, its namespace
    /// by path or name; or a link of this node, or with a cluster an address of another node's pod
    #[arg(value_name = "POD|NETNS|IP|IFACE")]
    subject: String,
    /// Where a packet would go to this address, and which rules decide; the protocol is tcp unless
    /// told. For a link: a packet that comes in by it from outside
    #[arg(long, value_name = "IP[:PORT[/PROTOCOL]]")]
    to: Option<Destination>,
    #[command(flatten)]
    node: For,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    folders: Folders,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Follows the path, and says it.
///
/// # Errors
/// The cluster is wrong, or nothing on this node has that name.
pub fn run(asked: &Asked) -> Result<ExitCode, Failure> {
    let site = routes::site_if_told(&asked.cluster, &asked.node)?;
    let node = Node::read(&asked.folders.of_node());
    let paths: Vec<answer::Path> = subjects(&node, site.as_ref(), &asked.subject)?
        .into_iter()
        .map(|subject| {
            let case = Case {
                node: &node,
                site: site.as_ref(),
            };
            let hops = trace::path(case, &subject, asked.to);
            answer::Path { subject, hops }
        })
        .collect();
    let faults = answer::faults(&paths);
    asked.output.say(&answer::of(&node, &paths))?;
    Ok(match faults == 0 && node.unread.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// What is meant, with what is in the namespaces of pods.
fn subjects(node: &Node, site: Option<&Site>, text: &str) -> Result<Vec<Subject>, Failure> {
    let lost = match trace::find(&Case { node, site }, text) {
        Ok(found) => return Ok(found.into_iter().map(looked_into).collect()),
        Err(lost) => lost,
    };
    let Some(path) = netns(text) else {
        return Err(Failure::Usage(lost));
    };
    let inside = inside(&path).map_err(|error| Failure::Usage(format!("{text:?}: {error}")))?;
    let pods = node.pods_in(&path, &inside);
    if pods.is_empty() {
        let reason = format!(
            "{}: no interface of it has its other end here",
            path.display()
        );
        return Err(Failure::Usage(reason));
    }
    let pods = pods.into_iter().map(Box::new);
    Ok(pods.map(Subject::Pod).collect())
}

fn looked_into(subject: Subject) -> Subject {
    match subject {
        Subject::Pod(mut pod) => {
            pod.inside = pod.netns.as_deref().map(inside);
            Subject::Pod(pod)
        }
        other => other,
    }
}

/// What is in a namespace.
fn inside(path: &Path) -> Result<Node, String> {
    let read = || {
        let netns = Netns::open(path).map_err(|error| error.to_string())?;
        let read = netns.enter(Node::read_pod);
        let read = read.map_err(|error| error.to_string())?;
        read.map_err(|unread| unread.to_string())
    };
    read()
}

/// The file of a namespace that no cache knows, if there is one.
fn netns(text: &str) -> Option<PathBuf> {
    let path = match text.contains('/') {
        true => PathBuf::from(text),
        false => Path::new(NAMED).join(text),
    };
    (path.exists() && !path.is_dir()).then_some(path)
}
