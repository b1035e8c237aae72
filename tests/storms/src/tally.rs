//! What has happened, counted.

use std::collections::BTreeMap;
use std::fmt;

use crate::model::End;
use crate::{Action, What};

/// What a storm may bring to light.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flaw {
    /// Something is there after a DEL, a GC or an ADD that was refused.
    Leak,
    /// Something is there in the end.
    Left,
    /// An attached pod has not all that it must have, or more.
    Unwhole,
    /// An address of a living pod is given to another.
    Twice,
    /// A call fails that must succeed.
    Refused,
    /// CHECK passes where the namespace is gone.
    Blind,
    /// A host port does not lead to its pod.
    Unreached,
    /// A call answers neither a success nor an error object.
    Unclear,
}

const FLAWS: [(Flaw, &str); 8] = [
    (Flaw::Leak, "leaks"),
    (Flaw::Left, "left in the end"),
    (Flaw::Unwhole, "not whole"),
    (Flaw::Twice, "addresses given twice"),
    (Flaw::Refused, "refused wrongly"),
    (Flaw::Blind, "CHECK blind"),
    (Flaw::Unreached, "not reached"),
    (Flaw::Unclear, "unclear answers"),
];

/// Steps by their kind, and what they have brought to light.
#[derive(Debug, Default)]
pub struct Tally {
    /// What was made, in words.
    pub head: String,
    /// How many flows are left that nobody can know of any more; they end by themselves.
    pub flows: u64,
    /// How many attachments may have been there when the steps ended.
    pub attached_in_the_end: u64,
    rows: BTreeMap<Action, Row>,
    flaws: BTreeMap<Flaw, u64>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Row {
    made: u64,
    refused: u64,
    killed: [u64; 2],
    vanished: u64,
}

impl Tally {
    /// Counts a call.
    pub fn call(&mut self, action: Action, end: &End, killed: Option<What>, vanished: bool) {
        let row = self.rows.entry(action).or_default();
        row.made += 1;
        row.refused += u64::from(matches!(end, End::Refused(_)));
        row.vanished += u64::from(vanished);
        let [group, alone] = &mut row.killed;
        *group += u64::from(killed == Some(What::Group));
        *alone += u64::from(killed == Some(What::Alone));
    }

    /// Counts a step that is no call.
    pub fn step(&mut self, action: Action) {
        let row = self.rows.entry(action).or_default();
        row.made += 1;
        row.vanished += u64::from(action == Action::Vanish);
    }

    /// Counts a finding.
    pub fn find(&mut self, flaw: Flaw) {
        *self.flaws.entry(flaw).or_default() += 1;
    }

    /// How many steps were made.
    pub fn steps(&self) -> u64 {
        self.rows.values().map(|row| row.made).sum()
    }

    /// How many plugins were killed.
    pub fn kills(&self) -> u64 {
        self.rows
            .values()
            .map(|row| row.killed.iter().sum::<u64>())
            .sum()
    }

    /// How many namespaces vanished.
    pub fn vanished(&self) -> u64 {
        self.rows.values().map(|row| row.vanished).sum()
    }

    /// How many ADDs were refused.
    pub fn refused(&self) -> u64 {
        self.rows.get(&Action::Add).map_or(0, |row| row.refused)
    }

    /// How often something was found.
    pub fn findings(&self) -> u64 {
        self.flaws.values().sum()
    }

    /// How often that was found.
    pub fn found(&self, flaw: Flaw) -> u64 {
        self.flaws.get(&flaw).copied().unwrap_or_default()
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Action::Add => "ADD",
            Action::Check => "CHECK",
            Action::Del => "DEL",
            Action::Lose => "result lost",
            Action::Vanish => "vanish",
            Action::Gc => "GC",
        })
    }
}

/// A table, and the findings.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.head)?;
        writeln!(
            f,
            "{:<12} {:>7} {:>8} {:>13} {:>13} {:>15}",
            "step", "made", "refused", "group killed", "alone killed", "namespace gone"
        )?;
        for (action, row) in &self.rows {
            let [group, alone] = row.killed;
            writeln!(
                f,
                "{action:<12} {:>7} {:>8} {group:>13} {alone:>13} {:>15}",
                row.made, row.refused, row.vanished
            )?;
        }
        writeln!(
            f,
            "{} steps, {} kills, {} vanished namespaces, {} ADDs refused; {} attachments when all ended",
            self.steps(),
            self.kills(),
            self.vanished(),
            self.refused(),
            self.attached_in_the_end
        )?;
        let counts = FLAWS.map(|(flaw, name)| format!("{} {name}", self.found(flaw)));
        writeln!(f, "{}; {} flows", counts.join(", "), self.flows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_counted() {
        let mut tally = Tally::default();
        let refused = End::Refused(cni::Error::new(102, "full"));
        tally.call(Action::Add, &End::Done, None, true);
        tally.call(Action::Add, &refused, None, false);
        tally.call(Action::Del, &End::Killed, Some(What::Alone), false);
        tally.step(Action::Vanish);
        tally.step(Action::Lose);
        tally.find(Flaw::Leak);
        assert_eq!(
            (
                tally.steps(),
                tally.kills(),
                tally.vanished(),
                tally.refused(),
                tally.findings()
            ),
            (5, 1, 2, 1, 1)
        );
        let told = tally.to_string();
        assert!(
            told.contains("5 steps, 1 kills, 2 vanished namespaces, 1 ADDs refused"),
            "{told}"
        );
        assert!(told.contains("\n1 leaks, 0 left in the end"), "{told}");
        let row = told.lines().find(|line| line.starts_with("ADD")).unwrap();
        let row: Vec<_> = row.split_whitespace().collect();
        assert_eq!(row, ["ADD", "2", "1", "0", "0", "1"]);
    }
}
