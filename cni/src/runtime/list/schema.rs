//! The JSON Schema of a network configuration list.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::{Head, NetworkList};
use crate::config::Name;

/// A network configuration list: the plugins that make one network.
#[derive(JsonSchema)]
#[schemars(title = "conflist", extend("required" = ["name", "plugins"]))]
#[allow(dead_code, reason = "read by nobody, only described")]
struct Conflist {
    #[serde(flatten)]
    head: Head,
    #[serde(flatten)]
    name: Name,
    /// The plugins, in the order of ADD.
    #[schemars(schema_with = "plugins")]
    plugins: (),
}

/// What is known of a plugin by its type; others may have any keys.
fn plugins(_: &mut SchemaGenerator) -> Schema {
    let both = |plugin: &str| json!({ "enum": [plugin, format!("{plugin}-lite")] });
    let with_type = |kind: Value| json!({ "properties": { "type": kind }, "required": ["type"] });
    let is = |plugin: &str, is: Value| {
        let schema = format!("{plugin}.schema.json");
        json!({ "if": is, "then": { "$ref": schema } })
    };
    let plugin = |name: &str| is(name, with_type(both(name)));
    // It is called with the same configuration as the plugin that calls it.
    let ipam = |name: &str| {
        let ipam = with_type(both(name));
        is(
            name,
            json!({ "properties": { "ipam": ipam }, "required": ["ipam"] }),
        )
    };
    let common = |key: &str| format!("common.schema.json#/properties/{key}");
    json_schema!({
        "type": "array",
        "minItems": 1,
        "items": {
            "type": "object",
            "required": ["type"],
            "properties": {
                "type": { "$ref": common("type"), "type": "string", "minLength": 1 },
                "capabilities": { "$ref": common("capabilities") }
            },
            "allOf": [
                plugin("bridge"),
                plugin("portmap"),
                plugin("bandwidth"),
                plugin("loopback"),
                ipam("host-local")
            ]
        }
    })
}

fn made() -> Value {
    schemas::null_is_absent(schemas::of::<Conflist>())
}

#[test]
fn the_schema_that_is_shipped_is_that_of_the_types() {
    schemas::expect_shipped("conflist", &made());
}

#[test]
fn the_schema_refuses_what_a_runtime_refuses() {
    let plugins = json!([{ "type": "t", "capabilities": { "portMappings": true, "x": false } }]);
    let good = [
        json!({
            "cniVersion": "1.1.0", "name": "n", "disableCheck": true, "disableGC": "true",
            "loadOnlyInlinedPlugins": true, "plugins": plugins
        }),
        json!({ "cniVersions": ["1.0.0", "1.1.0"], "name": "n", "plugins": plugins }),
    ];
    let read = |list: &Value| NetworkList::parse(list.to_string().into_bytes()).map(drop);
    let found = schemas::disagreements(&made(), &good, read);
    assert!(found.is_empty(), "{found:#?}");
}

/// The places of what is wrong in a list of one plugin.
fn flaws(plugin: Value) -> Vec<String> {
    let list = json!({ "cniVersion": "1.0.0", "name": "n", "plugins": [plugin] });
    let place = |flaw: String| flaw.split(": ").next().unwrap_or_default().to_owned();
    schemas::flaws(&made(), &list)
        .into_iter()
        .map(place)
        .collect()
}

#[test]
fn a_plugin_s_keys_are_known_by_its_type() {
    for (plugin, key, bad) in [
        ("bridge", "mtu", json!(67)),
        ("portmap", "markMasqBit", json!(32)),
        ("bandwidth", "ingressRate", json!(7)),
    ] {
        let flaws = |kind: &str| flaws(json!({ "type": kind, key: bad, "ingressBurst": 8 }));
        let place = format!("/plugins/0/{key}");
        assert!(flaws(plugin).contains(&place), "{plugin}");
        assert!(
            flaws(&format!("{plugin}-lite")).contains(&place),
            "{plugin}"
        );
        assert_eq!(flaws("macvlan"), [""; 0], "{plugin}");
    }
}

#[test]
fn the_section_of_host_local_is_known_whoever_calls_it() {
    for kind in ["bridge", "macvlan"] {
        let flaws = |ipam: &str| {
            let ipam = json!({ "type": ipam, "ranges": [[{ "rangeStart": "10.1.0.5" }]] });
            flaws(json!({ "type": kind, "ipam": ipam }))
        };
        for ipam in ["host-local", "host-local-lite"] {
            assert_eq!(flaws(ipam), ["/plugins/0/ipam/ranges/0/0"], "{kind}");
        }
        assert_eq!(flaws("dhcp"), [""; 0], "{kind}");
    }
}

#[test]
fn what_the_schema_does_not_know_is_let_be() {
    let plugin = json!({
        "type": "bridge", "MTU": "1500", "unknown": [5], "$schema": "bridge.schema.json",
        "capabilities": { "aliases": true }, "dns": null
    });
    assert_eq!(flaws(plugin), [""; 0]);
}
