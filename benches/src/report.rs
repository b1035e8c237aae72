//! What came out, for people and for programs.

use serde::Serialize;
use serde_json::{Value, json};

use crate::contender::{Contender, Side};
use crate::machine::Machine;
use crate::row::Subject;
use crate::statistics::{Summary, compare};
use crate::table::columns;
use crate::{Case, Row, Unit};

/// Stands where there is nothing.
const NONE: &str = "-";

/// Everything that was measured, and on what.
#[derive(Debug, Clone)]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// Who ran.
    pub contenders: Vec<Contender>,
    /// What was measured.
    pub rows: Vec<Row>,
    /// What was not, and why.
    pub skipped: Vec<Skipped>,
    /// The cases that failed, and by what.
    pub failed: Vec<Skipped>,
}

/// Something that was not measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// What.
    pub what: String,
    /// Why.
    pub why: String,
}

impl Report {
    /// A table for each case.
    pub fn text(&self) -> String {
        let mut text = self.head();
        for case in Case::ALL {
            let rows: Vec<_> = self.of(case).collect();
            if !rows.is_empty() {
                text.push_str(&format!("\n{}\n", case.title()));
                text.push_str(&table(&rows));
            }
        }
        for (heading, list) in [("Not measured", &self.skipped), ("Failed", &self.failed)] {
            if !list.is_empty() {
                let line = |it: &Skipped| format!("  {}: {}\n", it.what, it.why);
                text.push_str(&format!("\n{heading}\n"));
                text.extend(list.iter().map(line));
            }
        }
        text
    }

    fn head(&self) -> String {
        let mut text = format!("{}\n", self.machine.line());
        for contender in &self.contenders {
            text.push_str(&format!(
                "{}: {} ({})\n",
                contender.side.name(),
                contender.version,
                contender.folder.display()
            ));
        }
        text.push_str(
            "Median (best) [95th percentile] ±distance of the quartiles, in ms unless another unit \
             is named.\nThe contenders ran in turn: the ratios carry, the times are this machine's \
             in this hour.\nOn a busy machine look at what is so at best, that is of the best \
             values.\n",
        );
        text
    }

    fn of(&self, case: Case) -> impl Iterator<Item = &Row> {
        let of_case = move |row: &&Row| row.subject.case == case;
        self.rows.iter().filter(of_case)
    }
}

impl Serialize for Report {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rows: Vec<_> = self.rows.iter().map(with_summaries).collect();
        json!({
            "machine": self.machine,
            "contenders": self.contenders,
            "rows": rows,
            "skipped": self.skipped,
            "failed": self.failed,
        })
        .serialize(serializer)
    }
}

fn with_summaries(row: &Row) -> Value {
    let mut value = json!(row);
    let summaries: serde_json::Map<_, _> = row
        .series
        .iter()
        .map(|(side, series)| (side.name().to_owned(), json!(Summary::of(series))))
        .collect();
    value["summaries"] = summaries.into();
    value["gain"] = json!(gain(row));
    value["toFloor"] = json!(to_floor(row));
    value["gainAtBest"] = json!(at_best(row, Side::Ours, Side::Theirs));
    value["toFloorAtBest"] = json!(at_best(row, Side::Floor, Side::Ours));
    value
}

/// How many times better ours is than theirs.
fn gain(row: &Row) -> Option<f64> {
    better(row, Side::Ours, Side::Theirs)
}

/// How many times better the floor is than ours.
fn to_floor(row: &Row) -> Option<f64> {
    better(row, Side::Floor, Side::Ours)
}

/// The same of their best values, which is what can be told on a busy machine.
fn at_best(row: &Row, one: Side, other: Side) -> Option<f64> {
    let best = |side| {
        let summary = row
            .series
            .get(&side)
            .and_then(|series| Summary::of(series))?;
        Some(row.unit.best(summary))
    };
    Some(row.unit.gain(best(one)?, best(other)?))
}

fn better(row: &Row, one: Side, other: Side) -> Option<f64> {
    let [one, other] = [one, other].map(|side| row.series.get(&side));
    compare(one?, other?, |one, other| row.unit.gain(one, other))
}

/// The rows of one case, with a heading where the subject changes.
fn table(rows: &[&Row]) -> String {
    let with_floor = rows.iter().any(|row| row.series.contains_key(&Side::Floor));
    let mut head = vec!["", "ours", "theirs", "times better", "at best"];
    if with_floor {
        head.extend(["floor", "ours to floor", "at best"]);
    }
    let mut lines = vec![head.into_iter().map(str::to_owned).collect()];
    let mut last = None;
    for row in rows {
        let heading = heading(row.subject);
        if last != Some(row.subject) && !heading.is_empty() {
            lines.push(vec![heading]);
        }
        last = Some(row.subject);
        lines.push(line(row, with_floor));
    }
    columns(&lines)
}

