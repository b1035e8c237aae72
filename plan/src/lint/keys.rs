//! Keys that no plugin of the type knows.

use serde_json::Value;

use super::conflist::ConfFile;
use super::{Note, Weight};

/// Keys of a list (specification, section "Configuration format"), and the one that tells an editor
/// what they are.
pub(super) const LIST: &str =
    "$schema cniVersion cniVersions name disableCheck disableGC loadOnlyInlinedPlugins plugins";
/// Keys of every plugin's configuration.
pub(super) const COMMON: &str =
    "$schema cniVersion name type capabilities runtimeConfig args prevResult logFile";
/// Keys of each plugin that the project has.
pub(super) const PLUGINS: [(&str, &str); 5] = [
    (
        "bridge",
        "bridge isGateway isDefaultGateway forceAddress ipMasq ipMasqBackend mtu hairpinMode \
         promiscMode vlan vlanTrunk preserveDefaultVlan macspoofchk enabledad \
         disableContainerInterface portIsolation ipam dns",
    ),
    (
        "portmap",
        "backend snat masqAll markMasqBit externalSetMarkChain conditionsV4 conditionsV6",
    ),
    (
        "bandwidth",
        "ingressRate ingressBurst egressRate egressBurst shapedSubnets unshapedSubnets",
    ),
    ("loopback", ""),
    (
        "host-local",
        "type ranges subnet rangeStart rangeEnd gateway dataDir resolvConf routes",
    ),
];
/// Keys inside of others.
pub(super) const INNER: [(&str, &str); 4] = [
    ("vlanTrunk", "id minID maxID"),
    ("dns", "nameservers domain search options"),
    ("ranges", "subnet rangeStart rangeEnd gateway"),
    ("routes", "dst gw mtu advmss priority table scope"),
];

/// The keys of a plugin; `None` for one that is not the project's.
fn of_plugin(kind: &str) -> Option<&'static str> {
    let kind = kind.strip_suffix("-lite").unwrap_or(kind);
    let mut plugins = PLUGINS.iter();
    plugins
        .find(|(name, _)| *name == kind)
        .map(|(_, keys)| *keys)
}

/// The keys of the file that nobody knows.
pub(super) fn unknown(file: &ConfFile) -> Vec<Note> {
    let mut found = Vec::new();
    let Some(document) = &file.document else {
        return Vec::new();
    };
    let list = document.value();
    match get(list, "plugins").and_then(Value::as_array) {
        None => of_chained(list, "", &mut found),
        Some(plugins) => {
            found.extend(strangers(list, "", &[LIST]));
            for (index, plugin) in plugins.iter().enumerate() {
                of_chained(plugin, &format!("plugins[{index}]."), &mut found);
            }
        }
    }
    let note = |key: String| {
        let said = format!("{key}: no plugin knows this key, and it is not looked at");
        Note::new(Weight::Ignored, &file.place(&key), said)
    };
    found.into_iter().map(note).collect()
}

fn of_chained(plugin: &Value, prefix: &str, found: &mut Vec<String>) {
    let kind = |value| get(value, "type").and_then(Value::as_str);
    if let Some(keys) = kind(plugin).and_then(of_plugin) {
        found.extend(strangers(plugin, prefix, &[COMMON, keys]));
        inside(plugin, prefix, found);
    }
    let Some(ipam) = get(plugin, "ipam") else {
        return;
    };
    if let Some(keys) = kind(ipam).and_then(of_plugin) {
        let prefix = format!("{prefix}ipam.");
        found.extend(strangers(ipam, &prefix, &[keys]));
        inside(ipam, &prefix, found);
    }
}

/// Looks into objects and lists of them whose keys are known.
fn inside(value: &Value, prefix: &str, found: &mut Vec<String>) {
    for (name, keys) in INNER {
        if let Some((written, inner)) = entry(value, name) {
            each(inner, &format!("{prefix}{written}"), keys, found);
        }
    }
}

fn each(value: &Value, path: &str, keys: &str, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                each(item, &format!("{path}[{index}]"), keys, found);
            }
        }
        other => found.extend(strangers(other, &format!("{path}."), &[keys])),
    }
}

/// The keys of an object that are in none of the lists; plugins match without regard to case.
fn strangers(value: &Value, prefix: &str, known: &[&str]) -> Vec<String> {
    let mut known = known.iter().flat_map(|keys| keys.split_whitespace());
    let object = value.as_object().into_iter().flatten();
    let known: Vec<&str> = known.by_ref().collect();
    object
        .map(|(key, _)| key)
        // Keys with a dot are whose domain that is.
        .filter(|key| !key.contains('.'))
        .filter(|key| !known.iter().any(|known| known.eq_ignore_ascii_case(key)))
        .map(|key| format!("{prefix}{key}"))
        .collect()
}

fn get<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    entry(value, name).map(|(_, value)| value)
}

fn entry<'a>(value: &'a Value, name: &str) -> Option<(&'a String, &'a Value)> {
    let mut entries = value.as_object()?.iter().rev();
    entries.find(|(key, _)| key.eq_ignore_ascii_case(name))
}
