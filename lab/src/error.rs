//! What went wrong in the lab.

use std::fmt::Display;
use std::io;

/// Result of everything here.
pub type Result<T> = std::result::Result<T, Error>;

/// The lab itself failed, or what a probe expected did not happen in time.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A link, address, route or namespace was refused.
    #[error(transparent)]
    Net(#[from] net::Error),
    /// A file, socket or process operation failed.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done.
        doing: String,
        /// Why it failed.
        source: io::Error,
    },
    /// Anything else, in one line.
    #[error("{0}")]
    Failed(String),
}

/// Says what was being done when an I/O operation failed.
pub(crate) trait Doing<T> {
    /// Wraps the error as `what: error`.
    fn doing(self, what: impl Display) -> Result<T>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, what: impl Display) -> Result<T> {
        self.map_err(|source| Error::Io {
            doing: what.to_string(),
            source,
        })
    }
}
