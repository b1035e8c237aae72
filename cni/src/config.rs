//! The configuration on standard input.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{AddResult, Error, Version};

/// One plugin's configuration, with the keys that every plugin has already read.
#[derive(Debug, Clone)]
pub struct Config {
    /// `cniVersion`; missing means 0.1.0.
    pub cni_version: Version,
    /// `name`: the network.
    pub name: String,
    /// `ipam.type`; empty where no IPAM plugin is asked for.
    pub ipam_type: String,
    /// The bytes as they came, for a delegate.
    pub raw: Vec<u8>,
}

impl Config {
    /// Reads the common keys.
    ///
    /// # Errors
    /// Code 6 for what is not JSON, 7 for a missing or invalid name, 1 for an unknown version.
    pub fn parse(raw: Vec<u8>) -> Result<Config, Error> {
        let _ = raw;
        todo!()
    }

    /// The plugin's own keys. Keys match without regard to case, the last of a repeated one wins,
    /// `null` counts as absent, unknown keys are ignored: at every depth.
    ///
    /// # Errors
    /// Code 6, naming the key's path, its value and what was expected.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Error> {
        todo!()
    }

    /// As [`Config::read`], but a key with a value of the wrong type counts as absent: for DEL,
    /// which must clean whatever the configuration has become.
    pub fn read_tolerant<T: DeserializeOwned + Default>(&self) -> T {
        todo!()
    }

    /// `prevResult`; `None` where there is none.
    ///
    /// # Errors
    /// Code 6 where it is not a result of the configuration's family of versions.
    pub fn prev_result(&self) -> Result<Option<AddResult>, Error> {
        todo!()
    }

    /// The whole configuration as JSON, keys as they were written.
    pub fn value(&self) -> &Value {
        todo!()
    }
}
