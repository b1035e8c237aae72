//! What is wrong with what a person gave, and where it stands.

use std::fmt;

/// What is wrong with a key's value, before it is known where that stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The key, as `nodes[3].podCIDR`; empty for the whole.
    pub key: String,
    /// The value, and what is allowed.
    pub reason: String,
}

impl Fault {
    /// That `key` is wrong.
    pub fn new(key: impl Into<String>, reason: impl Into<String>) -> Fault {
        Fault {
            key: key.into(),
            reason: reason.into(),
        }
    }
}

/// The key that a path leads to; what is not known of it is left out.
pub(crate) fn key_of(path: &serde_path_to_error::Path) -> String {
    let text = path.to_string();
    text.trim_end_matches(['.', '?']).to_owned()
}

/// What is wrong, with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The file with its line, as `cluster.yaml:7`, or the option.
    pub place: String,
    /// The key; empty where the place says it.
    pub key: String,
    /// The value, and what is allowed.
    pub reason: String,
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in [&self.place, &self.key] {
            if !part.is_empty() {
                write!(f, "{part}: ")?;
            }
        }
        f.write_str(&self.reason)
    }
}
