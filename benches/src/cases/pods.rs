//! One pod more on a node that has many.

use super::Bench;
use super::connections;
use super::life::Life;
use crate::row::Subject;
use crate::{Case, Outcome, Row, Rules};

const ROUNDS: u32 = 10;

pub(super) fn run(bench: &mut Bench) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    for rules in Rules::ALL {
        let name = rules.name();
        let nodes = bench.nodes(rules)?;
        let floor = bench.floor(&nodes);
        let mut there = 0;
        let numbers = bench.numbers(&[0, 100, 250, 1000], &[0, 3]);
        for (number, at) in (1..).zip(numbers) {
            for node in nodes.iter().filter(|_| at > there) {
                bench.progress.begin(&format!("making {at} pods, {name}"));
                node.crowd(there, at, bench.crowd_maker(node))?;
            }
            there = at;
            bench
                .progress
                .begin(&format!("one more than {at} pods, {name}"));
            let subject = Subject {
                case: Case::Pods,
                rules: Some(rules),
                at: Some(at),
            };
            let life = Life {
                subject,
                number,
                ports: 1,
                rounds: ROUNDS,
                plugins: false,
            };
            rows.extend(life.run(bench, &nodes, floor.as_ref())?);
            rows.extend(connections::run(bench, &nodes, subject, number)?);
        }
        bench.progress.begin(&format!("removing the pods, {name}"));
    }
    Ok(rows)
}
