//! The cases, a file for each.

mod at_once;
mod chain;
mod connections;
mod gc;
mod instructions;
mod life;
mod pods;
mod ports;
mod processes;
mod sizes;
mod steps;
mod store;
mod traffic;
mod watched;

use std::path::Path;

use crate::floor::Floor;
use crate::machine::Machine;
use crate::node::Node;
use crate::progress::Progress;
use crate::report::Skipped;
use crate::{Case, Contender, Options, Outcome, Report, Row, Rules, Side};

/// Where Debian's package `containernetworking-plugins` puts them.
const REFERENCE: &str = "/usr/lib/cni";

/// Who runs, how long, and what is told meanwhile.
#[derive(Debug)]
pub struct Bench {
    options: Options,
    machine: Machine,
    /// The plugins to measure.
    ours: Contender,
    /// Those to compare with, where there are any.
    theirs: Option<Contender>,
    progress: Progress,
    skipped: Vec<Skipped>,
    failed: Vec<Skipped>,
}

impl Bench {
    /// Looks who is there.
    ///
    /// # Errors
    /// A plugin is missing.
    pub fn new(options: &Options) -> Outcome<Bench> {
        let mut bench = Bench {
            options: options.clone(),
            machine: Machine::this(),
            ours: Contender::look(Side::Ours, &options.ours)?,
            theirs: None,
            progress: Progress::new(),
            skipped: Vec::new(),
            failed: Vec::new(),
        };
        let reference = Path::new(REFERENCE);
        match &options.against {
            Some(folder) => bench.theirs = Some(Contender::look(Side::Theirs, folder)?),
            None => match Contender::look(Side::Theirs, reference) {
                Ok(theirs) => bench.theirs = Some(theirs),
                Err(error) => bench.skip("any other plugins", &error.to_string()),
            },
        }
        Ok(bench)
    }

    /// Ends with what was measured.
    pub fn report(self, rows: Vec<Row>) -> Report {
        self.progress.end();
        Report {
            machine: self.machine,
            contenders: std::iter::once(self.ours).chain(self.theirs).collect(),
            rows,
            skipped: self.skipped,
            failed: self.failed,
        }
    }

    /// Notes what is not measured, and why: the first reason is told.
    fn skip(&mut self, what: &str, why: &str) {
        if !self.skipped.iter().any(|skipped| skipped.what == what) {
            self.skipped.push(Skipped {
                what: what.to_owned(),
                why: why.trim().to_owned(),
            });
        }
    }

    /// Notes that a case failed.
    pub fn fail(&mut self, case: Case, why: &str) {
        self.failed.push(Skipped {
            what: case.title().to_owned(),
            why: why.trim().to_owned(),
        });
    }

    fn contenders(&self) -> impl Iterator<Item = &Contender> {
        std::iter::once(&self.ours).chain(&self.theirs)
    }

    /// A node without pods for each contender that can make rules in that way; none where this machine
    /// cannot.
    fn nodes(&mut self, rules: Rules) -> Outcome<Vec<Node>> {
        let mut nodes = Vec::new();
        let mut unable = Vec::new();
        for contender in self.contenders() {
            let what = format!("{} by {}", rules.name(), contender.side.name());
            if !contender.can(rules) {
                unable.push((what, "these plugins have no such backend".to_owned()));
                continue;
            }
            let node = Node::new(contender, rules).and_then(|node| node.usable().map(|()| node));
            match node {
                Ok(node) => nodes.push(node),
                Err(error) => unable.push((what, error.to_string())),
            }
        }
        unable.iter().for_each(|(what, why)| self.skip(what, why));
        Ok(nodes)
    }

    /// The floor on our own node among these, where its program is there.
    fn floor<'a>(&mut self, nodes: &'a [Node]) -> Option<Floor<'a>> {
        let node = nodes.iter().find(|node| node.side == Side::Ours)?;
        let Some(program) = Floor::program(&self.options.ours) else {
            self.skip("the floor", "its program is not beside the plugins");
            return None;
        };
        match Floor::new(&program, node) {
            Ok(floor) => Some(floor),
            Err(error) => {
                let what = format!("{} by the floor", node.rules.name());
                self.skip(&what, &error.to_string());
                None
            }
        }
    }

    /// The plugins that are to make up a crowd on a node: ours, since theirs would take many minutes
    /// and the rules by iptables are the same; by nftables each makes its own.
    fn crowd_maker(&self, node: &Node) -> &Contender {
        match &self.theirs {
            Some(theirs) if node.side == Side::Theirs && node.rules == Rules::Nftables => theirs,
            _ => &self.ours,
        }
    }

    /// These numbers, or the first and a small one.
    fn numbers(&self, usual: &[u32], quick: &[u32]) -> Vec<u32> {
        let numbers = if self.options.quick { quick } else { usual };
        numbers.to_vec()
    }
}

/// Measures one case.
///
/// # Errors
/// The lab's, or a plugin's.
pub fn run(case: Case, bench: &mut Bench) -> Outcome<Vec<Row>> {
    match case {
        Case::Chain => chain::run(bench),
        Case::Steps => steps::run(bench),
        Case::AtOnce => at_once::run(bench),
        Case::Pods => pods::run(bench),
        Case::Store => store::run(bench),
        Case::Ports => ports::run(bench),
        Case::Gc => gc::run(bench),
        Case::Traffic => traffic::run(bench),
        Case::Processes => processes::run(bench),
        Case::Instructions => instructions::run(bench),
        Case::Sizes => sizes::run(bench),
    }
}
