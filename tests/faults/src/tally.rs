//! What was tried, counted.

use std::collections::BTreeMap;
use std::fmt;

use crate::trial::{Flaw, Outcome};
use crate::{After, Case, Kind, Verb};

/// Cases by their kind, and what became of them.
#[derive(Debug, Default)]
pub struct Tally(BTreeMap<(Kind, Verb, After), Row>);

#[derive(Debug, Default, Clone, Copy)]
struct Row {
    tried: u64,
    flaws: [u64; FLAWS.len()],
}

const FLAWS: [(Flaw, &str); 7] = [
    (Flaw::Leak, "leaks"),
    (Flaw::Flow, "flows"),
    (Flaw::Left, "left by ADD"),
    (Flaw::Hollow, "hollow"),
    (Flaw::Stuck, "stuck"),
    (Flaw::Unclear, "unclear"),
    (Flaw::Hung, "hung"),
];

impl Tally {
    /// Counts a case; one that was survived was not tried.
    pub fn count(&mut self, case: &Case, outcome: &Outcome) {
        let key = (case.fault.kind(), case.verb, case.after);
        let found = match outcome {
            Outcome::Survived => return,
            Outcome::Clean => None,
            Outcome::Found(flaw, _) => Some(flaw),
        };
        let row = self.0.entry(key).or_default();
        row.tried += 1;
        for (count, (flaw, _)) in row.flaws.iter_mut().zip(FLAWS) {
            *count += u64::from(found == Some(&flaw));
        }
    }

    /// How many cases were tried.
    pub fn tried(&self) -> u64 {
        self.0.values().map(|row| row.tried).sum()
    }

    /// How many of them had a flaw; flows that are left are none, since they end by themselves.
    pub fn findings(&self) -> u64 {
        self.sum().flaws.iter().sum::<u64>() - self.flows()
    }

    /// How many of them left flows, and nothing else.
    pub fn flows(&self) -> u64 {
        let row = self.sum();
        let mut counts = row.flaws.into_iter().zip(FLAWS);
        let flows = counts.find(|(_, (flaw, _))| *flaw == Flaw::Flow);
        flows.map_or(0, |(count, _)| count)
    }

    fn sum(&self) -> Row {
        let add = |sum: Row, row: &Row| Row {
            tried: sum.tried + row.tried,
            flaws: std::array::from_fn(|at| {
                sum.flaws.get(at).copied().unwrap_or_default()
                    + row.flaws.get(at).copied().unwrap_or_default()
            }),
        };
        self.0.values().fold(Row::default(), add)
    }
}

impl Row {
    fn cells(self) -> impl Iterator<Item = String> {
        std::iter::once(self.tried)
            .chain(self.flaws)
            .map(|count| count.to_string())
    }
}

/// A table.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["fault", "verb", "then", "tried"].map(str::to_owned);
        let head = head
            .into_iter()
            .chain(FLAWS.map(|(_, name)| name.to_owned()));
        let mut rows: Vec<Vec<String>> = vec![head.collect()];
        for ((kind, verb, after), row) in &self.0 {
            let names = [kind.to_string(), verb.to_string(), after.to_string()];
            rows.push(names.into_iter().chain(row.cells()).collect());
        }
        let names = ["all", "", ""].map(str::to_owned);
        rows.push(names.into_iter().chain(self.sum().cells()).collect());
        let width = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(String::len).max().unwrap_or_default()
        };
        for row in &rows {
            let cells = row.iter().enumerate().map(|(column, cell)| match column {
                0..3 => format!("{cell:width$}  ", width = width(column)),
                _ => format!("{cell:>width$}  ", width = width(column)),
            });
            writeln!(f, "{}", cells.collect::<String>().trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::tests::Backend;

    use crate::{Fault, Point, Setting};

    fn case(verb: Verb) -> Case {
        Case {
            setting: Setting {
                backend: Backend::Nft,
                dual_stack: true,
            },
            verb,
            plugin: "bridge".to_owned(),
            fault: Fault::Kill,
            after: After::Del,
            point: Point {
                process: 0,
                number: 1,
                nth: 2,
                program: "bridge-lite".to_owned(),
            },
        }
    }

    #[test]
    fn a_case_has_a_name_and_its_outcome_is_counted() {
        assert_eq!(
            case(Verb::Gc).to_string(),
            "nft-dual/GC/bridge/kill/del/0.1.2"
        );
        let mut tally = Tally::default();
        let found = |flaw| Outcome::Found(flaw, String::new());
        for outcome in [
            Outcome::Clean,
            Outcome::Survived,
            found(Flaw::Leak),
            found(Flaw::Flow),
        ] {
            tally.count(&case(Verb::Add), &outcome);
        }
        tally.count(&case(Verb::Del), &found(Flaw::Hung));
        assert_eq!((tally.tried(), tally.findings(), tally.flows()), (4, 2, 1));
        let printed = tally.to_string();
        let rows: Vec<Vec<_>> = printed
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(
            rows[1],
            [
                "killed", "ADD", "del", "3", "1", "1", "0", "0", "0", "0", "0"
            ]
        );
        assert_eq!(rows[3], ["all", "4", "1", "1", "0", "0", "0", "0", "1"]);
    }
}
