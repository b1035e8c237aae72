//! The JSON Schema of the configuration, made of the types that read it.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::*;

/// 0, or what [`limit`] takes for a rate.
pub(super) fn rate(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "integer",
        "default": 0,
        "anyOf": [{ "const": 0 }, { "minimum": 8, "maximum": MAX_RATE * 8 + 7 }]
    })
}

/// What [`limit`] takes for a burst, with a rate.
pub(super) fn burst(_: &mut SchemaGenerator) -> Schema {
    let below = u64::from(u32::MAX) * 8;
    json_schema!({ "type": "integer", "default": 0, "minimum": 0, "maximum": below - 1 })
}

/// A rate and its burst are both there, or neither is; the stand-ins for a burst apart, which
/// runtimes send in any case.
pub(super) fn rates_have_bursts() -> Value {
    let given = json!({ "type": "integer", "minimum": 1 });
    let chosen = json!({ "type": "integer", "minimum": 1, "not": { "enum": BURST_STAND_INS } });
    let needs = |key: &str, value: &Value, other: &str| {
        let has =
            |key: &str, value: &Value| json!({ "properties": { key: value }, "required": [key] });
        json!({ "if": has(key, value), "then": has(other, &given) })
    };
    json!([
        needs("ingressRate", &given, "ingressBurst"),
        needs("ingressBurst", &chosen, "ingressRate"),
        needs("egressRate", &given, "egressBurst"),
        needs("egressBurst", &chosen, "egressRate"),
    ])
}

fn made() -> Value {
    let rules = rates_have_bursts().as_array().cloned();
    schemas::of_plugin::<Keys>(rules.unwrap())
}

#[test]
fn the_schema_that_is_shipped_is_that_of_the_types() {
    schemas::expect_shipped("bandwidth", &made());
}

fn read(keys: &Value) -> Result<(), Error> {
    Limits::read(&Config::parse(schemas::on_stdin(keys).into_bytes())?).map(drop)
}

#[test]
fn it_refuses_what_the_plugin_refuses() {
    let limits = json!({
        "ingressRate": 8000, "ingressBurst": 80000, "egressRate": 8000, "egressBurst": 80000,
        "shapedSubnets": [], "unshapedSubnets": []
    });
    let good = [
        limits.clone(),
        json!({ "runtimeConfig": { "bandwidth": limits } }),
    ];
    schemas::expect_every_key(&made(), &good);
    let found = schemas::disagreements(&made(), &good, read);
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn what_is_refused_together() {
    for bad in [
        json!({ "ingressRate": 8000 }),
        json!({ "egressRate": 8000, "egressBurst": 0 }),
        json!({ "egressBurst": 8000 }),
        json!({ "egressBurst": 8000, "egressRate": null }),
        json!({ "runtimeConfig": { "bandwidth": { "ingressRate": 8000 } } }),
        json!({ "shapedSubnets": ["10.0.0.0/8"] }),
    ] {
        schemas::expect_refused(&made(), &bad, read);
    }
    let stand_in = json!({ "ingressBurst": 2_147_483_647, "egressRate": 0 });
    assert!(read(&stand_in).is_ok());
    assert_eq!(schemas::flaws(&made(), &stand_in), Vec::<String>::new());
}
