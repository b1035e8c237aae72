//! Pods that come and go eight at once.

use std::time::{Duration, Instant};

use cni::Version;
use cni::runtime::{NetworkList, RuntimeConf};

use super::Bench;
use crate::asked::capabilities;
use crate::floor::{Floor, FloorPod};
use crate::node::{Node, milliseconds};
use crate::rounds::{Measured, Runner, Sample, in_turn};
use crate::row::{Subject, Unit};
use crate::statistics::percentile;
use crate::threads::at_once;
use crate::{Case, Outcome, Row, Rules, Side};

/// How many come at once.
const THREADS: usize = 8;

const ROUNDS: u32 = 3;

/// How rows are called that are rates.
const RATE: &str = "a second";

pub(super) fn run(bench: &mut Bench) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    let pods = if bench.options.quick { 8 } else { 50 };
    for rules in Rules::ALL {
        bench
            .progress
            .begin(&format!("8 at once, {}", rules.name()));
        let nodes = bench.nodes(rules)?;
        let floor = bench.floor(&nodes);
        let mut runners = Vec::new();
        for node in &nodes {
            let crowd = Crowd::new(node, pods)?;
            runners.push(Runner::new(node.side, move || crowd.come_and_go()));
        }
        if let Some(floor) = &floor {
            runners.push(floor_pods(floor, pods)?);
        }
        let rounds = bench.options.rounds_of(ROUNDS);
        let measured = in_turn(&mut runners, rounds, &mut bench.progress)?;
        let is_rate = |measured: &Measured| measured.what.ends_with(RATE);
        let (rates, times) = measured.into_iter().partition(is_rate);
        let subject = Subject {
            rules: Some(rules),
            ..Subject::of(Case::AtOnce)
        };
        rows.extend(subject.rows(Unit::PerSecond, rates));
        rows.extend(subject.rows(Unit::Milliseconds, times));
    }
    Ok(rows)
}

struct Crowd<'a> {
    node: &'a Node,
    list: NetworkList,
    pods: Vec<RuntimeConf>,
}

impl Crowd<'_> {
    fn new(node: &Node, count: u8) -> Outcome<Crowd<'_>> {
        let pod = |number: u8| {
            let pod = node.pod(&format!("pod{number}"))?;
            Ok(pod.conf(&capabilities(8000 + u32::from(number), 1)))
        };
        Ok(Crowd {
            node,
            list: node.list(0, Version::V1_0_0)?,
            pods: (0..count).map(pod).collect::<Outcome<_>>()?,
        })
    }

    fn come_and_go(&self) -> Outcome<Vec<Sample>> {
        let (node, list) = (self.node, &self.list);
        let add = |pod: &RuntimeConf| node.time("ADD", || node.runtime.add(list, pod).map(drop));
        let del = |pod: &RuntimeConf| node.time("DEL", || node.runtime.del(list, pod));
        Ok([all("ADD", &self.pods, add)?, all("DEL", &self.pods, del)?].concat())
    }
}

fn floor_pods<'a>(floor: &'a Floor, count: u8) -> Outcome<Runner<'a>> {
    let pods = (1..=count).map(|number| floor.pod(number));
    let pods = pods.collect::<Outcome<Vec<_>>>()?;
    let call = move |verb: &'static str| move |pod: &FloorPod| floor.time(verb, pod);
    Ok(Runner::new(Side::Floor, move || {
        Ok([
            all("ADD", &pods, call("add"))?,
            all("DEL", &pods, call("del"))?,
        ]
        .concat())
    }))
}

/// The call for all pods: how many of them a second, and how long one takes.
fn all<P: Sync>(
    verb: &str,
    pods: &[P],
    call: impl Fn(&P) -> Outcome<Duration> + Sync,
) -> Outcome<Vec<Sample>> {
    let began = Instant::now();
    let took = at_once(THREADS, pods, call)?;
    let seconds = began.elapsed().as_secs_f64();
    let took: Vec<_> = took.into_iter().map(milliseconds).collect();
    let of = |percent| percentile(&took, percent).unwrap_or_default();
    Ok(vec![
        (format!("{verb} {RATE}"), took.len() as f64 / seconds),
        (format!("{verb} p50"), of(50)),
        (format!("{verb} p99"), of(99)),
    ])
}
