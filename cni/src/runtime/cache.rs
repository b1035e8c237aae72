//! What ADD was given and what came back, kept for CHECK and DEL in the file format that the
//! field's runtimes share (`cniCacheV1`), so that either can take over from the other.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{CachedAttachment, NetworkList, RuntimeConf, read_regular};
use crate::{AddResult, Attachment, Error, Version, code, json};

const KIND: &str = "cniCacheV1";

/// How the name ends of a file that is being written.
const UNFINISHED: &str = "new";

/// What is known of an attachment; nothing where there is no file or it cannot be read.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Cached {
    pub args: Vec<(String, String)>,
    pub capability_args: Map<String, Value>,
    /// In the list's version.
    pub result: Option<Value>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    kind: String,
    container_id: String,
    /// The list's bytes in Base64.
    config: String,
    if_name: String,
    network_name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    netns: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    cni_args: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    capability_args: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Value>,
}

fn path(cache: &Path, list: &NetworkList, conf: &RuntimeConf) -> PathBuf {
    file(cache, &list.name, &conf.container_id, &conf.ifname)
}

/// Where the attachment's result is.
pub(super) fn file(cache: &Path, network: &str, container_id: &str, ifname: &str) -> PathBuf {
    let name = format!("{network}-{container_id}-{ifname}");
    cache.join("results").join(name)
}

/// Writes the file whole or not at all.
pub(super) fn store(
    cache: &Path,
    list: &NetworkList,
    conf: &RuntimeConf,
    result: Value,
) -> Result<(), Error> {
    let netns = conf.netns.clone().unwrap_or_default();
    let file = File {
        kind: KIND.to_owned(),
        container_id: conf.container_id.clone(),
        config: BASE64_STANDARD.encode(&list.raw),
        if_name: conf.ifname.clone(),
        network_name: list.name.clone(),
        netns: netns.to_string_lossy().into_owned(),
        cni_args: conf.args.clone(),
        capability_args: conf.capability_args.clone(),
        result: Some(result),
    };
    let path = path(cache, list, conf);
    serde_json::to_vec(&file)
        .map_err(io::Error::from)
        .and_then(|bytes| write_whole(&path, &bytes))
        .map_err(|error| {
            let (name, path) = (&list.name, path.display());
            let msg = format!("failed to set network {name:?} cached result: {path}: {error}");
            Error::new(code::IO_FAILURE, msg)
        })
}

fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
    }
    // Attachments may be made at the same moment, but not the same one twice.
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".");
    unfinished.push(UNFINISHED);
    let written = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&unfinished)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| fs::rename(&unfinished, path));
    if written.is_err() {
        // The first error says more than one of clearing up after it.
        let _ = fs::remove_file(&unfinished);
    }
    written
}

pub(super) fn load(cache: &Path, list: &NetworkList, conf: &RuntimeConf) -> Cached {
    let read = || -> Option<Cached> {
        let value = json::parse(&fs::read(path(cache, list, conf)).ok()?).ok()?;
        let file: File = json::read(&value).ok()?;
        if file.kind != KIND {
            return None;
        }
        Some(Cached {
            args: file.cni_args,
            capability_args: file.capability_args,
            result: file.result.and_then(|result| in_version_of(list, &result)),
        })
    };
    read().unwrap_or_default()
}

/// Each attachment in the cache, or why its file cannot be read, in the order of the files' names.
///
/// # Errors
/// Code 5 where the folder cannot be read; that there is none is no error.
pub(super) fn all(cache: &Path) -> Result<Vec<Result<CachedAttachment, Error>>, Error> {
    let folder = cache.join("results");
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| unreadable(&folder, &error))?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let file = entry.map_err(|error| unreadable(&folder, &error))?.path();
        // One that an ADD has not finished, or never will.
        if file.extension() != Some(UNFINISHED.as_ref()) {
            files.push(file);
        }
    }
    files.sort();
    Ok(files.iter().map(|file| known(file)).collect())
}

