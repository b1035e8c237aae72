//! What a chain's plugins start, ask of the kernel and hold in memory.

use std::collections::BTreeMap;

use lab::trace::Process;

use super::Bench;
use super::watched::Watched;
use crate::contender::PLUGINS;
use crate::counted::{Call, Traced};
use crate::rounds::{Measured, Runner, Sample, in_turn};
use crate::row::{Subject, Unit};
use crate::{Case, Outcome, Row, Rules};

/// How rows end that are sizes.
const MEMORY: &str = " peak";

pub(super) fn run(bench: &mut Bench) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    if let Err(why) = lab::trace::supported() {
        bench.skip("processes", &why);
        return Ok(rows);
    }
    for rules in Rules::ALL {
        bench
            .progress
            .begin(&format!("processes, {}", rules.name()));
        let mut nodes = bench.nodes(rules)?;
        let mut runners = Vec::new();
        for node in &mut nodes {
            let traced = Traced::new(node.path.clone());
            let watched = Watched::new(node, traced)?;
            runners.push(Runner::new(watched.node.side, move || life(&watched)));
        }
        // They do the same each time.
        let measured = in_turn(&mut runners, 1, &mut bench.progress)?;
        let is_memory = |measured: &Measured| measured.what.ends_with(MEMORY);
        let (memory, counts) = measured.into_iter().partition(is_memory);
        let subject = Subject {
            rules: Some(rules),
            ..Subject::of(Case::Processes)
        };
        rows.extend(subject.rows(Unit::Count, counts));
        rows.extend(subject.rows(Unit::Kilobytes, memory));
    }
    Ok(rows)
}

/// One pod's.
fn life(watched: &Watched<Traced>) -> Outcome<Vec<Sample>> {
    watched.life()?;
    let mut calls = watched.watch.take();
    if watched.node.refused().is_some() {
        calls.retain(|call| call.verb != "CHECK");
    }
    Ok(samples(&calls))
}

/// For each verb how many processes and system calls it took, and for each plugin the most memory
/// that any of its processes had.
fn samples(calls: &[Call]) -> Vec<Sample> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut peaks: BTreeMap<String, u64> = BTreeMap::new();
    for call in calls {
        let mut count = |what: &str, number: usize| {
            let count = counts.entry(format!("{} {what}", call.verb)).or_default();
            *count += number as u64;
        };
        count("processes", call.processes.len());
        for process in &call.processes {
            count(
                "system calls",
                usize::try_from(process.system_calls).unwrap_or(usize::MAX),
            );
            if let Some(plugin) = plugin_of(process) {
                let peak = peaks.entry(format!("{plugin}{MEMORY}")).or_default();
                *peak = process.peak.max(*peak);
            }
        }
    }
    let all = counts.into_iter().chain(peaks);
    all.map(|(what, number)| (what, number as f64)).collect()
}

/// The plugin that a process is of, if it is one's.
fn plugin_of(process: &Process) -> Option<&'static str> {
    let name = process.program.file_name()?.to_str()?;
    let name = name.strip_suffix("-lite").unwrap_or(name);
    PLUGINS.into_iter().find(|plugin| *plugin == name)
}
