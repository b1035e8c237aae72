//! Errors as the runtime reads them (specification, section "Error").

use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use crate::{Version, json};

/// Error codes: 0 to 99 are the specification's, 100 and above are ours.
pub mod code {
    /// The configuration's `cniVersion` is not supported.
    pub const INCOMPATIBLE_VERSION: u32 = 1;
    /// A field of the configuration is not supported; the message names its key and value.
    pub const UNSUPPORTED_FIELD: u32 = 2;
    /// An environment variable is missing or invalid; the message names it.
    pub const INVALID_ENVIRONMENT: u32 = 4;
    /// Standard input could not be read, or a file of ours neither.
    pub const IO_FAILURE: u32 = 5;
    /// The configuration cannot be decoded: not JSON, or a value of another type.
    pub const DECODING_FAILURE: u32 = 6;
    /// The configuration is decoded but not valid.
    pub const INVALID_CONFIG: u32 = 7;
    /// Try again later: a lock is held by another.
    pub const TRY_AGAIN_LATER: u32 = 11;
    /// STATUS: the plugin cannot serve ADD.
    pub const NOT_AVAILABLE: u32 = 50;
    /// STATUS: as 50, and containers that are there may have limited connectivity.
    pub const LIMITED_CONNECTIVITY: u32 = 51;
    /// The kernel or a tool refused what the plugin needed.
    pub const SYSTEM: u32 = 100;
    /// CHECK found something gone or changed.
    pub const CHECK_FAILED: u32 = 101;
    /// The address pool cannot give what was asked for.
    pub const NO_ADDRESS: u32 = 102;
    /// What ADD would make is there already.
    pub const ALREADY_EXISTS: u32 = 103;
    /// A bug of the plugin, not of what it was given.
    pub const INTERNAL: u32 = 999;
}

/// An error as it is printed for the runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// See [`code`].
    pub code: u32,
    /// One line: what failed, with key, value and what is allowed.
    pub msg: String,
    /// More for a person; may be empty.
    pub details: String,
}

impl Error {
    /// An error without details.
    pub fn new(code: u32, msg: impl Into<String>) -> Self {
        Self {
            code,
            msg: msg.into(),
            details: String::new(),
        }
    }

    /// The same error with details.
    #[must_use]
    pub fn details(mut self, details: impl Into<String>) -> Self {
        self.details = details.into();
        self
    }

    /// A configuration that is decoded but not valid (code 7).
    pub fn config(msg: impl Into<String>) -> Self {
        Self::new(code::INVALID_CONFIG, msg)
    }

    /// The error as a runtime reads it, in the configuration's version: each text on one line, since
    /// runtimes log them as they are, and a name that is told may hold anything.
    pub fn to_json(&self, version: Version) -> Value {
        let mut object = serde_json::Map::new();
        object.insert("cniVersion".into(), version.as_str().into());
        object.insert("code".into(), self.code.into());
        object.insert("msg".into(), one_line(&self.msg).into());
        if !self.details.is_empty() {
            object.insert("details".into(), one_line(&self.details).into());
        }
        object.into()
    }

    /// Reads what a plugin printed; `None` where it is no error object.
    pub(crate) fn from_json(bytes: &[u8]) -> Option<Error> {
        let printed: Printed = json::read(&json::parse(bytes).ok()?).ok()?;
        Some(Error::new(printed.code, printed.msg).details(printed.details))
    }

    /// The kernel or a tool refused (code 100).
    pub fn system(msg: impl Into<String>) -> Self {
        Self::new(code::SYSTEM, msg)
    }

    /// The same reason, as STATUS says it: ADD cannot be served (code 50).
    #[must_use]
    pub fn not_available(mut self) -> Self {
        self.code = code::NOT_AVAILABLE;
        self
    }

    /// CHECK found something gone or changed (code 101).
    pub fn check(msg: impl Into<String>) -> Self {
        Self::new(code::CHECK_FAILED, msg)
    }

    /// Several errors as one, for verbs that go on after an error; `Ok` when there is none.
    ///
    /// # Errors
    /// The first error, its message and details joined with those of the others by `; `.
    pub fn all(errors: Vec<Error>) -> Result<(), Error> {
        errors
            .into_iter()
            .reduce(|mut all, next| {
                all.msg = format!("{}; {}", all.msg, next.msg);
                if !next.details.is_empty() {
                    let separator = if all.details.is_empty() { "" } else { "; " };
                    all.details = format!("{}{separator}{}", all.details, next.details);
                }
                all
            })
            .map_or(Ok(()), Err)
    }
}

/// A text that is told as a part of a line, whatever is in it: control characters are written as in Rust and
/// C.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line
}

/// An error object; without a code it is none.
#[derive(Deserialize)]
struct Printed {
    code: u32,
    #[serde(default)]
    msg: String,
    #[serde(default)]
    details: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.msg)?;
        if !self.details.is_empty() {
            write!(f, " ({})", self.details)?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

/// Turns any error of the kernel's side into one for the runtime, saying what was being done.
pub trait Context<T> {
    /// Wraps the error as `what: error` with code 100.
    ///
    /// # Errors
    /// The wrapped error.
    fn context(self, what: impl fmt::Display) -> Result<T, Error>;
}

impl<T, E: fmt::Display> Context<T> for Result<T, E> {
    fn context(self, what: impl fmt::Display) -> Result<T, Error> {
        self.map_err(|error| Error::system(format!("{what}: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_is_one_line() {
        let hostile = "a\nb\r\u{1b}[2J\0 \u{e9}\"";
        let told = Error::config(hostile)
            .details(hostile)
            .to_json(Version::V1_0_0);
        for key in ["msg", "details"] {
            assert_eq!(
                told[key],
                r#"a\nb\r\u{1b}[2J\u{0} \u{e9}""#.replace(r"\u{e9}", "\u{e9}")
            );
        }
    }

    #[test]
    fn prints_and_reads_back() {
        let bare = Error::config("m");
        assert_eq!(
            bare.to_json(Version::V1_0_0).to_string(),
            r#"{"cniVersion":"1.0.0","code":7,"msg":"m"}"#
        );
        let full = Error::new(11, "m \"x\"").details("d");
        let printed = full.to_json(Version::V0_4_0).to_string();
        assert_eq!(
            printed,
            r#"{"cniVersion":"0.4.0","code":11,"msg":"m \"x\"","details":"d"}"#
        );
        assert_eq!(Error::from_json(printed.as_bytes()), Some(full));
        assert_eq!(
            Error::from_json(br#"{"Code": 999, "Msg": "m"}"#),
            Some(Error::new(999, "m"))
        );
        for text in ["", "{}", "panic", r#"{"code": "x"}"#, r#"{"code": -1}"#] {
            assert_eq!(Error::from_json(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn several_as_one() {
        assert_eq!(Error::all(Vec::new()), Ok(()));
        let errors = vec![
            Error::new(100, "a"),
            Error::new(101, "b").details("x"),
            Error::new(102, "c").details("y"),
        ];
        let expected = Error::new(100, "a; b; c").details("x; y");
        assert_eq!(Error::all(errors), Err(expected));
    }
}
