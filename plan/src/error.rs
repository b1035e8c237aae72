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

/// Types as the reader of values names them, and what a person calls them.
const WORDS: [(&str, &str); 9] = [
    ("expected u8", "expected a whole number from 0 to 255"),
    ("expected u16", "expected a whole number from 0 to 65535"),
    (
        "expected u32",
        "expected a whole number from 0 to 4294967295",
    ),
    ("expected u64", "expected a whole number"),
    ("expected i64", "expected a whole number"),
    ("expected a boolean", "expected true or false"),
    ("expected a sequence", "expected a list"),
    ("expected a string", "expected a text"),
    ("expected a map", "expected keys with values"),
];

/// What the reader of values says, in words that need no knowledge of it.
pub(crate) fn in_words(reason: &str) -> String {
    let end = reason.rfind("expected ").unwrap_or(reason.len());
    let (said, expected) = reason.split_at(end);
    if expected.starts_with("expected struct ") {
        let line = expected.find(" at line ").unwrap_or(expected.len());
        let (_, rest) = expected.split_at(line);
        return format!("{said}expected keys with values{rest}");
    }
    let known = WORDS.iter().find_map(|(type_, words)| {
        let rest = expected.strip_prefix(type_)?;
        // A number of line and column may follow.
        let ends = rest.is_empty() || rest.starts_with(' ');
        ends.then(|| format!("{said}{words}{rest}"))
    });
    known.unwrap_or_else(|| reason.to_owned())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_expected_is_said_in_words() {
        for (said, words) in [
            (
                "invalid value: integer `300`, expected u8",
                "invalid value: integer `300`, expected a whole number from 0 to 255",
            ),
            (
                "invalid type: map, expected a string at line 1 column 2",
                "invalid type: map, expected a text at line 1 column 2",
            ),
            (
                "invalid length 0, expected struct PodSpec with 4 elements at line 1 column 2",
                "invalid length 0, expected keys with values at line 1 column 2",
            ),
            ("missing field `name`", "missing field `name`"),
            (
                "unknown field `x`, expected one of `u8`",
                "unknown field `x`, expected one of `u8`",
            ),
        ] {
            assert_eq!(in_words(said), words);
        }
    }
}
