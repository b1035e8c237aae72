//! Reading JSON as the field's other programs do: at every depth keys match without regard to
//! case, the last of a repeated one wins, and `null` counts as absent.
//!
//! Structs need nothing for that but plain serde derives. Only the keys of a map, and what is in a
//! `flatten`ed or `untagged` part, are matched with regard to case.

mod folded;
mod parse;
#[cfg(test)]
mod tests;

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use serde_path_to_error::{Path, Segment};

use folded::Folded;

pub(crate) use parse::parse;

/// How many unreadable values [`read_tolerant`] leaves out before it gives up.
const MAX_LEFT_OUT: usize = 256;

/// Why a value could not be read.
#[derive(Debug)]
pub(crate) struct Mismatch {
    /// Where, as `ipam.ranges[0][0].subnet`; `.` is the whole.
    pub path: String,
    /// What was found and what was expected.
    pub reason: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path != "." {
            write!(f, "cannot read \"{}\": ", self.path)?;
        }
        f.write_str(&self.reason)
    }
}

/// Reads `value` as a `T`.
pub(crate) fn read<T: DeserializeOwned>(value: &Value) -> Result<T, Mismatch> {
    serde_path_to_error::deserialize(Folded(value)).map_err(|error| {
        let reason = in_words(error.inner().to_string());
        // What a type's own parser refuses is often not in its message.
        let value = find(value, error.path())
            .and_then(Value::as_str)
            .map(|text| format!("{text:?}"))
            .filter(|text| !reason.contains(text.as_str()));
        Mismatch {
            path: error.path().to_string(),
            reason: value.map_or(reason.clone(), |value| format!("{value}: {reason}")),
        }
    })
}

/// Which numbers are allowed, where an error names a type of this language.
fn in_words(reason: String) -> String {
    let types = [
        ("u8", "an integer from 0 to 255"),
        ("u16", "an integer from 0 to 65535"),
        ("u32", "an integer from 0 to 4294967295"),
        ("u64", "an integer from 0 to 18446744073709551615"),
        ("i64", "an integer"),
    ];
    let found = types.iter().find_map(|(name, allowed)| {
        let head = reason.strip_suffix(name)?;
        head.ends_with(" expected ")
            .then(|| format!("{head}{allowed}"))
    });
    found.unwrap_or(reason)
}

/// Reads `value` as a `T`, leaving out whatever cannot be read.
pub(crate) fn read_tolerant<T: DeserializeOwned + Default>(value: &Value) -> T {
    let mut value = value.clone();
    for _ in 0..MAX_LEFT_OUT {
        match serde_path_to_error::deserialize(Folded(&value)) {
            Ok(read) => return read,
            Err(error) => match find_mut(&mut value, error.path()) {
                Some(bad) if !bad.is_null() => *bad = Value::Null,
                _ => break,
            },
        }
    }
    T::default()
}

/// The value of `key` in an object, found as [`read`] finds it.
pub(crate) fn get<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    get_in(value.as_object()?, key)
}

/// As [`get`].
pub(crate) fn get_in<'a>(object: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    present(object)
        .filter(|(name, _)| name.eq_ignore_ascii_case(key))
        .last()
        .map(|(_, value)| value)
}

fn get_mut<'a>(value: &'a mut Value, key: &str) -> Option<&'a mut Value> {
    value
        .as_object_mut()?
        .iter_mut()
        .filter(|(name, value)| !value.is_null() && name.eq_ignore_ascii_case(key))
        .last()
        .map(|(_, value)| value)
}

/// The value's text over several lines, indented with four spaces as other plugins print it, and
/// without a line feed at the end.
pub fn pretty(value: &Value) -> String {
    let mut text = Vec::new();
    let format = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, format);
    match value.serialize(&mut serializer) {
        Ok(()) => String::from_utf8_lossy(&text).into_owned(),
        Err(_) => value.to_string(),
    }
}

/// The innermost value of `path` that exists.
fn find<'a>(value: &'a Value, path: &Path) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, segment| match segment {
        Segment::Map { key } => get(value, key),
        Segment::Seq { index } => items(value.as_array()?).nth(*index),
        Segment::Enum { .. } | Segment::Unknown => None,
    })
}

fn find_mut<'a>(value: &'a mut Value, path: &Path) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |value, segment| match segment {
        Segment::Map { key } => get_mut(value, key),
        Segment::Seq { index } => value
            .as_array_mut()?
            .iter_mut()
            .filter(|item| !item.is_null())
            .nth(*index),
        Segment::Enum { .. } | Segment::Unknown => None,
    })
}

fn present(object: &Map<String, Value>) -> impl Iterator<Item = (&str, &Value)> {
    object
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(key, value)| (key.as_str(), value))
}

fn items(array: &[Value]) -> impl Iterator<Item = &Value> {
    array.iter().filter(|item| !item.is_null())
}
