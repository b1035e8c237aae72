//! What each step of our plugins takes, as their own log says.

use std::sync::Arc;

use cni::Version;
use cni::runtime::NetworkList;

use super::Bench;
use crate::asked::capabilities;
use crate::logged::Logged;
use crate::node::{Node, Pod};
use crate::rounds::{Runner, Sample, in_turn};
use crate::row::{Subject, Unit};
use crate::{Case, Outcome, Row, Rules, Side};

const ROUNDS: u32 = 30;

pub(super) fn run(bench: &mut Bench) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    for rules in Rules::ALL {
        bench.progress.begin(&format!("steps, {}", rules.name()));
        let mut nodes = bench.nodes(rules)?;
        let ours = nodes.iter_mut().find(|node| node.side == Side::Ours);
        let Some(node) = ours.map(Watched::new).transpose()? else {
            continue;
        };
        let mut runners = [Runner::new(Side::Ours, move || node.life())];
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

struct Watched<'a> {
    node: &'a Node,
    list: NetworkList,
    pod: Pod,
    logged: Arc<Logged>,
}

impl Watched<'_> {
    fn new(node: &mut Node) -> Outcome<Watched<'_>> {
        let logged = Arc::new(Logged::new(node.path.clone(), node.folder().join("log")));
        node.runtime.exec = logged.clone();
        Ok(Watched {
            list: node.list(0, Version::V1_0_0)?,
            pod: node.pod("pod")?,
            logged,
            node,
        })
    }

    fn life(&self) -> Outcome<Vec<Sample>> {
        self.node
            .life(&self.list, &self.pod, &capabilities(8080, 1))?;
        self.logged.take()
    }
}
