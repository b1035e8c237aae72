//! Network configuration lists (specification, section "Configuration format").

#[cfg(test)]
mod schema;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::input;
use crate::{Config, Error, Version, code, config, json};

/// How many bytes a file may have. A plugin takes 16 MiB; a cache has a list in base64, and more.
const MOST: u64 = 64 << 20;

/// The plugins of one network, in the order of ADD.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkList {
    /// `name`.
    pub name: String,
    /// The newest that we know of `cniVersion` and `cniVersions`; none at all means 0.1.0.
    pub cni_version: Version,
    /// `disableCheck`: CHECK is not to be called.
    pub disable_check: bool,
    /// `disableGC`: GC is not to be called.
    pub disable_gc: bool,
    /// Whether it has `plugins`; else it is the configuration of a single plugin.
    pub is_list: bool,
    /// `plugins`, each as it was written; at least one, and each has a `type`.
    pub plugins: Vec<Map<String, Value>>,
    /// The bytes as they came.
    pub raw: Vec<u8>,
}

#[derive(Deserialize, Default)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
struct Head {
    /// The version of the specification that plugins are called with. Without it, 0.1.0.
    #[cfg_attr(test, schemars(schema_with = "config::schema::version"))]
    cni_version: String,
    /// Versions that the list may be used with, too: a runtime takes the newest that it knows.
    cni_versions: Vec<String>,
    /// CHECK is not called. Default: false.
    disable_check: Flag,
    /// GC is not called. Default: false.
    #[serde(rename = "disableGC")]
    disable_gc: Flag,
    /// Only the plugins of `plugins` are run, none from files in a folder of the network's name.
    /// podnet never runs others.
    #[serde(rename = "loadOnlyInlinedPlugins")]
    _load_only_inlined_plugins: bool,
}

/// What a runtime itself relies on in a plugin's configuration.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Read {
    #[serde(rename = "capabilities")]
    _capabilities: BTreeMap<String, bool>,
}

/// Runtimes take a text for a flag as well.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
enum Flag {
    Bool(bool),
    Text(String),
}

impl Default for Flag {
    fn default() -> Self {
        Flag::Bool(false)
    }
}

impl Flag {
    fn is_set(&self) -> bool {
        match self {
            Flag::Bool(flag) => *flag,
            Flag::Text(text) => text.eq_ignore_ascii_case("true"),
        }
    }
}

impl NetworkList {
    /// Reads a list, or the configuration of a single plugin as a list of one.
    ///
    /// # Errors
    /// Code 6 for what is not JSON or of the wrong type, 7 for a missing name, type or plugin,
    /// 1 where no version is one that we know.
    pub fn parse(raw: Vec<u8>) -> Result<NetworkList, Error> {
        let value = Config::decode(&raw)?;
        let name = config::network_name(&value)?;
        let head: Head = json::read(&value).map_err(undecodable)?;
        let is_list = json::get(&value, "plugins").is_some();
        let plugins = match json::get(&value, "plugins") {
            Some(Value::Array(plugins)) => plugins.clone(),
            Some(other) => return Err(undecodable(format!("\"plugins\" is no list: {other}"))),
            None => vec![value],
        };
        let plugins = plugins
            .into_iter()
            .map(into_plugin)
            .collect::<Result<Vec<_>, _>>()?;
        if plugins.is_empty() {
            return Err(Error::config("no plugins in list").details("the key is \"plugins\""));
        }
        Ok(NetworkList {
            name,
            cni_version: negotiate(&head)?,
            disable_check: head.disable_check.is_set(),
            disable_gc: head.disable_gc.is_set(),
            is_list,
            plugins,
            raw,
        })
    }

    /// Reads a file that was found in a folder.
    ///
    /// # Errors
    /// Code 5 where it cannot be read or is no regular file, else as [`NetworkList::parse`].
    pub fn from_regular_file(file: &Path) -> Result<NetworkList, Error> {
        Self::of_file(file, read_regular(file))
    }

    /// Reads what was read of a file, which errors name.
    ///
    /// # Errors
    /// Code 5 where it could not be read, else as [`NetworkList::parse`].
    pub fn of_file(file: &Path, raw: io::Result<Vec<u8>>) -> Result<NetworkList, Error> {
        let raw = raw.map_err(|error| unreadable(file, &error))?;
        Self::parse(raw).map_err(|error| Error {
            msg: format!("{}: {}", file.display(), error.msg),
            ..error
        })
    }

    /// The first network called `name` among the files of `folder`: those ending in `.conflist`
    /// before those in `.conf` and `.json`, each in the order of their names. Files that cannot
    /// be read do not hide it.
    ///
    /// # Errors
    /// Code 7 where there is none, with what was wrong with other files; 5 where the folder
    /// cannot be read.
    pub fn find(folder: &Path, name: &str) -> Result<NetworkList, Error> {
        let files = configuration_files(folder)?;
        if files.is_empty() {
            let folder = folder.display();
            return Err(Error::config(format!(
                "no net configurations found in {folder}"
            )));
        }
        let mut bad = Vec::new();
        for file in files {
            match Self::from_regular_file(&file) {
                Ok(list) if list.name == name => return Ok(list),
                Ok(_) => {}
                Err(error) => bad.push(error.to_string()),
            }
        }
        let folder = folder.display();
        let msg = format!("no net configuration with name {name:?} in {folder}");
        Err(Error::config(msg).details(bad.join("; ")))
    }

