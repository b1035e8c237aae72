//! `podnet demo`: a node, an outside host and two pods out of namespaces, the real chain over them,
//! and a line for each thing that is shown to work.

mod chain;
mod interrupt;
mod report;
mod steps;
mod verdict;
mod world;

use std::error::Error;
use std::path::PathBuf;

use chain::Chain;
use interrupt::Interrupt;
pub use interrupt::Interrupted;
use lab::Snapshot;
use report::Report;
use steps::{Attached, STEPS};
use world::World;

/// A value, or why there is none, in one line.
type Outcome<T> = Result<T, Box<dyn Error>>;

/// The chain that is shown unless another is asked for.
const CONFLIST: &str = include_str!("../../../conf/10-k8nd.conflist");

/// One kind of what a node holds.
type Kind = fn(&Snapshot) -> &Vec<String>;

/// What is counted before and after.
const KINDS: [(&str, Kind); 4] = [
    ("links left", |node| &node.links),
    ("rules left", |node| &node.rules),
    ("qdiscs left", |node| &node.qdiscs),
    ("reservations left", |node| &node.reservations),
];

/// Options of `podnet demo`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Leave the lab up, both pods attached, and print how to look into it
    #[arg(long)]
    keep: bool,
    /// Remove the labs that --keep left up, and do nothing else
    #[arg(long, conflicts_with = "keep")]
    remove: bool,
    /// Folders with the plugins, separated by `:`; bridge-lite is preferred to bridge, and so on
    /// [default: $CNI_PATH, else the folder of this program]
    #[arg(long, value_name = "DIR")]
    cni_path: Option<PathBuf>,
    /// The chain to show [default: conf/10-k8nd.conflist]
    #[arg(long, value_name = "FILE")]
    conf: Option<PathBuf>,
}

/// Runs the demo; true where every line holds.
///
/// # Errors
/// The lab could not be made, standard output is gone, or a signal came ([`Interrupted`]).
pub fn run(options: &Options) -> Outcome<bool> {
    let interrupt = Interrupt::catch()?;
    let mut report = Report::new(interrupt.clone());
    if lab::rootless::enter()? && options.keep {
        return Err("--keep needs root: an ordinary user's namespaces end with the program".into());
    }
    if options.remove {
        report.say(&format!("{} removed", lab::sweep(true)?))?;
        return Ok(true);
    }
    lab::supported()?;
    // What an interrupted run left.
    lab::sweep(false)?;

    let conflist = match &options.conf {
        Some(file) => {
            std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?
        }
        None => CONFLIST.to_owned(),
    };
    let path = chain::plugin_path(options.cni_path.as_deref())?;
    let world = World::new()?;
    let chain = Chain::new(&conflist, &path, world.lab.folder())?;
    report.say(&format!(
        "node {}, outside {}, two pods; {} of {}",
        world::NODE,
        world::OUTSIDE,
        chain.plugins().join(", "),
        std::env::join_paths(&path)?.display()
    ))?;

    show(&mut report, &world, &chain, &interrupt)?;
    if options.keep {
        Attached::new(&world, &chain, &interrupt)?;
        report.say(&world.keep()?)?;
    }
    report.finish()
}

/// Every line, from ADD to what is left after DEL.
fn show(report: &mut Report, world: &World, chain: &Chain, interrupt: &Interrupt) -> Outcome<()> {
    let before = Snapshot::of(&world.node, chain.store())?;
    report.begin("ADD")?;
    let attached = match Attached::new(world, chain, interrupt) {
        Ok(attached) => attached,
        // Without pods there is nothing to look at.
        Err(error) => return report.end("ADD", Err(error)),
    };
    for (what, measure) in STEPS {
        report.begin(what)?;
        report.end(what, measure(&attached))?;
    }
    report.begin("DEL")?;
    let after = match attached.detach() {
        Ok((measured, after)) => {
            report.end("DEL", Ok(measured))?;
            after
        }
        Err(error) => return report.end("DEL", Err(error)),
    };
    let since = after.since(&before);
    for (what, of) in KINDS {
        let [before, with, after] = [&before, &attached.node, &after].map(|node| of(node).len());
        report.end(what, Ok(verdict::left(before, with, after, of(&since))))?;
    }
    Ok(())
}
