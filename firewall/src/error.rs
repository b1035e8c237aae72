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
        /// What it said, in one line.
        stderr: String,
    },
    /// The program could not be run, the lock not be had, or the kernel refused.
    #[error("{command}: {source}")]
    Io {
        /// Program, lock, or what was asked of nftables.
        command: String,
        /// Why.
        source: std::io::Error,
    },
    /// What the backend cannot do.
    #[error("{0}")]
    Unsupported(String),
    /// CHECK: what is gone.
    #[error("{0}")]
    Missing(String),
    /// DEL: what is still there, or may be, and cannot be removed.
    #[error("{0}")]
    StillThere(String),
    /// Several of them, of verbs that go on after one.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Several(Vec<Error>),
}

impl Error {
    /// The errors as one; `Ok` where there is none.
    ///
    /// # Errors
    /// The one there is, or [`Error::Several`].
    pub fn all(mut errors: Vec<Error>) -> Result<()> {
        match errors.pop() {
            None => Ok(()),
            Some(only) if errors.is_empty() => Err(only),
            Some(last) => {
                errors.push(last);
                Err(Error::Several(errors))
            }
        }
    }
}
