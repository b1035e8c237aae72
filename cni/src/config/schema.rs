//! The JSON Schemas of what every plugin takes, and of a route.

use std::collections::BTreeMap;
use std::iter;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use super::{CniVersion, Common, Config, Name};
use crate::valid::Entry;
use crate::{Command, Env, Error, Request, Route, Version};

/// The keys of every configuration, those that plugins do not read included.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(title = "common")]
#[allow(dead_code, reason = "read by nobody, only described")]
#[derive(Default)]
struct Configuration {
    #[serde(flatten)]
    version: CniVersion,
    #[serde(flatten)]
    name: Name,
    #[serde(flatten)]
    common: Common,
    /// The plugin: the name of its file in a folder of `CNI_PATH`.
    #[schemars(extend("examples" = ["bridge", "portmap", "bandwidth", "bridge-lite", "portmap-lite", "bandwidth-lite"]))]
    r#type: String,
    /// What the runtime may put into `runtimeConfig`.
    capabilities: Capabilities,
    /// What the runtime knows of the pod: not to be written, but asked for by `capabilities`.
    runtime_config: Value,
    /// `args.cni` is another way to say what `runtimeConfig` says.
    args: Value,
    /// From the runtime: what the chain has made so far, at CHECK and DEL all of it.
    prev_result: Map<String, Value>,
    /// From the runtime, for GC: the attachments that live. An empty list says that none does.
    #[serde(rename = "cni.dev/valid-attachments")]
    valid_attachments: Vec<Entry>,
    /// The first name of `cni.dev/valid-attachments`, read where that is not there.
    #[serde(rename = "cni.dev/attachments")]
    attachments: Vec<Entry>,
}

/// What the runtime may put into `runtimeConfig`, each where its value is true.
#[derive(Default, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("additionalProperties" = { "type": ["boolean", "null"] }))]
#[allow(dead_code, reason = "read by nobody, only described")]
struct Capabilities {
    /// The pod's host ports, for portmap.
    port_mappings: bool,
    /// The pod's rates, for bandwidth.
    bandwidth: bool,
    /// The MAC that is wanted for the pod's interface, for bridge.
    mac: bool,
    /// The addresses that are wanted, for the IPAM plugin.
    ips: bool,
    /// Ranges to give addresses of, for host-local.
    ip_ranges: bool,
}

/// The text of a version; the empty one counts as absent.
pub(crate) fn version(_: &mut SchemaGenerator) -> Schema {
    let known = Version::ALL.iter().map(|version| version.as_str());
    let texts: Vec<_> = iter::once("").chain(known).collect();
    json_schema!({ "type": "string", "enum": texts })
}

fn made() -> Value {
    schemas::null_is_absent(schemas::of::<Configuration>())
}

#[test]
fn the_schemas_that_are_shipped_are_those_of_the_types() {
    schemas::expect_shipped("common", &made());
    schemas::expect_shipped("route", &schemas::null_is_absent(schemas::of::<Route>()));
}

fn read(config: &Value) -> Result<(), Error> {
    let config = Config::parse(config.to_string().into_bytes())?;
    config.validate_common()?;
    config.prev_result()?;
    let env = Env::read(Command::Gc, |_| Some("x".to_owned()))?;
    Request::new(env, config).valid_attachments().map(drop)
}

#[test]
fn the_schema_refuses_what_every_plugin_refuses() {
    let valid = json!([{ "containerID": "c", "ifname": "eth0" }]);
    let good = [
        json!({
            "cniVersion": "1.1.0", "name": "n", "logFile": "/log", "ipam": { "type": "host-local" },
            "dns": {
                "nameservers": ["10.0.0.1"], "domain": "d", "search": ["s"], "options": ["o"]
            },
            "prevResult": {}, "cni.dev/valid-attachments": valid
        }),
        json!({ "name": "n", "cni.dev/attachments": valid }),
    ];
    let mut found = schemas::disagreements(&made(), &good, read);
    // What a runtime gives: in a list it is not written.
    let given = [
        "/name",
        "/cni.dev~1valid-attachments",
        "/cni.dev~1attachments",
    ];
    found.retain(|flaw| {
        !given
            .iter()
            .any(|key| flaw.starts_with(&format!("{key}: null:")))
    });
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn texts_that_every_plugin_refuses() {
    for (key, bad) in [
        ("cniVersion", json!("1.0")),
        ("cniVersion", json!("2.0.0")),
        ("name", json!("a/b")),
        ("name", json!("-a")),
        ("logFile", json!("log/cni")),
        (
            "cni.dev/attachments",
            json!([{ "containerID": "a/b", "ifname": "eth0" }]),
        ),
        (
            "cni.dev/attachments",
            json!([{ "containerID": "a", "ifname": "sixteen-bytes-xx" }]),
        ),
    ] {
        let mut config = BTreeMap::from([("name", json!("n")), ("cni.dev/attachments", json!([]))]);
        config.insert(key, bad);
        let config = json!(config);
        assert!(read(&config).is_err(), "{config}");
        let flaws = schemas::flaws(&made(), &config);
        assert_eq!(flaws.len(), 1, "{config}: {flaws:?}");
        let place = key.replace('/', "~1");
        assert!(flaws[0].starts_with(&format!("/{place}")), "{flaws:?}");
    }
}
