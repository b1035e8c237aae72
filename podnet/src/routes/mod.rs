//! `podnet routes`: this node's routes to other nodes' pods.

pub mod answer;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use node::routes::{self, Change};
use node::{Node, Site};
use plan::{Document, Plan};

use crate::cluster::{self, ClusterArgs, For};
use crate::examples;
use crate::failure::Failure;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  podnet routes show -f cluster.yaml
  podnet routes diff -f cluster.yaml --for node-1
  sudo podnet routes apply -f cluster.yaml --dry-run
  sudo podnet routes apply --pod-cidr 10.244.0.0/16 --node node-0=192.168.10.10 --node node-1=192.168.10.11
  sudo podnet routes remove

";

const EXIT_STATUS: &str = "\
A route that is added carries the protocol number 145, by which `ip route show proto 145` lists it, and \
nothing else is ever removed. Only the table main is looked at. The node's own pod range is never touched.

Exit status: 0 done, or no difference; 1 a difference, or not all could be done; 2 wrong options or \
files, or this machine is no node of the plan.";

/// What is asked of the routes.
#[derive(Debug, Args)]
#[command(after_help = [EXAMPLES, EXIT_STATUS].concat())]
pub struct Routes {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List the routes about pods, and what each is to the plan: planned, missing, foreign or stale
    #[command(after_help = [examples::ROUTES_SHOW, EXIT_STATUS].concat())]
    Show(Asked),
    /// List what differs from the plan: `+` is missing, `-` is to go, `!` is another's or cannot be
    #[command(after_help = [examples::ROUTES_DIFF, EXIT_STATUS].concat())]
    Diff(Asked),
    /// Add the routes that are missing, and remove those added before that are no longer planned
    #[command(after_help = [examples::ROUTES_APPLY, EXIT_STATUS].concat())]
    Apply(Apply),
    /// Remove all routes that were added here; this needs no plan
    #[command(after_help = [examples::ROUTES_REMOVE, EXIT_STATUS].concat())]
    Remove(Remove),
}

#[derive(Debug, Args)]
struct Asked {
    #[command(flatten)]
    node: For,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Debug, Args)]
struct Apply {
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    asked: Asked,
}

#[derive(Debug, Args)]
struct Remove {
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    output: Output,
}

/// Does what is asked.
///
/// # Errors
/// The cluster is wrong, this machine is none of its nodes, or the kernel refuses.
pub fn run(routes: &Routes) -> Result<ExitCode, Failure> {
    match &routes.what {
        What::Show(asked) => show(asked),
        What::Diff(asked) => diff(asked),
        What::Apply(Apply { dry_run, asked }) => apply(asked, *dry_run),
        What::Remove(Remove { dry_run, output }) => remove(*output, *dry_run),
    }
}

fn show(asked: &Asked) -> Result<ExitCode, Failure> {
    let (node, site) = asked.look()?;
    let lines = routes::compare(&node, &site);
    asked.output.say(&answer::shown(&node, &site, &lines))?;
    Ok(ExitCode::SUCCESS)
}

fn diff(asked: &Asked) -> Result<ExitCode, Failure> {
    let (node, site) = asked.look()?;
    let lines = routes::compare(&node, &site);
    let change = Change::to_plan(&node, &site, &lines);
    let foreign = answer::others(&node, &lines, &change);
    asked
        .output
        .say(&answer::changed(&node, &change, &foreign))?;
    Ok(found(
        !change.is_empty() || !change.blocked.is_empty() || !foreign.is_empty(),
    ))
}

fn apply(asked: &Asked, dry_run: bool) -> Result<ExitCode, Failure> {
    let (node, site) = asked.look()?;
    let change = Change::to_plan(&node, &site, &routes::compare(&node, &site));
    make(&node, &change, dry_run)?;
    asked.output.say(&answer::changed(&node, &change, &[]))?;
    Ok(found(!change.blocked.is_empty()))
}

fn remove(output: Output, dry_run: bool) -> Result<ExitCode, Failure> {
    let node = read()?;
    let change = Change::to_nothing(&node);
    make(&node, &change, dry_run)?;
    output.say(&answer::changed(&node, &change, &[]))?;
    Ok(ExitCode::SUCCESS)
}

fn make(node: &Node, change: &Change, dry_run: bool) -> Result<(), Failure> {
    if dry_run || change.is_empty() {
        return Ok(());
    }
    let netlink = net::Netlink::current().map_err(|error| Failure::Failed(error.to_string()))?;
    routes::apply(&netlink, node, change).map_err(|failed| Failure::Failed(failed.to_string()))
}

impl Asked {
    /// The live routes, and what the plan says of this node.
    fn look(&self) -> Result<(Node, Site), Failure> {
        let site = site(&self.cluster, &self.node)?;
        let node = read()?;
        if let Some(planned) = routes::to_itself(&node, &site) {
            let (meant, via, to) = (self.node.meant(&site.name), planned.via, &planned.to);
            let reason = format!("{meant}, but {via} of {to} is here");
            return Err(Failure::Usage(reason));
        }
        Ok((node, site))
    }
}

/// What the plan says of this node.
///
/// # Errors
/// The cluster is wrong, or this machine is none of its nodes.
pub fn site(cluster: &ClusterArgs, node: &For) -> Result<Site, Failure> {
    site_of(&cluster.document()?, node)
}

/// What the plan says of this node, where anybody said what the cluster is.
///
/// # Errors
/// The cluster is wrong, or this machine is none of its nodes.
pub fn site_if_told(cluster: &ClusterArgs, node: &For) -> Result<Option<Site>, Failure> {
    let document = cluster.document()?;
    let has = |key: &str| {
        document
            .value()
            .get(key)
            .is_some_and(|value| *value != serde_json::json!([]))
    };
    if cluster.file.is_none() && !has("podSubnet") && !has("nodes") {
        return Ok(None);
    }
    site_of(&document, node).map(Some)
}

fn site_of(document: &Document, node: &For) -> Result<Site, Failure> {
    let plan = cluster::make(document, Plan::new)?;
    let name = node.node(&plan.cluster)?;
    let site = Site::new(&plan, &name);
    let site = site.map_err(|fault| Failure::usage(document.locate(fault)))?;
    site.ok_or_else(|| Failure::Usage(format!("{name:?} is no node's name")))
}

fn read() -> Result<Node, Failure> {
    Node::read_routes().map_err(|unread| Failure::Failed(format!("cannot read {unread}")))
}

fn found(something: bool) -> ExitCode {
    match something {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}
