//! What could not be done to the rules.

/// Result of every verb.
pub type Result<T> = std::result::Result<T, Error>;

/// What could not be done to the rules.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No program for the family: neither on PATH nor in /usr/sbin or /sbin.
    #[error("{0} not found on PATH, in /usr/sbin or /sbin")]
    NoTool(&'static str),
    /// The program refused.
    #[error("{command}: exit status {status}: {stderr}")]
    Refused {
        /// Program and arguments, with the lines that it was given.
        command: String,
        /// Exit status.
        status: i32,
        /// What it said, trimmed.
        stderr: String,
    },
    /// The program could not be run.
    #[error("{command}: {source}")]
    Io {
        /// Program.
        command: String,
        /// Why.
        source: std::io::Error,
    },
    /// CHECK: what is gone.
    #[error("{0}")]
    Missing(String),
}
