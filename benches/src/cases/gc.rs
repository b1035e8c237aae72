//! GC, with nothing to remove and with an attachment that only the plugins still know of.

use cni::Version;
use cni::runtime::{NetworkList, Runtime};
use serde_json::{Map, Value};

use super::Bench;
use crate::asked::capabilities;
use crate::node::{Node, Pod};
use crate::rounds::{Runner, Sample, in_turn};
use crate::row::{Subject, Unit};
use crate::{Case, Outcome, Row, Rules, Side};

const ROUNDS: u32 = 10;

pub(super) fn run(bench: &mut Bench) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    let count = bench.numbers(&[100], &[3]).into_iter().sum();
    for rules in Rules::ALL {
        let mut nodes = bench.nodes(rules)?;
        let (able, unable): (Vec<_>, Vec<_>) = nodes.drain(..).partition(knows_gc);
        for node in unable {
            let what = format!("GC by {}", node.side.name());
            bench.skip(&what, "these plugins do not know it");
        }
        let mut runners = Vec::new();
        for node in &able {
            bench
                .progress
                .begin(&format!("making {count} pods, {}", rules.name()));
            node.crowd(0, count, bench.crowd_maker(node))?;
            let work = Work::new(node, count)?;
            if node.side != Side::Ours
                && let Err(error) = work.collect().and_then(|_| work.collect())
            {
                let what = format!("GC by {}", node.side.name());
                bench.skip(&what, &format!("it leaves what it should remove: {error}"));
                continue;
            }
            runners.push(Runner::new(node.side, move || work.collect()));
        }
        bench.progress.begin(&format!("GC, {}", rules.name()));
        let rounds = bench.options.rounds_of(ROUNDS);
        let measured = in_turn(&mut runners, rounds, &mut bench.progress)?;
        let subject = Subject {
            case: Case::Gc,
            rules: Some(rules),
            at: Some(count),
        };
        rows.extend(subject.rows(Unit::Milliseconds, measured));
    }
    Ok(rows)
}

fn knows_gc(node: &Node) -> bool {
    let newest = Version::V1_1_0.as_str();
    let versions = node.runtime.versions("bridge").unwrap_or_default();
    versions.iter().any(|version| version == newest)
}

struct Work<'a> {
    node: &'a Node,
    list: NetworkList,
    /// The attachments that live.
    valid: Vec<(String, String)>,
    /// A runtime that has forgotten everything.
    forgetful: Runtime,
    gone: Pod,
    asked: Map<String, Value>,
}

impl Work<'_> {
    fn new(node: &Node, count: u32) -> Outcome<Work<'_>> {
        let forgetful = Runtime {
            cache: node.folder().join("forgotten"),
            ..node.runtime.clone()
        };
        let entry = |number| (format!("crowd{number}"), "eth0".to_owned());
        Ok(Work {
            node,
            list: node.list(0, Version::V1_1_0)?,
            valid: (0..count).map(entry).collect(),
            forgetful,
            gone: node.pod("gone")?,
            asked: capabilities(8080, 1),
        })
    }

    fn collect(&self) -> Outcome<Vec<Sample>> {
        let gc = || self.forgetful.gc(&self.list, &self.valid);
        let none = self.node.timed("GC", gc)?;
        let conf = self.gone.conf(&self.asked);
        let add = || self.node.runtime.add(&self.list, &conf).map(drop);
        self.node.time("ADD", add)?;
        let one = self.node.timed("GC of one", gc)?;
        Ok([none, one].concat())
    }
}