fn known(file: &Path) -> Result<CachedAttachment, Error> {
    let bytes = read_regular(file).map_err(|error| unreadable(file, &error))?;
    let value = json::parse(&bytes).map_err(|error| unreadable(file, &error))?;
    let cached: File = json::read(&value).map_err(|mismatch| unreadable(file, &mismatch))?;
    if cached.kind != KIND {
        return Err(unreadable(file, &format!("it is no {KIND}")));
    }
    let config = BASE64_STANDARD.decode(&cached.config);
    let netns = (!cached.netns.is_empty()).then(|| cached.netns.into());
    Ok(CachedAttachment {
        attachment: Attachment::new(&cached.network_name, &cached.container_id, &cached.if_name),
        netns: netns.or_else(|| sandbox(cached.result.as_ref()?, &cached.if_name)),
        config: config.map_err(|error| unreadable(file, &error))?,
        args: cached.cni_args,
        noted: fs::metadata(file).and_then(|file| file.modified()).ok(),
    })
}

/// The namespace's path as the result tells it: runtimes whose library is older than 1.2 do not write
/// it down.
fn sandbox(result: &Value, ifname: &str) -> Option<PathBuf> {
    let result = AddResult::from_json(result, Version::V1_0_0).ok()?;
    let interfaces = result.interfaces.into_iter();
    interfaces
        .filter(|interface| interface.name == ifname)
        .map(|interface| PathBuf::from(interface.sandbox))
        .find(|sandbox| sandbox.is_absolute())
}

fn unreadable(path: &Path, reason: &dyn std::fmt::Display) -> Error {
    let path = path.display();
    Error::new(code::IO_FAILURE, format!("cannot read {path}: {reason}"))
}

/// The list may have changed its version while the attachment stood.
fn in_version_of(list: &NetworkList, result: &Value) -> Option<Value> {
    let result = AddResult::from_json(result, list.cni_version).ok()?;
    result.to_json(list.cni_version).ok()
}

