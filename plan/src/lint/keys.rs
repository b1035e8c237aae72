//! Which keys each plugin knows, and what each of them takes.

use serde_json::{Map, Value};

use super::conflist::ConfFile;
use super::takes::Takes::{
    self, Address, Any, Flag, Name, Net, Number, Object, Objects, Ranges, Text, Texts, Words,
};
use super::{Note, Weight};

/// Keys, each with what it takes.
pub(super) type Keys = &'static [(&'static str, Takes)];

/// Keys of a list (specification, section "Configuration format"), and the one that tells an editor
/// what they are. What they take, the runtime looks at itself.
pub(super) const LIST: Keys = &[
    ("$schema", Any),
    ("cniVersion", Any),
    ("cniVersions", Any),
    ("name", Any),
    ("disableCheck", Any),
    ("disableGC", Any),
    ("loadOnlyInlinedPlugins", Any),
    ("plugins", Any),
];
/// Keys of every plugin's configuration.
pub(super) const COMMON: Keys = &[
    ("$schema", Any),
    ("cniVersion", Text),
    ("name", Text),
    ("type", Text),
    ("capabilities", Object),
    ("runtimeConfig", Any),
    ("args", Any),
    ("prevResult", Object),
    ("logFile", Text),
];
const BACKENDS: Takes = Words(&["iptables", "nftables"]);
const RATE: Takes = Number(&[(0, 0), (8, 36_028_797_018_963_975)]);
const BURST: Takes = Number(&[(0, 34_359_738_359)]);
const VLAN: Takes = Number(&[(1, 4094)]);
/// Keys of each plugin that the project has.
pub(super) const PLUGINS: [(&str, Keys); 5] = [
    (
        "bridge",
        &[
            ("bridge", Name(15)),
            ("isGateway", Flag),
            ("isDefaultGateway", Flag),
            ("forceAddress", Flag),
            ("ipMasq", Flag),
            ("ipMasqBackend", BACKENDS),
            ("mtu", Number(&[(0, 0), (68, 65535)])),
            ("hairpinMode", Flag),
            ("promiscMode", Flag),
            ("vlan", Number(&[(0, 4094)])),
            ("vlanTrunk", Objects),
            ("preserveDefaultVlan", Flag),
            ("macspoofchk", Flag),
            ("enabledad", Flag),
            ("disableContainerInterface", Flag),
            ("portIsolation", Flag),
            ("ipam", Object),
            ("dns", Object),
        ],
    ),
    (
        "portmap",
        &[
            ("backend", BACKENDS),
            ("snat", Flag),
            ("masqAll", Flag),
            ("markMasqBit", Number(&[(0, 31)])),
            ("externalSetMarkChain", Name(28)),
            ("conditionsV4", Texts),
            ("conditionsV6", Texts),
        ],
    ),
    (
        "bandwidth",
        &[
            ("ingressRate", RATE),
            ("ingressBurst", BURST),
            ("egressRate", RATE),
            ("egressBurst", BURST),
            ("shapedSubnets", Texts),
            ("unshapedSubnets", Texts),
        ],
    ),
    ("loopback", &[]),
    (
        "host-local",
        &[
            ("type", Text),
            ("ranges", Ranges),
            ("subnet", Net),
            ("rangeStart", Address),
            ("rangeEnd", Address),
            ("gateway", Address),
            ("dataDir", Text),
            ("resolvConf", Text),
            ("routes", Objects),
        ],
    ),
];
/// Keys inside of others.
pub(super) const INNER: [(&str, Keys); 4] = [
    (
        "vlanTrunk",
        &[("id", VLAN), ("minID", VLAN), ("maxID", VLAN)],
    ),
    (
        "dns",
        &[
            ("nameservers", Texts),
            ("domain", Text),
            ("search", Texts),
            ("options", Texts),
        ],
    ),
    (
        "ranges",
        &[
            ("subnet", Net),
            ("rangeStart", Address),
            ("rangeEnd", Address),
            ("gateway", Address),
        ],
    ),
    (
        "routes",
        &[
            ("dst", Net),
            ("gw", Address),
            ("mtu", Number(&[(0, 0), (68, 65520)])),
            ("advmss", Number(&[(0, 65495)])),
            ("priority", Number(&[(0, 4_294_967_295)])),
            ("table", Number(&[(0, 4_294_967_295)])),
            ("scope", Number(&[(0, 255)])),
        ],
    ),
];

