//! The JSON Schema of the configuration, made of the types that read it.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::tests::request;
use super::*;

/// The crate of the type describes it in a schema of its own.
pub(super) fn routes(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": { "$ref": "route.schema.json" } })
}

fn made() -> Value {
    schemas::of_plugin::<Keys>(Vec::new())
}

#[test]
fn the_schema_that_is_shipped_is_that_of_the_types() {
    schemas::expect_shipped("host-local", &made());
}

fn read(keys: &Value) -> Result<(), Error> {
    Settings::read(&request(&schemas::on_stdin(keys), "")).map(drop)
}

#[test]
fn it_refuses_what_the_plugin_refuses() {
    let range = |net: u8| {
        json!({
            "subnet": format!("10.{net}.0.0/24"), "rangeStart": format!("10.{net}.0.10"),
            "rangeEnd": format!("10.{net}.0.99"), "gateway": format!("10.{net}.0.1")
        })
    };
    let mut ipam = range(1);
    ipam["dataDir"] = json!("/run/cni");
    ipam["resolvConf"] = json!("/etc/resolv.conf");
    ipam["ranges"] = json!([[range(2), range(3)], [{ "subnet": "fd00::/64" }]]);
    ipam["routes"] = json!([
        {
            "dst": "0.0.0.0/0", "gw": "10.1.0.1", "mtu": 1400, "advmss": 1300, "priority": 5,
            "table": 254
        },
        { "dst": "fd00::/8", "scope": 0 }
    ]);
    let good = [json!({
        "ipam": ipam,
        "runtimeConfig": { "ipRanges": [[range(4)]], "ips": ["10.4.0.7/24"] },
        "args": { "cni": { "ips": ["10.1.0.7"] } }
    })];
    schemas::expect_every_key(&made(), &good);
    let found = schemas::disagreements(&made(), &good, read);
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn what_is_missing() {
    for bad in [
        json!({}),
        json!({ "ipam": { "ranges": [[]] } }),
        json!({ "ipam": { "ranges": [[{ "rangeStart": "10.1.0.5" }]] } }),
        json!({ "ipam": { "subnet": "10.1.0.0/24", "routes": [{ "gw": "10.1.0.1" }] } }),
    ] {
        schemas::expect_refused(&made(), &bad, read);
    }
}