    /// The files of a folder that are configurations by their names, in the order in which
    /// [`NetworkList::find`] looks at them; none where there is no such folder.
    ///
    /// # Errors
    /// Code 5 where the folder cannot be read.
    pub fn files(folder: &Path) -> Result<Vec<PathBuf>, Error> {
        configuration_files(folder)
    }

    /// Why a runtime does not take this of a file of that name, where it does not: it expects a list of
    /// `*.conflist`, and a single plugin of `*.conf` and `*.json`.
    pub fn misnamed(&self, file: &Path) -> Option<&'static str> {
        match (self.is_list, rank(file)? == 0) {
            (true, false) => {
                Some("it has \"plugins\", and runtimes read that of files named *.conflist alone")
            }
            (false, true) => {
                Some("it has no \"plugins\", which runtimes want in files named *.conflist")
            }
            _ => None,
        }
    }

    /// The types of the plugins and of their IPAM plugins, each once, in the order of ADD.
    pub fn kinds(&self) -> Vec<&str> {
        let mut kinds = Vec::new();
        for plugin in &self.plugins {
            let ipam = json::get_in(plugin, "ipam").and_then(|ipam| json::get(ipam, "type"));
            let ipam = ipam.and_then(Value::as_str).unwrap_or("");
            for kind in [input::kind(plugin), ipam] {
                if !kind.is_empty() && !kinds.contains(&kind) {
                    kinds.push(kind);
                }
            }
        }
        kinds
    }
}

/// What a plugin's configuration says for the keys of `T`, found as plugins find them. What cannot be
/// read counts as absent.
pub fn keys_of<T: DeserializeOwned + Default>(plugin: &Map<String, Value>) -> T {
    json::read_tolerant(&Value::Object(plugin.clone()))
}

/// Reads a regular file, and nothing that may keep its reader for ever, or take all memory: a FIFO, a device,
/// a file of more bytes than any runtime writes.
///
/// # Errors
/// `InvalidInput` for what is no regular file, `FileTooLarge`; else the kernel's.
pub fn read_regular(file: &Path) -> io::Result<Vec<u8>> {
    if !file.metadata()?.is_file() {
        let kind = io::ErrorKind::InvalidInput;
        return Err(io::Error::new(kind, "it is no regular file"));
    }
    let mut bytes = Vec::new();
    let mut most = File::open(file)?.take(MOST + 1);
    if most.read_to_end(&mut bytes)? as u64 > MOST {
        let said = format!("it has more than {} MiB", MOST >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, said));
    }
    Ok(bytes)
}

fn undecodable(reason: impl std::fmt::Display) -> Error {
    Error::new(
        code::DECODING_FAILURE,
        format!("error parsing configuration list: {reason}"),
    )
}

fn unreadable(path: &Path, error: &io::Error) -> Error {
    let path = path.display();
    Error::new(code::IO_FAILURE, format!("cannot read {path}: {error}"))
}

fn into_plugin(value: Value) -> Result<Map<String, Value>, Error> {
    let read: Result<Read, _> = json::read(&value);
    let Value::Object(plugin) = value else {
        return Err(undecodable(format!("a plugin is no object: {value}")));
    };
    if input::kind(&plugin).is_empty() {
        return Err(Error::config("error parsing configuration: missing 'type'"));
    }
    read.map_err(undecodable)?;
    Ok(plugin)
}

fn negotiate(head: &Head) -> Result<Version, Error> {
    let asked = std::iter::once(&head.cni_version).chain(&head.cni_versions);
    let asked: Vec<_> = asked.filter(|text| !text.is_empty()).collect();
    if asked.is_empty() {
        return Ok(Version::V0_1_0);
    }
    let known = asked.iter().filter_map(|text| Version::parse(text));
    known.max().ok_or_else(|| {
        let known: Vec<_> = Version::ALL.iter().map(|v| v.as_str()).collect();
        Error::new(code::INCOMPATIBLE_VERSION, "incompatible CNI versions")
            .details(format!("config is {asked:?}, known are {known:?}"))
    })
}

/// The files of the folder that are configurations by their names, in the order of the search.
fn configuration_files(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(|error| unreadable(folder, &error))?,
    };
    let mut files: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter_map(|path| Some((rank(&path)?, path)))
        .filter(|(_, path)| !path.is_dir())
        .collect();
    files.sort();
    Ok(files.into_iter().map(|(_, path)| path).collect())
}

fn rank(path: &Path) -> Option<u8> {
    match path.extension()?.to_str()? {
        "conflist" => Some(0),
        "conf" | "json" => Some(1),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
