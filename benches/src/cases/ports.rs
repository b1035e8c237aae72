//! One pod with many host ports.

use super::Bench;
use super::life::Life;
use crate::row::Subject;
use crate::{Case, Outcome, Row, Rules, Side};

const ROUNDS: u32 = 10;

/// The reference plugins start processes for each port: with more ports a call takes seconds to
/// minutes, and is measured but a few times.
const FEW_ROUNDS_FROM: u32 = 100;
const FEW_ROUNDS: u32 = 2;

/// Only on request.
const LONG_FROM: u32 = 1000;

pub(super) fn run(bench: &mut Bench) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    for rules in Rules::ALL {
        for ports in bench.numbers(&[1, 15, 100, 1000], &[1, 16]) {
            rows.extend(with_ports(bench, rules, ports)?);
        }
    }
    Ok(rows)
}

fn with_ports(bench: &mut Bench, rules: Rules, ports: u32) -> Outcome<Vec<Row>> {
    let name = rules.name();
    bench.progress.begin(&format!("{ports} host ports, {name}"));
    let mut nodes = bench.nodes(rules)?;
    if ports >= LONG_FROM && !bench.options.long && bench.theirs.is_some() {
        nodes.retain(|node| node.side == Side::Ours);
        let what = format!("{ports} host ports by theirs");
        bench.skip(&what, "it would take minutes (--long)");
    }
    let few = ports >= FEW_ROUNDS_FROM && nodes.len() > 1;
    let life = Life {
        subject: Subject {
            case: Case::Ports,
            rules: Some(rules),
            at: Some(ports),
        },
        number: 1,
        ports,
        rounds: if few { FEW_ROUNDS } else { ROUNDS },
        plugins: false,
    };
    life.run(bench, &nodes, None)
}
