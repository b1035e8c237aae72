//! Mending, a step at a time.

use std::io::{self, BufRead, Write};

use node::{Finding, Fix, Node, Report};

use crate::failure::Failure;

/// A step that was made, or refused by the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fixed {
    /// The command that does the same.
    pub command: String,
    /// Why it was refused.
    pub failed: Option<String>,
}

/// Makes the steps of all findings that have some, each one asked for unless `yes`.
///
/// # Errors
/// Nobody can be asked.
pub fn all(node: &Node, report: &Report, yes: bool) -> Result<Vec<Fixed>, Failure> {
    let mut fixed = Vec::new();
    for finding in &report.findings {
        for fix in &finding.fixes {
            let command = fix.command(node);
            if yes || is_wanted(finding, &command)? {
                fixed.push(step(fix, command));
            }
        }
    }
    Ok(fixed)
}

fn step(fix: &Fix, command: String) -> Fixed {
    Fixed {
        command,
        failed: fix.apply().err().map(|error| error.to_string()),
    }
}

/// Asks on standard error, since the answer to the whole goes to standard output. No answer is no.
fn is_wanted(finding: &Finding, command: &str) -> Result<bool, Failure> {
    let ask = || {
        let mut terminal = io::stderr();
        writeln!(terminal, "{}: {}", finding.id, finding.breaks)?;
        for evidence in &finding.evidence {
            writeln!(terminal, "  {evidence}")?;
        }
        write!(terminal, "{command} [y/N] ")?;
        terminal.flush()?;
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
    };
    ask().map_err(|error: io::Error| Failure::Usage(format!("--fix: nobody can be asked: {error}")))
}
