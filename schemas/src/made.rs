//! A type's schema, as it is shipped.

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

/// The schema of a type.
pub fn of<T: JsonSchema>() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.into_root_schema_for::<T>();
    RecursiveTransform(in_lines_of_its_own).transform(&mut schema);
    RecursiveTransform(without_empty_default).transform(&mut schema);
    schema.to_value()
}

/// The schema of a plugin's own keys: what it says beside those that every plugin has, and beside
/// the rules about keys that do not go together.
pub fn of_plugin<T: JsonSchema>(rules: Vec<Value>) -> Value {
    let mut schema = null_is_absent(of::<T>());
    let mut all = vec![json!({ "$ref": "common.schema.json" })];
    all.extend(rules);
    schema["allOf"] = all.into();
    schema
}

/// A schema that also takes `null` for every key that need not be there, as the plugins do.
pub fn null_is_absent(schema: Value) -> Value {
    let Ok(mut schema) = Schema::try_from(schema) else {
        return Value::Bool(true);
    };
    RecursiveTransform(null_for_optional_keys).transform(&mut schema);
    schema.to_value()
}

/// Lines of a comment are broken where the source is; an editor breaks them itself.
fn in_lines_of_its_own(schema: &mut Schema) {
    if let Some(Value::String(text)) = schema.get_mut("description") {
        let paragraphs = text.split("\n\n").map(|text| text.replace('\n', " "));
        *text = paragraphs.collect::<Vec<_>>().join("\n\n");
    }
}

/// An empty default says no more than the description: that the key may be left out.
fn without_empty_default(schema: &mut Schema) {
    let is_empty = match schema.get("default") {
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Array(list)) => list.is_empty(),
        Some(Value::Object(keys)) => keys.is_empty(),
        Some(Value::Null) => true,
        _ => false,
    };
    if is_empty && let Some(keywords) = schema.as_object_mut() {
        keywords.shift_remove("default");
    }
}

fn null_for_optional_keys(schema: &mut Schema) {
    let required = schema.get("required").cloned().unwrap_or_default();
    let is_required = |key: &str| {
        let keys = required.as_array().into_iter().flatten();
        keys.into_iter().any(|required| required == key)
    };
    let Some(Value::Object(properties)) = schema.get_mut("properties") else {
        return;
    };
    for (key, property) in properties {
        if !is_required(key) {
            allow_null(property);
        }
    }
}

fn allow_null(property: &mut Value) {
    let Value::Object(keywords) = property else {
        return;
    };
    if let Some(Value::Array(values)) = keywords.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    match keywords.get_mut("type") {
        Some(Value::Array(types)) if types.contains(&json!("null")) => {}
        Some(Value::Array(types)) => types.push("null".into()),
        Some(one) => *one = json!([one, "null"]),
        None => {
            if let Some(of) = keywords.shift_remove("$ref") {
                keywords.insert("anyOf".into(), json!([{ "$ref": of }, { "type": "null" }]));
            }
        }
    }
}
