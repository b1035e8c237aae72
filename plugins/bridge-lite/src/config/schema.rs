//! The JSON Schema of the configuration, made of the types that read it.

use serde_json::{Value, json};

use super::*;
use crate::fixture::request_of;

/// Of `minID` and `maxID` of a trunk.
pub(super) fn both_ends_or_none() -> Value {
    let has =
        |key: &str| json!({ "properties": { key: { "type": "integer" } }, "required": [key] });
    let needs = |key: &str, other: &str| json!({ "if": has(key), "then": has(other) });
    json!([needs("minID", "maxID"), needs("maxID", "minID")])
}

fn made() -> Value {
    let is = json!({ "const": true });
    let named = json!({
        "properties": { "type": { "type": "string", "minLength": 1 } }, "required": ["type"]
    });
    let never_both = |one: (&str, &Value), other: (&str, &Value)| {
        let keys = json!({ one.0: one.1, other.0: other.1 });
        json!({ "not": { "properties": keys, "required": [one.0, other.0] } })
    };
    schemas::of_plugin::<Keys>(vec![
        never_both(("hairpinMode", &is), ("promiscMode", &is)),
        never_both(("disableContainerInterface", &is), ("ipam", &named)),
    ])
}

#[test]
fn the_schema_that_is_shipped_is_that_of_the_types() {
    schemas::expect_shipped("bridge", &made());
}

fn read(keys: &Value) -> Result<(), Error> {
    BridgeConfig::read(&request_of(schemas::on_stdin(keys), "")).map(drop)
}

#[test]
fn it_refuses_what_the_plugin_refuses() {
    let mac = json!({ "mac": "02:00:00:00:00:01" });
    let good = [
        json!({
            "bridge": "br1", "isGateway": true, "isDefaultGateway": true, "forceAddress": true,
            "ipMasq": true, "ipMasqBackend": "nftables", "mtu": 1400, "hairpinMode": true,
            "promiscMode": false, "vlan": 100, "preserveDefaultVlan": true, "macspoofchk": true,
            "vlanTrunk": [{ "id": 5 }, { "minID": 1, "maxID": 4094 }], "enabledad": true,
            "disableContainerInterface": false, "portIsolation": true,
            "ipam": { "type": "host-local" },
            "dns": {
                "nameservers": ["10.0.0.1"], "domain": "d", "search": ["s"], "options": ["o"]
            },
            "runtimeConfig": mac, "args": { "cni": mac }
        }),
        json!({ "disableContainerInterface": true, "promiscMode": true }),
    ];
    schemas::expect_every_key(&made(), &good);
    let mut found = schemas::disagreements(&made(), &good, read);
    // All plugins refuse the same there, before their own keys are read.
    found.retain(|flaw| !flaw.starts_with("/ipam"));
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn what_is_refused_of_texts_and_together() {
    for bad in [
        json!({ "bridge": "a/b" }),
        json!({ "bridge": "br%d" }),
        json!({ "bridge": "sixteen-bytes-xx" }),
        json!({ "ipMasqBackend": "pf" }),
        json!({ "hairpinMode": true, "promiscMode": true }),
        json!({ "disableContainerInterface": true, "ipam": { "type": "host-local" } }),
        json!({ "vlanTrunk": [{ "minID": 5 }] }),
        json!({ "vlanTrunk": [{ "maxID": 5, "minID": null }] }),
    ] {
        schemas::expect_refused(&made(), &bad, read);
    }
}
