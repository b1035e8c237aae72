//! The command line.

use std::path::PathBuf;

use clap::Parser;

use crate::{Case, Outcome};

/// Measures CNI plugins side by side, in network namespaces of their own.
///
/// Absolute times hold for this machine and this hour. What carries are the ratios: the contenders
/// run in turn, so that whatever else goes on falls on all alike. Progress is told on standard error,
/// the table on standard output.
#[derive(Debug, Clone, Parser)]
#[command(name = "bench", version)]
pub struct Options {
    /// The folder with the plugins to measure
    #[arg(long, value_name = "DIR", default_value = "target/bin")]
    pub ours: PathBuf,
    /// The folder with the plugins to compare with [default: where Debian's package
    /// containernetworking-plugins puts them]
    #[arg(long, value_name = "DIR")]
    pub against: Option<PathBuf>,
    /// Measure this case alone; may be given several times
    #[arg(long, value_name = "CASE", value_enum)]
    pub only: Vec<Case>,
    /// How often each contender runs in each case [default: as many as the case needs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: Option<u32>,
    /// One round of everything, with few pods, ports and reservations: shows that it works, and
    /// measures nothing
    #[arg(long)]
    pub quick: bool,
    /// Also measure what takes minutes
    #[arg(long, conflicts_with = "quick")]
    pub long: bool,
    /// Keep the results, with every single value, in this file as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Draw what a pod costs, by the pods on the node, into this file as SVG; case pods must be among
    /// those that are measured
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
}

impl Options {
    /// Whether what is asked for goes together.
    pub(crate) fn check(&self) -> Outcome<()> {
        if self.plot.is_some() && !self.cases().contains(&Case::Pods) {
            return Err("--plot: it draws case pods, which --only leaves out".into());
        }
        Ok(())
    }

    /// The cases to measure, in their order.
    pub(crate) fn cases(&self) -> Vec<Case> {
        let wanted = |case: &Case| self.only.is_empty() || self.only.contains(case);
        Case::ALL.into_iter().filter(wanted).collect()
    }

    /// How often each contender runs, in a case that needs so many.
    pub(crate) fn rounds_of(&self, needed: u32) -> u32 {
        let usual = if self.quick { 1 } else { needed };
        self.rounds.unwrap_or(usual)
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(words: &[&str]) -> Options {
        let program = std::iter::once("bench");
        Options::parse_from(program.chain(words.iter().copied()))
    }

    #[test]
    fn the_command_line_holds() {
        Options::command().debug_assert();
    }

    #[test]
    fn all_cases_unless_some_are_named() {
        assert_eq!(parse(&[]).cases(), Case::ALL);
        let some = parse(&["--only", "store", "--only", "chain"]);
        assert_eq!(some.cases(), [Case::Chain, Case::Store]);
    }

    #[test]
    fn examples_of_the_page() {
        let page = include_str!("../../docs/performance.md");
        let examples = page.split("BENCH=\"").skip(1);
        let examples: Vec<_> = examples.filter_map(|rest| rest.split('"').next()).collect();
        assert!(examples.len() >= 4, "{examples:?}");
        for example in examples {
            let words = std::iter::once("bench").chain(example.split(' '));
            let parsed = Options::try_parse_from(words);
            assert!(parsed.is_ok(), "{example}: {parsed:?}");
        }
    }

    #[test]
    fn what_is_drawn_must_be_measured() {
        assert!(parse(&["--plot", "x.svg"]).check().is_ok());
        let error = parse(&["--plot", "x.svg", "--only", "gc"]).check();
        assert!(error.unwrap_err().to_string().starts_with("--plot: "));
    }

    #[test]
    fn rounds() {
        assert_eq!(parse(&[]).rounds_of(30), 30);
        assert_eq!(parse(&["--quick"]).rounds_of(30), 1);
        assert_eq!(parse(&["--quick", "--rounds", "7"]).rounds_of(30), 7);
    }
}