/// An object of a configuration whose keys are known.
pub(super) struct Known<'a> {
    /// The object.
    pub object: &'a Map<String, Value>,
    /// What stands before its keys in their paths.
    pub prefix: String,
    /// Its keys.
    pub keys: Vec<Keys>,
}

/// The keys of a plugin; `None` for one that is not the project's.
fn of_plugin(kind: &str) -> Option<Keys> {
    let kind = kind.strip_suffix("-lite").unwrap_or(kind);
    let mut plugins = PLUGINS.iter();
    plugins
        .find(|(name, _)| *name == kind)
        .map(|(_, keys)| *keys)
}

/// The keys of the file that nobody knows.
pub(super) fn unknown(file: &ConfFile) -> Vec<Note> {
    let Some(list) = file.document.as_ref().map(|document| document.value()) else {
        return Vec::new();
    };
    let found = known_in(list)
        .into_iter()
        .flat_map(|known| known.strangers());
    let note = |key: String| {
        let said = format!("{key}: no plugin knows this key, and it is not looked at");
        Note::new(Weight::Ignored, &file.place(&key), said)
    };
    found.map(note).collect()
}

/// The objects of a list, or of a single plugin's configuration, whose keys are known.
pub(super) fn known_in(list: &Value) -> Vec<Known<'_>> {
    let mut found = Vec::new();
    match get(list, "plugins").and_then(Value::as_array) {
        None => of_chained(list, "", &mut found),
        Some(plugins) => {
            note(list, "", vec![LIST], &mut found);
            for (index, plugin) in plugins.iter().enumerate() {
                of_chained(plugin, &format!("plugins[{index}]."), &mut found);
            }
        }
    }
    found
}

fn note<'a>(value: &'a Value, prefix: &str, keys: Vec<Keys>, found: &mut Vec<Known<'a>>) {
    found.extend(value.as_object().map(|object| Known {
        object,
        prefix: prefix.to_owned(),
        keys,
    }));
}

fn of_chained<'a>(plugin: &'a Value, prefix: &str, found: &mut Vec<Known<'a>>) {
    let kind = |value| get(value, "type").and_then(Value::as_str);
    if let Some(keys) = kind(plugin).and_then(of_plugin) {
        note(plugin, prefix, vec![COMMON, keys], found);
        inside(plugin, prefix, found);
    }
    let Some(ipam) = get(plugin, "ipam") else {
        return;
    };
    if let Some(keys) = kind(ipam).and_then(of_plugin) {
        let prefix = format!("{prefix}ipam.");
        note(ipam, &prefix, vec![keys], found);
        inside(ipam, &prefix, found);
    }
}

/// Looks into objects and lists of them whose keys are known.
fn inside<'a>(value: &'a Value, prefix: &str, found: &mut Vec<Known<'a>>) {
    for (name, keys) in INNER {
        if let Some((written, inner)) = entry(value, name) {
            each(inner, &format!("{prefix}{written}"), keys, found);
        }
    }
}

fn each<'a>(value: &'a Value, path: &str, keys: Keys, found: &mut Vec<Known<'a>>) {
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                each(item, &format!("{path}[{index}]"), keys, found);
            }
        }
        other => note(other, &format!("{path}."), vec![keys], found),
    }
}

impl Known<'_> {
    /// Its keys that are in none of the lists; plugins match without regard to case.
    fn strangers(&self) -> Vec<String> {
        let known = |key: &str| {
            self.keys
                .iter()
                .copied()
                .flatten()
                .any(|(known, _)| known.eq_ignore_ascii_case(key))
        };
        let keys = self.object.iter().map(|(key, _)| key);
        // Keys with a dot are whose domain that is.
        keys.filter(|key| !key.contains('.') && !known(key))
            .map(|key| format!("{}{key}", self.prefix))
            .collect()
    }
}

pub(super) fn get<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    entry(value, name).map(|(_, value)| value)
}

/// The last one counts, and `null` is absent.
fn entry<'a>(value: &'a Value, name: &str) -> Option<(&'a String, &'a Value)> {
    entry_of(value.as_object()?, name)
}

/// See [`entry`].
pub(super) fn entry_of<'a>(
    object: &'a Map<String, Value>,
    name: &str,
) -> Option<(&'a String, &'a Value)> {
    let mut entries = object.iter().rev();
    entries.find(|(key, _)| key.eq_ignore_ascii_case(name))
}
