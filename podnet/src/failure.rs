//! Why a command fails, and the exit status that says so.

use std::fmt::Display;
use std::io;
use std::process::ExitCode;

use cni::one_line;

/// Why a command fails.
#[derive(Debug)]
pub enum Failure {
    /// Exit status 1: a plugin refused, CHECK found something, the demo does not hold.
    Failed(String),
    /// Exit status 2: options, environment or configuration are wrong; no plugin was called.
    Usage(String),
    /// That exit status, and no word: a signal came, or nobody reads what is said.
    Ended(u8),
}

/// As shells tell it: 128 and the signal's number.
const BY_SIGPIPE: u8 = 128 + 13;

impl Failure {
    /// Options, environment or configuration are wrong.
    pub fn usage(reason: impl Display) -> Failure {
        Failure::Usage(reason.to_string())
    }

    /// Standard output cannot be written to. Who reads no further wants to hear nothing of it.
    pub fn of_output(error: &io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::Ended(BY_SIGPIPE),
            _ => Failure::Failed(format!("cannot write to standard output: {error}")),
        }
    }

    /// The same, when something has been done all the same.
    #[must_use]
    pub fn although(self, done: &str) -> Failure {
        match self {
            Failure::Failed(text) => Failure::Failed(format!("{done}, but {text}")),
            other => other,
        }
    }

    /// Says it on standard error.
    pub fn report(&self) -> ExitCode {
        let (text, status) = match self {
            Failure::Failed(text) => (text, 1),
            Failure::Usage(text) => (text, 2),
            Failure::Ended(status) => return ExitCode::from(*status),
        };
        complain(text);
        ExitCode::from(status)
    }
}

/// Says on standard error what is no reason to end: a line, whatever the names in it hold.
pub fn complain(what: impl Display) {
    eprintln!("podnet: {}", one_line(&what.to_string()));
}

impl From<cni::Error> for Failure {
    fn from(error: cni::Error) -> Failure {
        Failure::Failed(format!("{error} [code {}]", error.code))
    }
}
