//! The paths of keys, as `routes[].dst`.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::shipped;

/// The paths of all keys that a schema describes itself: not those of another that all of it must
/// also be as.
pub fn in_schema(schema: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    describe(schema, schema, "", &mut found);
    found
}

fn describe(root: &Value, schema: &Value, prefix: &str, found: &mut BTreeSet<String>) {
    let Value::Object(keywords) = schema else {
        return;
    };
    if let Some(Value::String(to)) = keywords.get("$ref") {
        let (file, pointer) = to.split_once('#').unwrap_or((to, ""));
        let other = match file {
            "" => root.clone(),
            file => shipped(file.trim_end_matches(".schema.json")),
        };
        describe(&other, other.pointer(pointer).unwrap(), prefix, found);
    }
    for one in keywords
        .get("anyOf")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        describe(root, one, prefix, found);
    }
    if let Some(items) = keywords.get("items") {
        let prefix = format!("{}[].", prefix.trim_end_matches('.'));
        describe(root, items, &prefix, found);
    }
    for (key, property) in properties(keywords) {
        let path = format!("{prefix}{key}");
        describe(root, property, &format!("{path}."), found);
        found.insert(path);
    }
}

fn properties(keywords: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    let properties = keywords.get("properties").and_then(Value::as_object);
    properties.into_iter().flatten()
}

/// That every key which a schema describes itself is in one of the values at least.
///
/// # Panics
/// With those that are in none.
#[track_caller]
pub fn expect_every_key(schema: &Value, values: &[Value]) {
    let known: BTreeSet<_> = values.iter().flat_map(in_value).collect();
    let missing: Vec<_> = in_schema(schema).difference(&known).cloned().collect();
    assert!(missing.is_empty(), "in no value: {missing:?}");
}

/// The paths of all keys of a value.
pub fn in_value(value: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    collect(value, "", &mut found);
    found
}

fn collect(value: &Value, prefix: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let path = format!("{prefix}{key}");
                collect(value, &format!("{path}."), found);
                found.insert(path);
            }
        }
        Value::Array(items) => {
            let prefix = format!("{}[].", prefix.trim_end_matches('.'));
            for item in items {
                collect(item, &prefix, found);
            }
        }
        _ => {}
    }
}