/// Forgets; a file that cannot be removed is overwritten by the next ADD.
pub(super) fn remove(cache: &Path, list: &NetworkList, conf: &RuntimeConf) {
    let _ = fs::remove_file(path(cache, list, conf));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn list(version: &str) -> NetworkList {
        let text = format!(r#"{{"cniVersion":"{version}","name":"n","type":"a"}}"#);
        NetworkList::parse(text.into()).unwrap()
    }

    fn conf() -> RuntimeConf {
        RuntimeConf {
            container_id: "c".into(),
            netns: Some("/run/netns/p".into()),
            ifname: "eth0".into(),
            args: vec![("IgnoreUnknown".into(), "1".into())],
            capability_args: json!({"mac": "x"}).as_object().cloned().unwrap(),
        }
    }

    #[test]
    fn the_file_is_the_shared_format() {
        let cache = tempfile::tempdir().unwrap();
        let result = json!({"cniVersion": "1.0.0", "ips": [{"address": "10.1.0.2/24"}]});
        store(cache.path(), &list("1.0.0"), &conf(), result).unwrap();
        let file = cache.path().join("results/n-c-eth0");
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(
            text,
            r#"{"kind":"cniCacheV1","containerId":"c","config":"eyJjbmlWZXJzaW9uIjoiMS4wLjAiLCJuYW1lIjoibiIsInR5cGUiOiJhIn0=","ifName":"eth0","networkName":"n","netns":"/run/netns/p","cniArgs":[["IgnoreUnknown","1"]],"capabilityArgs":{"mac":"x"},"result":{"cniVersion":"1.0.0","ips":[{"address":"10.1.0.2/24"}]}}"#
        );
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn what_was_stored_is_loaded_in_the_lists_version() {
        let cache = tempfile::tempdir().unwrap();
        let result = json!({"cniVersion": "1.0.0", "ips": [{"address": "10.1.0.2/24"}]});
        store(cache.path(), &list("1.0.0"), &conf(), result).unwrap();
        let cached = load(cache.path(), &list("0.2.0"), &conf());
        let expected = Cached {
            args: conf().args,
            capability_args: conf().capability_args,
            result: Some(json!({"cniVersion": "0.2.0", "ip4": {"ip": "10.1.0.2/24"}, "dns": {}})),
        };
        assert_eq!(cached, expected);
        remove(cache.path(), &list("1.0.0"), &conf());
        assert_eq!(
            load(cache.path(), &list("1.0.0"), &conf()),
            Cached::default()
        );
    }

    #[test]
    fn a_missing_or_torn_file_is_as_none() {
        let cache = tempfile::tempdir().unwrap();
        fs::create_dir(cache.path().join("results")).unwrap();
        for text in ["", "{", "{}", r#"{"kind": "other"}"#] {
            fs::write(cache.path().join("results/n-c-eth0"), text).unwrap();
            assert_eq!(
                load(cache.path(), &list("1.0.0"), &conf()),
                Cached::default()
            );
        }
    }

    #[test]
    fn all_that_is_known() {
        let cache = tempfile::tempdir().unwrap();
        assert!(all(cache.path()).unwrap().is_empty());
        store(cache.path(), &list("1.0.0"), &conf(), json!({})).unwrap();
        let other = RuntimeConf {
            container_id: "a".into(),
            netns: None,
            ..conf()
        };
        store(cache.path(), &list("1.1.0"), &other, json!({})).unwrap();
        let results = cache.path().join("results");
        fs::write(results.join("n-b-eth0"), "{").unwrap();
        fs::write(results.join("n-d-eth0.new"), "{").unwrap();
        let found = all(cache.path()).unwrap();
        let names = ["a", "b", "c"].map(|id| Attachment::new("n", id, "eth0"));
        assert_eq!(found.len(), 3);
        let torn = found[1].as_ref().unwrap_err();
        assert!(torn.msg.contains("results/n-b-eth0: "), "{torn}");
        let first = found[0].as_ref().unwrap();
        assert_eq!((&first.attachment, &first.netns), (&names[0], &None));
        let expected = CachedAttachment {
            attachment: names[2].clone(),
            netns: conf().netns,
            config: list("1.0.0").raw,
            args: conf().args,
            noted: fs::metadata(results.join("n-c-eth0"))
                .unwrap()
                .modified()
                .ok(),
        };
        assert_eq!(found[2], Ok(expected));
    }

    #[test]
    fn a_namespace_that_only_the_result_tells() {
        let interfaces = json!([
            { "name": "eth0" },
            { "name": "eth0", "sandbox": "/proc/7/ns/net" },
            { "name": "eth1", "sandbox": "/run/netns/other" }
        ]);
        let cases = [
            (
                json!({ "cniVersion": "1.0.0", "interfaces": interfaces }),
                Some("/proc/7/ns/net"),
            ),
            (
                json!({ "cniVersion": "0.3.1", "interfaces": interfaces }),
                Some("/proc/7/ns/net"),
            ),
            (json!({ "cniVersion": "1.0.0" }), None),
            (
                json!({ "cniVersion": "1.0.0", "interfaces": [{ "name": "eth0", "sandbox": "vm" }] }),
                None,
            ),
            (
                json!({ "cniVersion": "0.2.0", "ip4": { "ip": "10.1.0.2/24" } }),
                None,
            ),
        ];
        for (result, expected) in cases {
            let cache = tempfile::tempdir().unwrap();
            let untold = RuntimeConf {
                netns: None,
                ..conf()
            };
            store(cache.path(), &list("1.0.0"), &untold, result.clone()).unwrap();
            let found = all(cache.path()).unwrap().remove(0).unwrap();
            assert_eq!(found.netns, expected.map(PathBuf::from), "{result}");
            // What the runtime wrote itself counts first.
            store(cache.path(), &list("1.0.0"), &conf(), result).unwrap();
            let found = all(cache.path()).unwrap().remove(0).unwrap();
            assert_eq!(found.netns, conf().netns);
        }
    }

    #[test]
    fn a_cache_that_cannot_be_written() {
        let cache = tempfile::NamedTempFile::new().unwrap();
        let error = store(cache.path(), &list("1.0.0"), &conf(), json!({})).unwrap_err();
        assert_eq!(error.code, 5);
        assert!(
            error
                .msg
                .starts_with("failed to set network \"n\" cached result: ")
        );
    }
}
