//! The benchmark: two sets of plugins are driven in turn, ours and others, on nodes that are alike,
//! through the runtime's side of `cni`.
//!
//! A [`Case`] makes nodes and lets the contenders run in turn (A B A B), so that whatever else the
//! machine is at falls on all alike. What they took are [`Row`]s; [`statistics`] says what they come
//! to, and a [`Report`] prints it. Nothing touches the machine's own network.

mod asked;
mod case;
mod cases;
mod contender;
mod counted;
mod floor;
mod logged;
mod machine;
mod node;
mod options;
mod plot;
mod progress;
mod report;
mod rounds;
pub mod row;
mod rules;
pub mod statistics;
mod table;
mod threads;
mod watch;

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;

pub use case::Case;
pub use contender::{Contender, Side};
pub use floor::{Floor, FloorPod};
pub use node::{Node, Pod};
pub use options::Options;
pub use report::Report;
pub use row::{Row, Unit};
pub use rules::Rules;

/// A value, or why there is none, in one line.
pub type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Measures and prints, as the options say.
pub fn main(options: &Options) -> ExitCode {
    match run(options).and_then(|report| publish(&report, options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // Nobody is left to tell where that is broken as well.
            let _ = writeln!(std::io::stderr(), "bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Measures what the options ask for. A case in which a plugin fails is in the report's `failed`, since
/// what is measured is work that is done; the others go on.
///
/// # Errors
/// No lab can be made, or a plugin is missing.
pub fn run(options: &Options) -> Outcome<Report> {
    options.check()?;
    lab::rootless::enter()?;
    lab::supported()?;
    // What an interrupted run left.
    lab::sweep(false)?;
    let mut bench = cases::Bench::new(options)?;
    let mut rows = Vec::new();
    for case in options.cases() {
        match cases::run(case, &mut bench) {
            Ok(measured) => rows.extend(measured),
            Err(error) => bench.fail(case, &error.to_string()),
        }
    }
    Ok(bench.report(rows))
}

/// Prints the report; whether nothing of it failed.
fn publish(report: &Report, options: &Options) -> Outcome<bool> {
    if let Some(file) = &options.json {
        let text = serde_json::to_string_pretty(report)?;
        std::fs::write(file, text + "\n")
            .map_err(|error| format!("--json {}: {error}", file.display()))?;
    }
    std::io::stdout().write_all(report.text().as_bytes())?;
    if let Some(file) = &options.plot {
        let drawing = plot::svg(report).ok_or("--plot: case pods was not measured")?;
        std::fs::write(file, drawing)
            .map_err(|error| format!("--plot {}: {error}", file.display()))?;
    }
    Ok(report.failed.is_empty())
}
