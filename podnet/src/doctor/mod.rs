//! `podnet doctor`: what is wrong with this node.

mod answer;
mod fix;
mod probe;

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Args;
use node::{Agent, Case, Node, Places, Site, USUAL_AGENT};

use crate::cluster::{ClusterArgs, For};
use crate::failure::Failure;
use crate::network::Folders;
use crate::output::Output;
use crate::routes;

const EXAMPLES: &str = "\
Examples:
  sudo podnet doctor
  sudo podnet doctor -f cluster.yaml
  sudo podnet doctor -f cluster.yaml --for node-1 --output json
  sudo podnet doctor -f cluster.yaml --fix
  sudo podnet doctor -f cluster.yaml --probe /run/netns/blue --peer node-2
  podnet doctor | grep ^finding=

";

const EXIT_STATUS: &str = "\
Every finding has a name, how bad it is, what it breaks, the evidence, and the command that mends it. \
What could not be read is said too: without root that is much. What needs the cluster's plan is left \
out where there is neither a file nor options, and named.

Exit status: 0 nothing found, and all was read; 1 a finding, or something that could not be read; \
2 wrong options or files, or this machine is no node of the plan.";

/// Find what is wrong with this node's pod network, and the command that mends it
///
/// Nothing is changed without --fix.
#[derive(Debug, Args)]
#[command(after_help = [EXAMPLES, EXIT_STATUS].concat())]
pub struct Asked {
    /// Mend what can be mended safely, asking before each step; then look again
    #[arg(long)]
    fix: bool,
    /// Do not ask
    #[arg(long, requires = "fix")]
    yes: bool,
    /// Where the agent of this node serves, which is asked as well
    #[arg(long, value_name = "ADDRESS:PORT", default_value = USUAL_AGENT)]
    agent: SocketAddr,
    #[command(flatten)]
    node: For,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    folders: Folders,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    probe: probe::Probe,
}

/// Looks, mends where that is asked for, and says what is wrong.
///
/// # Errors
/// The cluster is wrong, or this machine is none of its nodes.
pub fn run(asked: &Asked) -> Result<ExitCode, Failure> {
    let site = routes::site_if_told(&asked.cluster, &asked.node)?;
    let places = asked.folders.of_node();
    let mut node = read(&places, asked.agent);
    let mut fixed = Vec::new();
    if asked.fix {
        let report = node::look(&case(&node, site.as_ref()));
        fixed = fix::all(&node, &report, asked.yes)?;
        node = read(&places, asked.agent);
    }
    let case = case(&node, site.as_ref());
    let report = node::look(&case);
    let climb = asked.probe.climb(&case)?;
    let mut answer = answer::of(&node, site.as_ref(), &report, &fixed);
    if let Some(climb) = &climb {
        answer.add("probe", climb.answer());
    }
    asked.output.say(&answer)?;
    let is_up = climb.is_none_or(|climb| climb.is_up());
    Ok(match report.is_healthy() && is_up {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn read(places: &Places, agent: SocketAddr) -> Node {
    Node {
        agent: Agent::ask(agent),
        ..Node::read(places)
    }
}

fn case<'a>(node: &'a Node, site: Option<&'a Site>) -> Case<'a> {
    Case { node, site }
}
