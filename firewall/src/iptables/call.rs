//! One call of a program.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::{TRY_AGAIN, Tool};
use crate::deadline::Deadline;
use crate::process::{End, Output, Running};
use crate::rule::Family;
use crate::{Error, Result};

/// What a listing may have, in bytes: 60,000 ports have some 30 MB.
const MAX_STDOUT: usize = 256 * 1024 * 1024;

/// What the programs of the legacy variant lock; those of the nft variant take no lock.
const XTABLES_LOCK: &str = "/run/xtables.lock";

/// A batch that a program is working on. It is killed where nobody waits for its end; the batch may
/// then be applied.
#[derive(Debug)]
pub struct Restoring(pub(super) Call);

impl Restoring {
    /// Waits until it is applied or refused.
    ///
    /// # Errors
    /// As [`Tool::restore`].
    pub fn end(self) -> Result<()> {
        self.0.end().map(drop)
    }
}

/// A program that waits for its lines, or works on them.
#[derive(Debug)]
pub struct Call {
    program: String,
    family: Family,
    is_nft: bool,
    /// The lines that it was given, as one, shortened.
    batch: String,
    /// How long it waits for its lock, in seconds.
    wait: u64,
    /// When it got its lines, and how long it may work on them.
    since: Instant,
    limit: Duration,
    running: Running,
}

impl Call {
    /// Starts a program of the tool, which waits for its lock as long as the deadline lets it.
    ///
    /// # Errors
    /// It cannot be run.
    pub fn start(tool: &Tool, program: &Path, arguments: &[&str]) -> Result<Call> {
        // At least a second: by 0, older ones wait without end.
        let wait = tool.deadline.for_locks().as_secs().max(1);
        let mut command = Command::new(program);
        command.args(arguments).args(["-w", &wait.to_string()]);
        let program = program.display().to_string();
        match Running::start(&mut command, MAX_STDOUT) {
            Ok(running) => Ok(Call {
                program,
                family: tool.family,
                is_nft: tool.is_nft,
                batch: String::new(),
                wait,
                since: Instant::now(),
                limit: tool.deadline.for_program(),
                running,
            }),
            Err(source) => Err(Error::Io {
                command: program,
                source,
            }),
        }
    }

    /// Gives it its lines. Its time begins.
    pub fn feed(&mut self, batch: &[String], deadline: Deadline) {
        self.batch = shorten(&batch.join("; "));
        self.since = Instant::now();
        self.limit = deadline.for_program();
        let input = format!("*nat\n{}\nCOMMIT\n", batch.join("\n"));
        self.running.feed(input.into());
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// What it said, or that it did not end.
    pub fn end(self) -> Result<Output> {
        let Call { program, limit, .. } = self;
        let output = match self.running.end(limit) {
            Ok(End::Ended(output)) => output,
            Ok(End::TimedOut) => return Err(Error::TimedOut { program, limit }),
            Ok(End::TooMuch) => {
                let limit = MAX_STDOUT;
                return Err(Error::TooMuch { program, limit });
            }
            Err(source) => {
                return Err(Error::Io {
                    command: program,
                    source,
                });
            }
        };
        // Who is given rules has nothing to say; but asked for help by one of them, it prints that, and
        // takes the rest for done.
        let is_done = self.batch.is_empty() || output.stdout.is_empty();
        if output.status.success() && is_done {
            return Ok(output);
        }
        let said = match output.status.success() {
            true => &output.stdout,
            false => &output.stderr,
        };
        let status = output.status.code().unwrap_or(-1);
        // The legacy variant's, having waited for its lock as long as it was told to.
        let has_waited = self.since.elapsed().as_secs() >= self.wait;
        if status == TRY_AGAIN && !self.is_nft && has_waited {
            let lock = XTABLES_LOCK.to_owned();
            return Err(Error::Busy { lock });
        }
        Err(Error::Refused {
            program,
            family: self.family,
            batch: self.batch,
            status,
            stderr: shorten(&one_line(&String::from_utf8_lossy(said))),
        })
    }
}

/// The lines that say something, as one.
fn one_line(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("; ")
}

/// A thousand ports make no readable message.
fn shorten(text: &str) -> String {
    const MAX: usize = 300;
    if text.chars().count() <= MAX {
        return text.to_owned();
    }
    text.chars().take(MAX).chain(" …".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_said_becomes_one_line() {
        assert_eq!(
            one_line("\nunknown option\n  line: 9 \n\n"),
            "unknown option; line: 9"
        );
        assert_eq!(one_line(""), "");
    }

    #[test]
    fn a_long_batch_is_shortened() {
        assert_eq!(shorten("abc"), "abc");
        assert_eq!(shorten(&"é".repeat(2000)).chars().count(), 302);
    }
}
