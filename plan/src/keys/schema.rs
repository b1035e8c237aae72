//! The JSON Schema of the cluster file, made from the types that read it.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

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

#[test]
fn the_schema_that_is_shipped_is_that_of_the_types() {
    schemas::expect_shipped("cluster", &schemas::of::<ClusterKeys>());
}

#[test]
fn it_takes_what_the_types_take() {
    let validator = schemas::validator(&schemas::of::<ClusterKeys>());
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../conf/lab/cluster.yaml");
    let example = std::fs::read_to_string(example).unwrap();
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
