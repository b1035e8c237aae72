//! What the kernel refused.

pub use nix::errno::Errno;

/// Result of every verb.
pub type Result<T> = std::result::Result<T, Error>;

/// What was being done, and what the kernel said.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel answered with an error number.
    #[error("{doing}: {}{}", std::io::Error::from_raw_os_error(*.errno), in_brackets(text))]
    Kernel {
        /// What was asked.
        doing: String,
        /// Positive, of errno.h.
        errno: i32,
        /// The extended acknowledgement's text, or empty.
        text: String,
    },
    /// A file or socket operation failed.
    #[error("{doing}: {source}")]
    Io {
        /// What was asked.
        doing: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// An answer that cannot be right.
    #[error("{0}")]
    Protocol(String),
    /// The text cannot be an interface's name.
    #[error(
        "interface name {0:?}: must be 1 to 15 bytes, without '/', ':' or white space, not '.' or '..'"
    )]
    InvalidName(String),
    /// The path names no namespace: there is nothing there.
    #[error("failed to open netns {0:?}: no such file or directory")]
    NetnsMissing(std::path::PathBuf),
    /// The path names something that is no network namespace.
    #[error("failed to open netns {0:?}: not a network namespace")]
    NotANetns(std::path::PathBuf),
}

impl Error {
    /// The kernel's or the file system's error number, if that is what it was.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Error::Kernel { errno, .. } => Some(*errno),
            Error::Io { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }

    /// Whether it was that error number.
    pub fn is(&self, errno: Errno) -> bool {
        self.errno() == Some(errno as i32)
    }
}

/// What follows an error's name, or nothing.
fn in_brackets(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!(" ({text})")
    }
}
