//! Whether a schema says what a reader says.

use serde_json::{Value, json};

use crate::validator;

/// Puts some dozens of values in place of each value inside each of the good ones, and says where
/// the schema and the reader do not agree: about a value of any type, number or shape. Of texts in
/// place of texts the reader may say more than the schema, but never less. (A `null` in a list,
/// which readers skip, is not tried.)
///
/// # Panics
/// One that is good is refused by either.
#[track_caller]
pub fn disagreements<E: std::fmt::Display>(
    schema: &Value,
    good: &[Value],
    read: impl Fn(&Value) -> Result<(), E>,
) -> Vec<String> {
    let validator = validator(schema);
    let mut found = Vec::new();
    for good in good {
        if let Err(error) = read(good) {
            panic!("refused by the reader: {error}: {good}");
        }
        if let Err(error) = validator.validate(good) {
            panic!("refused by the schema: {error}: {good}");
        }
        for (place, new) in variants(good) {
            let mut changed = good.clone();
            let value = changed.pointer_mut(&place).unwrap();
            let may_say_more = are_texts(value, &new);
            *value = new.clone();
            let said = match (validator.validate(&changed), read(&changed)) {
                (Err(error), Ok(())) => format!("refused by the schema alone: {error}"),
                (Ok(()), Err(error)) if !may_say_more => {
                    format!("refused by the reader alone: {error}")
                }
                _ => continue,
            };
            found.push(format!("{place}: {new:.40}: {said:.200}"));
        }
    }
    found
}

/// That both refuse it.
///
/// # Panics
/// One does not.
#[track_caller]
pub fn expect_refused<E>(schema: &Value, bad: &Value, read: impl Fn(&Value) -> Result<(), E>) {
    assert!(read(bad).is_err(), "the reader takes {bad}");
    assert!(!validator(schema).is_valid(bad), "the schema takes {bad}");
}

/// A configuration of these keys as a plugin gets it: with a network's name and, where none is
/// among them, a version.
pub fn on_stdin(keys: &Value) -> String {
    let mut config = json!({ "cniVersion": "1.0.0", "name": "net" });
    if let (Some(config), Some(keys)) = (config.as_object_mut(), keys.as_object()) {
        config.extend(keys.clone());
    }
    config.to_string()
}

/// Whether both are texts, or lists of texts.
fn are_texts(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::String(_), Value::String(_)) => true,
        (Value::Array(one), Value::Array(other)) => {
            one.iter().chain(other).all(Value::is_string) && !other.is_empty()
        }
        _ => false,
    }
}

/// What is tried: a place (RFC 6901), and the value that is put there.
fn variants(good: &Value) -> Vec<(String, Value)> {
    let mut places = Vec::new();
    collect(good, "", &mut places);
    let values = |(place, in_list): (String, bool)| {
        let values = replacements().into_iter();
        let values = values.filter(move |value| !in_list || !value.is_null());
        values.map(move |value| (place.clone(), value))
    };
    places.into_iter().flat_map(values).collect()
}

/// The place of every value inside another, and whether that is in a list.
fn collect(value: &Value, at: &str, places: &mut Vec<(String, bool)>) {
    let escaped = |key: &String| key.replace('~', "~0").replace('/', "~1");
    let (in_list, parts): (_, Vec<(String, &Value)>) = match value {
        Value::Object(fields) => {
            let parts = fields.iter().map(|(key, part)| (escaped(key), part));
            (false, parts.collect())
        }
        Value::Array(items) => {
            let parts = items.iter().enumerate();
            (
                true,
                parts.map(|(at, part)| (at.to_string(), part)).collect(),
            )
        }
        _ => return,
    };
    for (key, part) in parts {
        let place = format!("{at}/{key}");
        collect(part, &place, places);
        places.push((place, in_list));
    }
}

/// Values of every type, and numbers on both sides of every limit that a key has.
fn replacements() -> Vec<Value> {
    let numbers = [
        0,
        1,
        7,
        8,
        31,
        32,
        67,
        68,
        255,
        256,
        4094,
        4095,
        65_495,
        65_496,
        65_520,
        65_521,
        65_535,
        65_536,
        u64::from(u32::MAX),
        u64::from(u32::MAX) + 1,
        34_359_738_359,
        34_359_738_360,
        36_028_797_018_963_975,
        36_028_797_018_963_976,
        i64::MAX.unsigned_abs(),
        u64::MAX,
    ];
    let others = json!([
        null, true, false, -1, i64::MIN, 1.5, "", "x", "a/b", "1", "true", "x".repeat(300),
        [], [5], ["x"], [{}], [[]], {}, { "x": 5 }
    ]);
    let others = others.as_array().cloned().unwrap_or_default();
    others.into_iter().chain(numbers.map(Value::from)).collect()
}
