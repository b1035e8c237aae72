//! What passes between pods, with limits and without.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use cni::Version;
use lab::{Window, throughput};
use serde_json::{Map, Value, json};

use super::Bench;
use crate::node::{Node, Pod};
use crate::rounds::{Runner, Sample, in_turn};
use crate::row::{Subject, Unit};
use crate::statistics::Summary;
use crate::{Case, Outcome, Row, Rules, Side};

const ROUNDS: u32 = 3;
/// How many pings make a value.
const PINGS: usize = 200;
/// What is asked for, and the same in bits a second.
const RATES: [(&str, u32); 6] = [
    ("100 kbit/s", 100_000),
    ("1 Mbit/s", 1_000_000),
    ("10 Mbit/s", 10_000_000),
    ("100 Mbit/s", 100_000_000),
    ("1 Gbit/s", 1_000_000_000),
    ("4 Gbit/s", 4_000_000_000),
];
/// The one that alone is measured where time matters more: at the lowest ones a burst lasts long.
const QUICK_RATE: &str = "100 Mbit/s";
/// The least burst, in bits: what goes at once where packets are as large as they can be.
const LEAST_BURST: u32 = 1 << 20;
/// A burst lasts a tenth of a second, at the lowest rate ten; eight packets come in a second there.
const WINDOW: Window = Window {
    warm_up: Duration::from_millis(500),
    counted: Duration::from_secs(2),
};
/// Where nothing is to be measured.
const QUICK: Window = Window {
    warm_up: Duration::ZERO,
    counted: Duration::from_millis(100),
};

/// Rules have no part in it: one way to make them is enough.
const RULES: Rules = Rules::IptablesNft;

pub(super) fn run(bench: &mut Bench) -> Outcome<Vec<Row>> {
    let nodes = bench.nodes(RULES)?;
    let mut plain = Vec::new();
    for node in &nodes {
        plain.push(Served::new(node, "plain", &Map::new())?);
    }
    let mut rows = without_limits(bench, &nodes, &plain)?;
    let quick = bench.options.quick;
    let is_wanted = |(_, (rate, _)): &(usize, (&str, u32))| !quick || *rate == QUICK_RATE;
    for (number, rate) in RATES.into_iter().enumerate().filter(is_wanted) {
        rows.extend(shaped(bench, &nodes, &plain, number, rate)?);
    }
    Ok(rows)
}

/// A pod and its address.
struct Served {
    pod: Pod,
    address: IpAddr,
}

impl Served {
    fn new(node: &Node, name: &str, asked: &Map<String, Value>) -> Outcome<Served> {
        let pod = node.pod(name)?;
        let result = node.add(&node.list(0, Version::V1_0_0)?, &pod, asked)?;
        let address = result.ips.first().ok_or("a pod without an address")?;
        let address = address.address.addr();
        Ok(Served { pod, address })
    }

    /// Bits a second.
    fn pour_into(&self, other: &Served, window: Window) -> Outcome<f64> {
        let target = SocketAddr::new(other.address, 0);
        let (from, to) = (self.pod.namespace(), other.pod.namespace());
        Ok(throughput(from, to, target, window)?)
    }

    /// The median time to an answer, in microseconds.
    fn ping(&self, other: &Served) -> Outcome<f64> {
        let ping = |_| Ok(self.pod.namespace().ping(other.address)?.as_secs_f64() * 1e6);
        let times = (0..PINGS).map(ping).collect::<Outcome<Vec<_>>>()?;
        Ok(Summary::of(&times).ok_or("no ping")?.median)
    }
}

/// One contender's two pods.
type Pair<'a> = (Side, &'a Served, &'a Served);

/// Throughput and latency from a pod to another of its network, both without limits.
fn without_limits(bench: &mut Bench, nodes: &[Node], plain: &[Served]) -> Outcome<Vec<Row>> {
    bench.progress.begin("from pod to pod");
    let mut others = Vec::new();
    for node in nodes {
        others.push(Served::new(node, "other", &Map::new())?);
    }
    let pairs = pairs(nodes, plain, &others);
    let window = window(bench);
    let mut rows = in_rows(bench, &pairs, Unit::Megabits, |one, other| {
        let rate = one.pour_into(other, window)? / 1e6;
        Ok(vec![("pod to pod".to_owned(), rate)])
    })?;
    rows.extend(in_rows(bench, &pairs, Unit::Microseconds, |one, other| {
        Ok(vec![("ping of pod by pod".to_owned(), one.ping(other)?)])
    })?);
    Ok(rows)
}

/// How far what passes is from a rate that was asked for, both ways.
fn shaped(
    bench: &mut Bench,
    nodes: &[Node],
    plain: &[Served],
    number: usize,
    (name, rate): (&str, u32),
) -> Outcome<Vec<Row>> {
    bench.progress.begin(&format!("shaped to {name}"));
    let burst = (rate / 10).max(LEAST_BURST);
    let rates = json!({
        "ingressRate": rate, "ingressBurst": burst, "egressRate": rate, "egressBurst": burst
    });
    let asked = Map::from_iter([("bandwidth".to_owned(), rates)]);
    let mut limited = Vec::new();
    for node in nodes {
        limited.push(Served::new(node, &format!("shaped{number}"), &asked)?);
    }
    let off = |measured: f64| (measured / f64::from(rate) - 1.0).abs() * 100.0;
    let pairs = pairs(nodes, plain, &limited);
    let window = window(bench);
    in_rows(bench, &pairs, Unit::PercentOff, |plain, limited| {
        Ok(vec![
            (format!("{name} in"), off(plain.pour_into(limited, window)?)),
            (
                format!("{name} out"),
                off(limited.pour_into(plain, window)?),
            ),
        ])
    })
}

fn window(bench: &Bench) -> Window {
    if bench.options.quick { QUICK } else { WINDOW }
}

fn pairs<'a>(nodes: &[Node], ones: &'a [Served], others: &'a [Served]) -> Vec<Pair<'a>> {
    let pods = ones.iter().zip(others);
    let sides = nodes.iter().map(|node| node.side);
    sides
        .zip(pods)
        .map(|(side, (one, other))| (side, one, other))
        .collect()
}

/// Measures each pair in turn.
fn in_rows(
    bench: &mut Bench,
    pairs: &[Pair],
    unit: Unit,
    measure: impl Fn(&Served, &Served) -> Outcome<Vec<Sample>>,
) -> Outcome<Vec<Row>> {
    let mut runners = Vec::new();
    for (side, one, other) in pairs {
        runners.push(Runner::new(*side, || measure(one, other)));
    }
    let rounds = bench.options.rounds_of(ROUNDS);
    let measured = in_turn(&mut runners, rounds, &mut bench.progress)?;
    Ok(Subject::of(Case::Traffic).rows(unit, measured))
}
