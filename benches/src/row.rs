//! What was measured: a row for each thing, a series of values in it for each contender.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::rounds::Measured;
use crate::statistics::Summary;
use crate::{Case, Rules, Side};

/// What values count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Unit {
    /// Milliseconds.
    #[serde(rename = "ms")]
    Milliseconds,
    /// Attachments or connections a second: more is better.
    #[serde(rename = "1/s")]
    PerSecond,
    /// Megabits a second: more is better.
    #[serde(rename = "Mbit/s")]
    Megabits,
    /// Microseconds.
    #[serde(rename = "µs")]
    Microseconds,
    /// How far something is from what was asked for, in percent of that.
    #[serde(rename = "%")]
    PercentOff,
    /// How many there are.
    #[serde(rename = "count")]
    Count,
    /// Kilobytes of 1,024 bytes.
    #[serde(rename = "KiB")]
    Kilobytes,
}

impl Unit {
    /// As it is written behind a number.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Milliseconds => "ms",
            Unit::PerSecond => "1/s",
            Unit::Megabits => "Mbit/s",
            Unit::Microseconds => "µs",
            Unit::PercentOff => "% off",
            Unit::Count => "count",
            Unit::Kilobytes => "KiB",
        }
    }

    /// The best value of a series: what came of it when the least got in its way.
    pub fn best(self, series: Summary) -> f64 {
        match self {
            Unit::PerSecond | Unit::Megabits => series.greatest,
            _ => series.least,
        }
    }

    /// How many times better `ours` is than `theirs`.
    pub fn gain(self, ours: f64, theirs: f64) -> f64 {
        match self {
            Unit::PerSecond | Unit::Megabits => ours / theirs,
            _ => theirs / ours,
        }
    }
}

/// What a row is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Subject {
    /// The case.
    pub case: Case,
    /// How rules are made; `None` where there are none.
    pub rules: Option<Rules>,
    /// How many pods, reservations or ports there are; `None` where the case does not vary that.
    pub at: Option<u32>,
}

/// One thing that was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// What it is about.
    #[serde(flatten)]
    pub subject: Subject,
    /// The verb, and the plugin where it is not the whole chain.
    pub what: String,
    /// What the values count.
    pub unit: Unit,
    /// A value for each round, the same round at the same place.
    pub series: BTreeMap<Side, Vec<f64>>,
}

impl Subject {
    /// A case that varies nothing.
    pub fn of(case: Case) -> Subject {
        Subject {
            case,
            rules: None,
            at: None,
        }
    }

    /// The rows of what was measured.
    pub fn rows(self, unit: Unit, measured: Vec<Measured>) -> Vec<Row> {
        let row = |measured: Measured| Row {
            subject: self,
            what: measured.what,
            unit,
            series: measured.series,
        };
        measured.into_iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_time_is_better_and_so_is_a_higher_rate() {
        let units = [
            Unit::Milliseconds,
            Unit::PercentOff,
            Unit::PerSecond,
            Unit::Megabits,
        ];
        let gains = units.map(|unit| unit.gain(2.0, 8.0));
        assert_eq!(gains, [4.0, 4.0, 0.25, 0.25]);
    }
}
