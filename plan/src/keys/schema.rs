//! The JSON Schema of the cluster file, made from the types that read it.

use std::borrow::Cow;
use std::path::Path;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use super::{ClusterKeys, List};
use crate::Document;

impl<T: JsonSchema> JsonSchema for List<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("ListOf{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        json_schema!({
            "description": "One, a list, or one text with commas.",
            "anyOf": [one, { "type": "array", "items": one }]
        })
    }
}

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../conf");

/// `UPDATE_SCHEMA=1` writes it anew.
#[test]
fn the_schema_that_is_shipped_is_that_of_the_types() {
    let schema = schemars::schema_for!(ClusterKeys);
    let text = format!("{}\n", serde_json::to_string_pretty(&schema).unwrap());
    let file = Path::new(FOLDER).join("schema/cluster.schema.json");
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(file).unwrap(), text);
}

#[test]
fn it_takes_what_the_types_take() {
    let schema: Value = schemars::schema_for!(ClusterKeys).into();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let example = std::fs::read_to_string(Path::new(FOLDER).join("lab/cluster.yaml")).unwrap();
    for (text, good) in [
        (example.as_str(), true),
        ("{}", true),
        (
            "podSubnet: [10.244.0.0/16, 'fd00::/56']\nnodePrefix: [24, 64]",
            true,
        ),
        (
            "nodes: [{name: a, address: 10.0.0.1, podCIDR: 10.1.0.0/24}]",
            true,
        ),
        ("podsubnet: 10.244.0.0/16", false),
        ("nodePrefix: x", false),
        ("nodes: [{address: 10.0.0.1}]", false),
        ("keptBack: [{name: a}]", false),
    ] {
        let document = Document::parse("f", text).unwrap();
        let read = document.read::<ClusterKeys>();
        assert_eq!(read.is_ok(), good, "{text}: {read:?}");
        let valid = validator.validate(document.value());
        assert_eq!(valid.is_ok(), good, "{text}: {valid:?}");
    }
}
