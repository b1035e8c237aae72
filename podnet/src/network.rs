//! Which network, and what its plugins speak.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use cni::runtime::{NetworkList, Runtime};
use cni::{Error, Version};
use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::reading;

/// Which network.
#[derive(Debug, Args)]
pub struct Network {
    /// Name of the network, as its configuration says
    #[arg(value_name = "NETWORK")]
    name: String,
    #[command(flatten)]
    places: Places,
}

/// Where configurations, plugins and results are.
#[derive(Debug, Args)]
pub struct Places {
    /// The file with the network's configuration, instead of a search in a folder
    #[arg(long, value_name = "FILE")]
    conf: Option<PathBuf>,
    #[command(flatten)]
    folders: Folders,
}

/// The folders of a node.
#[derive(Debug, Args)]
pub struct Folders {
    /// The folder with the configurations of networks
    #[arg(long, value_name = "DIR", env = "NETCONFPATH", default_value = CONF_DIR)]
    conf_dir: PathBuf,
    /// The folders with the plugins, separated by `:`
    #[arg(long, value_name = "DIRS", env = "CNI_PATH", default_value = PLUGIN_DIR)]
    cni_path: PathBuf,
    /// The folder of the cache, as other runtimes keep it
    #[arg(long, value_name = "DIR", default_value = cni::runtime::DEFAULT_CACHE)]
    cache_dir: PathBuf,
}

const CONF_DIR: &str = node::USUAL_CONF;
const PLUGIN_DIR: &str = node::USUAL_PLUGINS;

impl Network {
    /// The network's list, and the runtime to call it with.
    ///
    /// # Errors
    /// There is no such network, or its configuration cannot be read.
    pub fn open(&self) -> Result<(Runtime, NetworkList), Failure> {
        self.places.open(&self.name)
    }
}

impl Folders {
    /// Where a node is read.
    pub fn of_node(&self) -> node::Places {
        node::Places {
            conf: or_default(&self.conf_dir, CONF_DIR).to_owned(),
            runtime: self.runtime(),
        }
    }

    /// The options that name the same folders to another podnet.
    pub fn options(&self) -> Vec<OsString> {
        let all = [
            ("--conf-dir", &self.conf_dir),
            ("--cni-path", &self.cni_path),
            ("--cache-dir", &self.cache_dir),
        ];
        let all = all.into_iter();
        all.flat_map(|(option, folder)| [option.into(), folder.into()])
            .collect()
    }

    fn runtime(&self) -> Runtime {
        let path = std::env::split_paths(or_default(&self.cni_path, PLUGIN_DIR))
            .filter(|folder| !folder.as_os_str().is_empty());
        Runtime::new(path.collect(), self.cache_dir.clone())
    }
}

impl Places {
    /// A runtime that works there.
    pub fn runtime(&self) -> Runtime {
        self.folders.runtime()
    }

    /// Refuses another cache than the usual one that is not there: nothing would be known of those
    /// who live.
    ///
    /// # Errors
    /// The folder's name, and what is wrong.
    pub fn expect_cache(&self) -> Result<(), String> {
        let folder = &self.folders.cache_dir;
        if folder.as_os_str() == cni::runtime::DEFAULT_CACHE || folder.is_dir() {
            return Ok(());
        }
        Err(format!(
            "--cache-dir {:?}: expected a folder that is there",
            folder.display().to_string()
        ))
    }

    /// The lists of all networks in the folder of configurations, of two with one name the first; and
    /// why others cannot be read.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn lists(&self) -> Result<(Vec<NetworkList>, Vec<Error>), Failure> {
        let folder = or_default(&self.folders.conf_dir, CONF_DIR);
        let (mut lists, mut unread) = (Vec::<NetworkList>::new(), Vec::new());
        for file in NetworkList::files(folder).map_err(Failure::usage)? {
            match NetworkList::from_regular_file(&file) {
                Ok(list) if lists.iter().any(|other| other.name == list.name) => {}
                Ok(list) => lists.push(list),
                Err(error) => unread.push(error),
            }
        }
        Ok((lists, unread))
    }

    /// The list of the network of that name, and the runtime to call it with.
    ///
    /// # Errors
    /// There is no such network, or its configuration cannot be read.
    pub fn open(&self, network: &str) -> Result<(Runtime, NetworkList), Failure> {
        let list = match &self.conf {
            Some(file) => NetworkList::of_file(file, reading::bytes(file))
                .and_then(|list| named(list, file, network)),
            None => NetworkList::find(or_default(&self.folders.conf_dir, CONF_DIR), network),
        };
        Ok((self.runtime(), list.map_err(Failure::usage)?))
    }
}

/// Asks each plugin of the network whether it can serve ADD.
///
/// # Errors
/// As [`Network::open`]; the network's version has no STATUS; the first plugin's own.
pub fn status(network: &Network) -> Result<(), Failure> {
    let (runtime, list) = network.open()?;
    if list.cni_version < Version::V1_1_0 {
        let (name, version) = (&list.name, list.cni_version);
        let reason =
            format!("network {name:?} is of cniVersion {version}, and 1.1.0 brought STATUS");
        return Err(Failure::Usage(reason));
    }
    Ok(runtime.status(&list)?)
}

/// A variable that is set to nothing counts as not set.
fn or_default<'a>(path: &'a Path, default: &'a str) -> &'a Path {
    if path.as_os_str().is_empty() {
        Path::new(default)
    } else {
        path
    }
}

/// Names are part of every object on the node: a typing error must not make a second set.
fn named(list: NetworkList, file: &Path, name: &str) -> Result<NetworkList, Error> {
    if list.name == name {
        return Ok(list);
    }
    let file = file.display();
    Err(Error::config(format!(
        "{file}: the network's name is {:?}, not {:?}",
        list.name, name
    )))
}

/// Each plugin's type with the versions that it speaks.
pub type Versions = Vec<(String, Result<Vec<String>, Error>)>;

/// Asks each plugin of the network, IPAM plugins included, once.
///
/// # Errors
/// As [`Network::open`]; a plugin's own error is its answer.
pub fn versions(network: &Network) -> Result<Versions, Failure> {
    let (runtime, list) = network.open()?;
    let ask = |kind: &str| (kind.to_owned(), runtime.versions(kind));
    Ok(list.kinds().into_iter().map(ask).collect())
}

/// The versions by plugin; `error` in the place of an answer.
pub fn to_json(versions: &Versions) -> Value {
    let answer = |answer: &Result<Vec<String>, Error>| match answer {
        Ok(versions) => json!({ "supportedVersions": versions }),
        Err(error) => json!({ "error": error.to_string() }),
    };
    versions
        .iter()
        .map(|(kind, versions)| (kind.clone(), answer(versions)))
        .collect::<Map<_, _>>()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_as_a_configuration_is_read_as_other_files_are() {
        let folder = tempfile::tempdir().unwrap();
        let places = Places {
            conf: Some(folder.path().to_owned()),
            folders: Folders {
                conf_dir: CONF_DIR.into(),
                cni_path: PLUGIN_DIR.into(),
                cache_dir: cni::runtime::DEFAULT_CACHE.into(),
            },
        };
        let Err(Failure::Usage(said)) = places.open("n") else {
            panic!("a folder is no configuration");
        };
        let expected = format!(
            "cannot read {}: it is no regular file",
            folder.path().display()
        );
        assert_eq!(said, expected);
    }
}
