//! What each step of our plugins takes, as their own log says.

use super::Bench;
use super::watched::Watched;
use crate::logged::Logged;
use crate::rounds::{Runner, in_turn};
use crate::row::{Subject, Unit};
use crate::{Case, Outcome, Row, Rules, Side};

const ROUNDS: u32 = 30;

pub(super) fn run(bench: &mut Bench) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    for rules in Rules::ALL {
        bench.progress.begin(&format!("steps, {}", rules.name()));
        let mut nodes = bench.nodes(rules)?;
        let ours = nodes.iter_mut().find(|node| node.side == Side::Ours);
        let Some(node) = ours else {
            continue;
        };
        let logged = Logged::new(node.path.clone(), node.folder().join("log"));
        let watched = Watched::new(node, logged)?;
        let life = move || watched.life().and_then(|()| watched.watch.take());
        let mut runners = [Runner::new(Side::Ours, life)];
        let rounds = bench.options.rounds_of(ROUNDS);
        let measured = in_turn(&mut runners, rounds, &mut bench.progress)?;
        let subject = Subject {
            rules: Some(rules),
            ..Subject::of(Case::Steps)
        };
        rows.extend(subject.rows(Unit::Milliseconds, measured));
    }
    Ok(rows)
}
