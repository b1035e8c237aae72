//! The JSON Schema of the configuration, made of the types that read it.

use serde_json::{Value, json};

use super::tests::request_of;
use super::*;

fn made() -> Value {
    let chain = json!({ "type": "string", "minLength": 1 });
    let never_both = |key: &str, value: Value| {
        let keys = json!({ "externalSetMarkChain": chain, key: value });
        json!({ "not": { "properties": keys, "required": ["externalSetMarkChain", key] } })
    };
    schemas::of_plugin::<Keys>(vec![
        never_both("markMasqBit", json!({ "type": "integer" })),
        never_both("backend", json!({ "const": "nftables" })),
    ])
}

#[test]
fn the_schema_that_is_shipped_is_that_of_the_types() {
    schemas::expect_shipped("portmap", &made());
}

fn read(keys: &Value) -> Result<(), Error> {
    let request = request_of(schemas::on_stdin(keys));
    PortmapConfig::from_keys(request.config.read()?, || Backend::Iptables).map(drop)
}

#[test]
fn it_refuses_what_the_plugin_refuses() {
    let good = [
        json!({
            "backend": "iptables", "snat": true, "masqAll": false, "markMasqBit": 13,
            "conditionsV4": ["-s", "192.0.2.0/24"], "conditionsV6": ["-i", "eth0"],
            "runtimeConfig": { "portMappings": [
                { "hostPort": 8080, "containerPort": 80, "protocol": "TCP", "hostIP": "::1" }
            ] }
        }),
        json!({ "externalSetMarkChain": "KUBE-MARK-MASQ" }),
    ];
    schemas::expect_every_key(&made(), &good);
    let found = schemas::disagreements(&made(), &good, read);
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn what_is_refused_of_texts_and_together() {
    for bad in [
        json!({ "backend": "pf" }),
        json!({ "externalSetMarkChain": "X", "markMasqBit": 0 }),
        json!({ "externalSetMarkChain": "X", "backend": "nftables" }),
        json!({ "externalSetMarkChain": "x".repeat(29) }),
        json!({ "runtimeConfig": { "portMappings": [
            { "hostPort": 1, "containerPort": 1, "protocol": "icmp" }
        ] } }),
        json!({ "runtimeConfig": { "portMappings": [{ "hostPort": 80 }] } }),
    ] {
        schemas::expect_refused(&made(), &bad, read);
    }
}