fn heading(subject: Subject) -> String {
    let rules = subject.rules.map(|rules| rules.name().to_owned());
    let at = subject.at.map(|at| at.to_string());
    let parts: Vec<_> = rules.into_iter().chain(at).collect();
    parts.join(", ")
}

fn line(row: &Row, with_floor: bool) -> Vec<String> {
    let unit = match row.unit {
        Unit::Milliseconds | Unit::Count => String::new(),
        unit => format!(" ({})", unit.name()),
    };
    let cell = |side| {
        let series = row.series.get(&side);
        let summary = series.and_then(|series| Summary::of(series));
        summary.map_or_else(|| NONE.to_owned(), |summary| cell_of(summary, row.unit))
    };
    let factor = |factor: Option<f64>| {
        factor.map_or_else(|| NONE.to_owned(), |factor| format!("{factor:.1}"))
    };
    let mut cells = vec![
        format!("  {}{unit}", row.what),
        cell(Side::Ours),
        cell(Side::Theirs),
        factor(gain(row)),
        factor(at_best(row, Side::Ours, Side::Theirs)),
    ];
    if with_floor {
        let best = at_best(row, Side::Floor, Side::Ours);
        cells.extend([cell(Side::Floor), factor(to_floor(row)), factor(best)]);
    }
    cells
}

fn cell_of(summary: Summary, unit: Unit) -> String {
    if unit == Unit::Count {
        return format!("{:.0}", summary.median);
    }
    let median = number(summary.median);
    if summary.count == 1 {
        return median;
    }
    let (best, p95) = (number(unit.best(summary)), number(summary.p95));
    let spread = summary.spread * 100.0;
    format!("{median} ({best}) [{p95}] ±{spread:.0}%")
}

/// Three figures are what a measurement is good for.
fn number(value: f64) -> String {
    if value < 10.0 {
        format!("{value:.2}")
    } else if value < 100.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::Rules;

    /// One with a few rows.
    pub(crate) fn report() -> Report {
        let row = |what: &str, unit, ours: &[f64], theirs: &[f64]| Row {
            subject: Subject {
                case: Case::Pods,
                rules: Some(Rules::IptablesNft),
                at: Some(100),
            },
            what: what.to_owned(),
            unit,
            series: BTreeMap::from([(Side::Ours, ours.to_vec()), (Side::Theirs, theirs.to_vec())]),
        };
        Report {
            machine: Machine {
                kernel: "6.1".to_owned(),
                processor: "CPU".to_owned(),
                threads: 2,
                load: "0.5".to_owned(),
            },
            contenders: Vec::new(),
            rows: vec![
                row(
                    "ADD",
                    Unit::Milliseconds,
                    &[10.0, 12.0, 11.0],
                    &[99.0, 120.0, 110.0],
                ),
                row("ADD", Unit::PerSecond, &[60.0], &[15.0]),
                row("DEL", Unit::Milliseconds, &[1.0], &[]),
            ],
            skipped: vec![Skipped {
                what: "something".to_owned(),
                why: "a reason".to_owned(),
            }],
            failed: Vec::new(),
        }
    }

    #[test]
    fn the_table() {
        let text = report().text();
        let (_, table) = text.split_once("host port\n").unwrap();
        let expected =
            "                                ours                 theirs  times better  at best
iptables-nft, 100
  ADD        11.0 (10.0) [12.0] ±18%  110 (99.0) [120] ±19%          10.0      9.9
  ADD (1/s)                     60.0                   15.0           4.0      4.0
  DEL                           1.00                      -             -        -

Not measured
  something: a reason
";
        assert_eq!(table, expected);
        assert!(
            text.starts_with("kernel 6.1, 2 x CPU, load 0.5\n"),
            "{text}"
        );
    }

    #[test]
    fn every_value_is_kept() {
        let value = json!(report());
        let row = &value["rows"][0];
        assert_eq!(row["case"], "pods");
        assert_eq!(row["series"]["theirs"], json!([99.0, 120.0, 110.0]));
        assert_eq!(row["summaries"]["ours"]["median"], 11.0);
        assert_eq!(row["gain"], 10.0);
        assert_eq!(value["rows"][2]["gain"], Value::Null);
    }
}
