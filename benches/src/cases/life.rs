//! A pod that comes, is checked and goes, on each contender's node in turn.

use cni::Version;

use super::Bench;
use crate::asked::capabilities;
use crate::floor::Floor;
use crate::node::Node;
use crate::rounds::{Runner, Sample, in_turn};
use crate::row::{Subject, Unit};
use crate::{Outcome, Row, Side};

/// What comes and goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Life {
    /// What its rows are about.
    pub(super) subject: Subject,
    /// The pod's number, at least 1, which no other of the same nodes has had.
    pub(super) number: u8,
    /// How many host ports the pod has.
    pub(super) ports: u32,
    /// How often.
    pub(super) rounds: u32,
    /// Whether each plugin has a row of its own.
    pub(super) plugins: bool,
}

/// The first host port.
const FIRST_PORT: u32 = 20_000;

impl Life {
    /// What ADD, CHECK and DEL took.
    pub(super) fn run(
        self,
        bench: &mut Bench,
        nodes: &[Node],
        floor: Option<&Floor>,
    ) -> Outcome<Vec<Row>> {
        let mut runners = Vec::new();
        for node in nodes {
            let list = node.list(0, Version::V1_0_0)?;
            let pod = node.pod(&format!("pod{}", self.number))?;
            let asked = capabilities(FIRST_PORT, self.ports);
            let life = move || Ok(self.wanted(node.life(&list, &pod, &asked)?));
            runners.push(Runner::new(node.side, life));
        }
        if let Some(floor) = floor {
            let pod = floor.pod(self.number)?;
            runners.push(Runner::new(Side::Floor, move || floor.life(&pod)));
        }
        let rounds = bench.options.rounds_of(self.rounds);
        let measured = in_turn(&mut runners, rounds, &mut bench.progress)?;
        for node in nodes {
            if let Some(why) = node.refused() {
                bench.skip(&format!("CHECK by {}", node.side.name()), &why);
            }
        }
        Ok(self.subject.rows(Unit::Milliseconds, measured))
    }

    fn wanted(self, samples: Vec<Sample>) -> Vec<Sample> {
        let of_chain = |what: &str| !what.contains(' ');
        let wanted = |(what, _): &Sample| self.plugins || of_chain(what);
        samples.into_iter().filter(wanted).collect()
    }
}
