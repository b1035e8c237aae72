//! One pod at a time: ADD, CHECK and DEL of the whole chain and of each plugin in it.

use super::Bench;
use super::life::Life;
use crate::row::Subject;
use crate::{Case, Outcome, Row, Rules};

const ROUNDS: u32 = 30;

pub(super) fn run(bench: &mut Bench) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    for rules in Rules::ALL {
        bench.progress.begin(&format!("chain, {}", rules.name()));
        let nodes = bench.nodes(rules)?;
        let floor = bench.floor(&nodes);
        let life = Life {
            subject: Subject {
                rules: Some(rules),
                ..Subject::of(Case::Chain)
            },
            number: 1,
            ports: 1,
            rounds: ROUNDS,
            plugins: true,
        };
        rows.extend(life.run(bench, &nodes, floor.as_ref())?);
    }
    Ok(rows)
}
