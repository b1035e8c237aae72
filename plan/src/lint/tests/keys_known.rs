//! The tables of keys, held to the schemas.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::{keys, takes};
use super::{chain, input, said};

/// The keys right behind a prefix of their paths in a schema of `conf/schema`.
fn described(schema: &str, prefix: &str) -> BTreeSet<String> {
    let paths = schemas::in_schema(&schemas::shipped(schema));
    let behind = paths.iter().filter_map(|path| path.strip_prefix(prefix));
    let first = |path: &str| path.split(['.', '[']).next().unwrap_or_default().to_owned();
    behind.map(first).collect()
}

fn names(keys: keys::Keys) -> BTreeSet<String> {
    keys.iter().map(|(key, _)| (*key).to_owned()).collect()
}

#[test]
fn the_keys_are_those_of_the_schemas() {
    let mut list = described("conflist", "");
    list.insert("$schema".to_owned());
    assert_eq!(names(keys::LIST), list);

    let common = names(keys::COMMON);
    let everywhere = described("common", "");
    for (plugin, keys) in keys::PLUGINS {
        let prefix = if plugin == "host-local" { "ipam." } else { "" };
        let own = described(plugin, prefix);
        let known = names(keys);
        let missing: Vec<_> = own.iter().filter(|key| !known.contains(*key)).collect();
        assert!(
            missing.iter().all(|key| common.contains(*key)),
            "{plugin}: {missing:?}"
        );
        let strange = known.iter().filter(|key| !own.contains(*key));
        let strange: Vec<_> = strange.filter(|key| !everywhere.contains(*key)).collect();
        assert!(strange.is_empty(), "{plugin}: {strange:?}");
    }
    for (name, keys) in keys::INNER {
        let places = ["vlanTrunk[].", "dns.", "ipam.ranges[][].", "ipam.routes[]."];
        let place = places.iter().find(|place| place.contains(name)).unwrap();
        let schema = if place.starts_with("ipam") {
            "host-local"
        } else {
            "bridge"
        };
        assert_eq!(names(keys), described(schema, place), "{name}");
    }
}

/// Values of every kind, on both sides of every limit.
fn samples() -> Vec<Value> {
    let numbers = [
        -1_i64,
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
        65495,
        65496,
        65520,
        65521,
        65535,
        65536,
        4_294_967_295,
        4_294_967_296,
        34_359_738_359,
        34_359_738_360,
        36_028_797_018_963_975,
        36_028_797_018_963_976,
    ];
    let texts = [
        "",
        "true",
        "iptables",
        "nftables",
        "fifteen-letters",
        "sixteen-letters-",
    ];
    let longer = ["x".repeat(28), "x".repeat(29)];
    let numbers = numbers.iter().map(|number| json!(number));
    let texts = texts
        .iter()
        .map(|text| json!(text))
        .chain(longer.map(Value::from));
    let others = [
        json!(true),
        json!(false),
        json!(1.5),
        json!({}),
        json!([]),
        json!(["x"]),
        json!([1]),
    ];
    let nested = [json!([[{"subnet": "10.1.0.0/24"}]]), json!([[1]])];
    numbers.chain(texts).chain(others).chain(nested).collect()
}

/// The part of a schema that describes one key, alone.
fn alone(schema: &Value, properties: &str, key: &str) -> Option<Value> {
    let property = schema.pointer(properties)?.get(key)?;
    let definitions = schema.get("$defs").cloned().unwrap_or_else(|| json!({}));
    Some(json!({ "$defs": definitions, "properties": { "key": property } }))
}

#[test]
fn what_keys_take_is_what_the_schemas_say() {
    let of_plugins = keys::PLUGINS
        .into_iter()
        .map(|(plugin, keys)| match plugin {
            "host-local" => (plugin, "/$defs/Ipam/properties", keys),
            _ => (plugin, "/properties", keys),
        });
    let inner = keys::INNER.into_iter().map(|(name, keys)| match name {
        "vlanTrunk" => ("bridge", "/$defs/TrunkKeys/properties", keys),
        "dns" => ("bridge", "/$defs/DnsKeys/properties", keys),
        "ranges" => ("host-local", "/$defs/RangeKeys/properties", keys),
        _ => ("route", "/properties", keys),
    });
    let mut compared = 0;
    for (schema, properties, keys) in of_plugins.chain(inner) {
        let shipped = schemas::shipped(schema);
        for (key, takes) in keys {
            let Some(schema) = alone(&shipped, properties, key) else {
                continue;
            };
            let validator = schemas::validator(&schema);
            for value in samples() {
                let says = validator.is_valid(&json!({ "key": value }));
                let accepts = takes.accepts(&value);
                let finer = match takes {
                    // A schema knows nothing of addresses.
                    takes::Takes::Net | takes::Takes::Address => says && !accepts,
                    // What is in them is looked at by itself.
                    takes::Takes::Object | takes::Takes::Objects | takes::Takes::Ranges => {
                        !says && accepts
                    }
                    // Our plugin does not have it, others do.
                    takes::Takes::Texts if key.contains("haped") => !says && accepts,
                    _ => false,
                };
                assert!(says == accepts || finer, "{key}: {value}: {accepts}");
                compared += 1;
            }
        }
    }
    assert!(compared > 1000, "{compared}");
}

#[test]
fn values_that_a_plugin_refuses() {
    for (path, value, said) in [
        (
            "/plugins/0/ipam/subnet",
            json!("10.244.0.0/33"),
            "plugins[0].ipam.subnet: the plugin refuses \"10.244.0.0/33\": expected a \
             network, as 10.1.0.0/24",
        ),
        (
            "/plugins/0/ipam/subnet",
            json!("10.244.0.1/24"),
            "plugins[0].ipam.subnet: host bits are set in 10.244.0.1/24: expected \
             10.244.0.0/24",
        ),
        (
            "/plugins/0/isGateway",
            json!("true"),
            "plugins[0].isGateway: the plugin refuses \"true\": expected true or false, without quotes",
        ),
        (
            "/plugins/0/mtu",
            json!(9),
            "plugins[0].mtu: the plugin refuses 9: expected a whole number, 0 or 68 to 65535",
        ),
        (
            "/plugins/1/type",
            json!("../../bin/sh"),
            "plugins[1].type: \"../../bin/sh\" is no name of a plugin: expected a file's name, without \
             \"/\"",
        ),
    ] {
        let mut list = chain();
        let (outer, key) = path.rsplit_once('/').unwrap();
        list.pointer_mut(outer).unwrap()[key] = value;
        let (good, lines) = said_of(&list);
        assert!(!good, "{path}");
        let found = lines
            .iter()
            .any(|line| line.starts_with("wrong: 10.conflist:") && line.ends_with(said));
        assert!(found, "{path}: {lines:?}");
    }
    let mut list = chain();
    list["plugins"][0]["mtu"] = Value::Null;
    assert_eq!(said_of(&list), (true, vec![]));
}

fn said_of(list: &Value) -> (bool, Vec<String>) {
    said(&input(list, ""))
}
