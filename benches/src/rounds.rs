//! Contenders that run in turn.

use std::collections::BTreeMap;
use std::fmt;

use crate::progress::Progress;
use crate::{Outcome, Side};

/// What something took in one round, in the unit of its row.
pub type Sample = (String, f64);

/// What something took in all rounds.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// What it is.
    pub what: String,
    /// A value for each round.
    pub series: BTreeMap<Side, Vec<f64>>,
}

/// One who runs.
pub struct Runner<'a> {
    side: Side,
    round: Box<dyn FnMut() -> Outcome<Vec<Sample>> + 'a>,
}

impl<'a> Runner<'a> {
    /// Each call of `round` does the work once, and says what it took.
    pub fn new(side: Side, round: impl FnMut() -> Outcome<Vec<Sample>> + 'a) -> Runner<'a> {
        Runner {
            side,
            round: Box::new(round),
        }
    }
}

impl fmt::Debug for Runner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Runner({:?})", self.side)
    }
}

/// Lets each run so often, in turn, after a round that does not count: in it is made what all pods
/// share.
///
/// # Errors
/// The first of a runner.
pub fn in_turn(
    runners: &mut [Runner],
    rounds: u32,
    progress: &mut Progress,
) -> Outcome<Vec<Measured>> {
    let mut all: Vec<Measured> = Vec::new();
    for round in 0..=rounds {
        progress.round(round, rounds);
        for runner in &mut *runners {
            let side = runner.side;
            let samples = (runner.round)().map_err(|error| format!("{}: {error}", side.name()))?;
            for sample in samples.into_iter().filter(|_| round > 0) {
                note(&mut all, side, sample);
            }
        }
    }
    Ok(all)
}

fn note(all: &mut Vec<Measured>, side: Side, (what, value): Sample) {
    if let Some(known) = all.iter_mut().find(|known| known.what == what) {
        known.series.entry(side).or_default().push(value);
        return;
    }
    let series = BTreeMap::from([(side, vec![value])]);
    all.push(Measured { what, series });
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn they_run_in_turn_and_the_first_round_does_not_count() {
        let order = RefCell::new(Vec::new());
        let runner = |side: Side, mut value: f64| {
            let order = &order;
            Runner::new(side, move || {
                order.borrow_mut().push(side);
                value += 1.0;
                Ok(vec![("ADD".to_owned(), value)])
            })
        };
        let mut runners = [runner(Side::Ours, 0.0), runner(Side::Theirs, 10.0)];
        let measured = in_turn(&mut runners, 2, &mut Progress::silent()).unwrap();
        drop(runners);
        let series = [
            (Side::Ours, vec![2.0, 3.0]),
            (Side::Theirs, vec![12.0, 13.0]),
        ];
        let expected = Measured {
            what: "ADD".to_owned(),
            series: BTreeMap::from(series),
        };
        assert_eq!(measured, [expected]);
        assert_eq!(order.into_inner(), [Side::Ours, Side::Theirs].repeat(3));
    }

    #[test]
    fn who_fails_is_named() {
        let mut runners = [Runner::new(Side::Theirs, || Err("no".into()))];
        let error = in_turn(&mut runners, 1, &mut Progress::silent()).unwrap_err();
        assert_eq!(error.to_string(), "theirs: no");
    }
}
