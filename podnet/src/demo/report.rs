//! The demo's lines.

use std::io::{self, IsTerminal, Write};

use super::Outcome;
use super::interrupt::Interrupt;
use super::verdict::Measured;

/// Back to the begin of a terminal's line, and empties it.
const ERASE: &str = "\r\x1b[K";

/// Writes a line for each step, and on a terminal what is being done meanwhile. Once a signal has
/// come, it writes nothing more, and fails.
pub(super) struct Report {
    out: Box<dyn Write>,
    terminal: bool,
    interrupt: Interrupt,
    lines: usize,
    failed: Vec<&'static str>,
}

impl Report {
    pub(super) fn new(interrupt: Interrupt) -> Report {
        Report {
            out: Box::new(io::stdout()),
            terminal: io::stdout().is_terminal(),
            interrupt,
            lines: 0,
            failed: Vec::new(),
        }
    }

    pub(super) fn say(&mut self, text: &str) -> Outcome<()> {
        self.interrupt.check()?;
        writeln!(self.out, "{text}")?;
        Ok(())
    }

    /// The progress line, which the next line overwrites.
    pub(super) fn begin(&mut self, what: &str) -> Outcome<()> {
        self.interrupt.check()?;
        if self.terminal {
            write!(self.out, "{ERASE}...     {what}")?;
            self.out.flush()?;
        }
        Ok(())
    }

    pub(super) fn end(&mut self, what: &'static str, outcome: Outcome<Measured>) -> Outcome<()> {
        self.interrupt.check()?;
        let measured = outcome.unwrap_or_else(|error| Measured::new(false, error.to_string()));
        let erase = if self.terminal { ERASE } else { "" };
        writeln!(self.out, "{erase}{}", line(what, &measured))?;
        self.lines += 1;
        if !measured.holds {
            self.failed.push(what);
        }
        Ok(())
    }

    /// The last line; true where every line held.
    pub(super) fn finish(&mut self) -> Outcome<bool> {
        if self.failed.is_empty() {
            self.say(&format!("all {} lines hold", self.lines))?;
        } else {
            self.say(&format!("FAILED: {}", self.failed.join(", ")))?;
        }
        Ok(self.failed.is_empty())
    }
}

fn line(what: &str, measured: &Measured) -> String {
    let verdict = if measured.holds { "ok" } else { "FAILED" };
    format!("{verdict:<7} {what:<34} {}", measured.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_verdict_subject_and_value() {
        let holds = Measured::new(true, "0.1 ms");
        assert_eq!(
            line("ping", &holds),
            format!("ok      ping{}0.1 ms", " ".repeat(31))
        );
        assert!(line("ping", &Measured::new(false, "no answer")).starts_with("FAILED  ping "));
    }

    #[test]
    fn one_line_that_fails_fails_the_whole() {
        let mut report = Report {
            out: Box::new(io::sink()),
            terminal: false,
            interrupt: Interrupt::new().unwrap().0,
            lines: 0,
            failed: Vec::new(),
        };
        report.end("good", Ok(Measured::new(true, "1"))).unwrap();
        assert!(report.finish().unwrap());
        report.end("bad", Err("gone".into())).unwrap();
        report.end("worse", Ok(Measured::new(false, "2"))).unwrap();
        assert!(!report.finish().unwrap());
        assert_eq!(report.failed, ["bad", "worse"]);
    }
}
