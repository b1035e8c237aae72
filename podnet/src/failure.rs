//! Why a command fails, and the exit status that says so.

use std::fmt::Display;
use std::process::ExitCode;

/// Why a command fails.
#[derive(Debug)]
pub enum Failure {
    /// Exit status 1: a plugin refused, CHECK found something, the demo does not hold.
    Failed(String),
    /// Exit status 2: options, environment or configuration are wrong; no plugin was called.
    Usage(String),
}

impl Failure {
    /// Options, environment or configuration are wrong.
    pub fn usage(reason: impl Display) -> Failure {
        Failure::Usage(reason.to_string())
    }

    /// Says it on standard error.
    pub fn report(&self) -> ExitCode {
        let (text, status) = match self {
            Failure::Failed(text) => (text, 1),
            Failure::Usage(text) => (text, 2),
        };
        eprintln!("podnet: {text}");
        ExitCode::from(status)
    }
}

impl From<cni::Error> for Failure {
    fn from(error: cni::Error) -> Failure {
        Failure::Failed(format!("{error} [code {}]", error.code))
    }
}
