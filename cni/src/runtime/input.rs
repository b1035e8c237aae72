//! What a plugin is given on standard input (specification, section "Deriving execution
//! configuration from plugin configuration").

use serde_json::{Map, Value, json};

use super::{NetworkList, RuntimeConf};
use crate::json::get_in;

/// The plugin's `type`, or nothing.
pub(super) fn kind(plugin: &Map<String, Value>) -> &str {
    get_in(plugin, "type").and_then(Value::as_str).unwrap_or("")
}

/// For ADD, CHECK and DEL.
pub(super) fn for_attachment(
    list: &NetworkList,
    plugin: &Map<String, Value>,
    prev_result: Option<&Value>,
    conf: &RuntimeConf,
) -> Vec<u8> {
    let mut given = Vec::new();
    let runtime_config = runtime_config(plugin, &conf.capability_args);
    if !runtime_config.is_empty() {
        given.push(("runtimeConfig", runtime_config.into()));
    }
    given.extend(prev_result.map(|result| ("prevResult", result.clone())));
    input(list, plugin, given)
}

/// For STATUS.
pub(super) fn for_network(list: &NetworkList, plugin: &Map<String, Value>) -> Vec<u8> {
    input(list, plugin, Vec::new())
}

/// For GC, with the key of the specification and the one that it had first.
pub(super) fn for_gc(
    list: &NetworkList,
    plugin: &Map<String, Value>,
    valid: &[(String, String)],
) -> Vec<u8> {
    let valid: Value = valid
        .iter()
        .map(|(id, ifname)| json!({"containerID": id, "ifname": ifname}))
        .collect();
    let keys = ["cni.dev/valid-attachments", "cni.dev/attachments"];
    input(list, plugin, keys.map(|key| (key, valid.clone())).into())
}

/// The plugin's own keys, between those that the list gives and those that the runtime gives.
fn input(list: &NetworkList, plugin: &Map<String, Value>, given: Vec<(&str, Value)>) -> Vec<u8> {
    let own = plugin.iter().filter(|(key, _)| {
        let is_replaced = |name: &str| key.eq_ignore_ascii_case(name);
        !["cniVersion", "name", "capabilities"]
            .into_iter()
            .any(is_replaced)
            && !given.iter().any(|(name, _)| is_replaced(name))
    });
    let mut input = Map::new();
    input.insert("cniVersion".into(), list.cni_version.as_str().into());
    input.insert("name".into(), list.name.as_str().into());
    input.extend(own.map(|(key, value)| (key.clone(), value.clone())));
    input.extend(
        given
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value)),
    );
    Value::Object(input).to_string().into_bytes()
}

/// What was given for the capabilities that the plugin has.
fn runtime_config(plugin: &Map<String, Value>, given: &Map<String, Value>) -> Map<String, Value> {
    let Some(Value::Object(capabilities)) = get_in(plugin, "capabilities") else {
        return Map::new();
    };
    capabilities
        .iter()
        .filter(|(_, supported)| **supported == Value::Bool(true))
        .filter_map(|(capability, _)| given.get_key_value(capability))
        .map(|(capability, value)| (capability.clone(), value.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(plugin: &str) -> NetworkList {
        let text = format!(r#"{{"cniVersion": "1.1.0", "name": "n", "plugins": [{plugin}]}}"#);
        NetworkList::parse(text.into()).unwrap()
    }

    fn text(input: Vec<u8>) -> String {
        String::from_utf8(input).unwrap()
    }

    #[test]
    fn attachment() {
        let list = list(
            r#"{"type": "p", "NAME": "x", "z": {"B": null},
                "capabilities": {"portMappings": true, "bandwidth": false, "mac": true}}"#,
        );
        let conf = RuntimeConf {
            capability_args: json!({"portMappings": [1], "bandwidth": 2, "ips": 3})
                .as_object()
                .cloned()
                .unwrap(),
            ..RuntimeConf::default()
        };
        let plugin = &list.plugins[0];
        let head = r#"{"cniVersion":"1.1.0","name":"n","type":"p","z":{"B":null}"#;
        assert_eq!(
            text(for_attachment(
                &list,
                plugin,
                Some(&json!({"ips": []})),
                &conf
            )),
            format!(r#"{head},"runtimeConfig":{{"portMappings":[1]}},"prevResult":{{"ips":[]}}}}"#)
        );
        let nothing = RuntimeConf::default();
        assert_eq!(
            text(for_attachment(&list, plugin, None, &nothing)),
            format!("{head}}}")
        );
        assert_eq!(text(for_network(&list, plugin)), format!("{head}}}"));
    }

    #[test]
    fn gc_has_both_keys() {
        let list = list(r#"{"type": "p"}"#);
        let valid = [("c".to_owned(), "eth0".to_owned())];
        let got = text(for_gc(&list, &list.plugins[0], &valid));
        let attachments = r#"[{"containerID":"c","ifname":"eth0"}]"#;
        assert_eq!(
            got,
            format!(
                r#"{{"cniVersion":"1.1.0","name":"n","type":"p","cni.dev/valid-attachments":{attachments},"cni.dev/attachments":{attachments}}}"#
            )
        );
        let got = text(for_gc(&list, &list.plugins[0], &[]));
        assert!(got.contains(r#""cni.dev/valid-attachments":[]"#));
    }
}
