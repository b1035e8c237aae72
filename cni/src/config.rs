//! The configuration on standard input.

#[cfg(test)]
pub(crate) mod schema;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::env::is_identifier;
use crate::json::{self, Mismatch};
use crate::log;
use crate::result::Dns;
use crate::{AddResult, Command, Error, Version, code, version};

/// One plugin's configuration, with the keys that every plugin has already read.
#[derive(Debug, Clone)]
pub struct Config {
    /// `cniVersion`; missing means 0.1.0.
    pub cni_version: Version,
    /// `name`: the network.
    pub name: String,
    /// `ipam.type`; empty where no IPAM plugin is asked for, or where it cannot be read.
    pub ipam_type: String,
    /// The bytes as they came, for a delegate.
    pub raw: Vec<u8>,
    value: Value,
}

/// The keys whose types every plugin relies on.
#[derive(Deserialize, Default)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
struct Common {
    /// Who chooses the pod's addresses, for the plugin that makes its interface.
    ipam: Ipam,
    /// Resolver settings, for the plugin that makes the pod's interface.
    #[serde(rename = "dns")]
    _dns: Dns,
    /// A file to which each call appends a line: an absolute path, or empty for none.
    /// `CNI_LITE_LOG` in the environment wins over it.
    #[cfg_attr(test, schemars(regex(pattern = "^$|^/")))]
    log_file: String,
}

/// `ipam`, whose other keys are the IPAM plugin's.
#[derive(Deserialize, Default)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
struct Ipam {
    /// The IPAM plugin: the name of its file, without `/`. Empty for none.
    #[cfg_attr(test, schemars(extend("examples" = ["host-local", "host-local-lite"])))]
    r#type: String,
}

#[derive(Deserialize, Default)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub(crate) struct Name {
    /// The network: a letter or digit, then letters, digits, `_`, `.` and `-`. It is part of every
    /// name that the plugins make.
    #[cfg_attr(test, schemars(regex(pattern = "^[A-Za-z0-9][A-Za-z0-9_.-]*$")))]
    name: String,
}

#[derive(Deserialize, Default)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
struct CniVersion {
    /// The version of the specification: the shape of results, and which verbs there are. CHECK
    /// is one from 0.4.0 on, GC and STATUS from 1.1.0 on. Without it, 0.1.0.
    #[cfg_attr(test, schemars(schema_with = "schema::version"))]
    cni_version: String,
}

impl Config {
    /// Reads the common keys, accepting every version.
    ///
    /// # Errors
    /// Code 6 for what is not JSON, 7 for a missing or invalid name, 1 for an unknown version.
    pub fn parse(raw: Vec<u8>) -> Result<Config, Error> {
        let value = Self::decode(&raw)?;
        let name = network_name(&value)?;
        Self::new(raw, value, name, Command::Add, Version::ALL)
    }

    /// The document, whatever it says.
    ///
    /// # Errors
    /// Code 6 for what is not JSON.
    pub(crate) fn decode(raw: &[u8]) -> Result<Value, Error> {
        json::parse(raw).map_err(|error| {
            undecodable(if error.is_eof() {
                "unexpected end of JSON input".to_owned()
            } else {
                error.to_string()
            })
        })
    }

    /// Reads what is left of the common keys, for a command of a plugin that speaks `supported`.
    ///
    /// # Errors
    /// Code 1 for a version that the plugin does not speak or that does not know the command.
    pub(crate) fn new(
        raw: Vec<u8>,
        value: Value,
        name: String,
        command: Command,
        supported: &[Version],
    ) -> Result<Config, Error> {
        let text = version_text(&value)?;
        let cni_version = version::accept(&text, command, supported)?;
        let common: Common = json::read_tolerant(&value);
        Ok(Config {
            cni_version,
            name,
            ipam_type: common.ipam.r#type,
            raw,
            value,
        })
    }

    /// That the common keys are right, which [`Config::parse`] leaves open so that DEL can go on
    /// without them.
    ///
    /// # Errors
    /// Code 6 for a wrong type, 7 for an invalid value.
    pub(crate) fn validate_common(&self) -> Result<(), Error> {
        let Common { log_file, .. } = self.read()?;
        if !log_file.is_empty() && !log_file.starts_with('/') {
            let msg = format!("{}: {log_file:?} must be an absolute path", log::KEY);
            return Err(Error::config(msg));
        }
        Ok(())
    }

    /// The plugin's own keys. Keys match without regard to case, the last of a repeated one wins,
    /// `null` counts as absent, unknown keys are ignored: at every depth.
    ///
    /// # Errors
    /// Code 6, naming the key's path, its value and what was expected.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Error> {
        json::read(&self.value).map_err(|mismatch| {
            Error::new(
                code::DECODING_FAILURE,
                format!("failed to load netconf: {mismatch}"),
            )
        })
    }

    /// As [`Config::read`], but a key with a value of the wrong type counts as absent: for DEL,
    /// which must clean whatever the configuration has become.
    pub fn read_tolerant<T: DeserializeOwned + Default>(&self) -> T {
        json::read_tolerant(&self.value)
    }

    /// `prevResult`; `None` where there is none.
    ///
    /// # Errors
    /// Code 6 where it is not a result of the configuration's family of versions.
    pub fn prev_result(&self) -> Result<Option<AddResult>, Error> {
        let Some(value) = json::get(&self.value, "prevResult") else {
            return Ok(None);
        };
        let wrap = |error: Error| Error {
            msg: format!("could not parse prevResult: {}", error.msg),
            ..error
        };
        AddResult::from_json_of_family(value, self.cni_version)
            .map(Some)
            .map_err(wrap)
    }

    /// As [`Config::prev_result`], but one that cannot be read counts as absent: for DEL.
    pub fn prev_result_tolerant(&self) -> Option<AddResult> {
        self.prev_result().ok().flatten()
    }

    /// The whole configuration as JSON, keys as they were written.
    pub fn value(&self) -> &Value {
        &self.value
    }
}

/// The version that a document asks for, where it is one that we know.
pub(crate) fn known_version(value: &Value) -> Option<Version> {
    version_text(value)
        .ok()
        .and_then(|text| Version::parse(&text))
}

fn undecodable(reason: impl std::fmt::Display) -> Error {
    Error::new(
        code::DECODING_FAILURE,
        format!("error unmarshall network config: {reason}"),
    )
}

/// The network's name, validated.
///
/// # Errors
/// Code 7 where it is missing or invalid, 6 where it is no text.
pub(crate) fn network_name(value: &Value) -> Result<String, Error> {
    let Name { name } = json::read(value).map_err(undecodable)?;
    if name.is_empty() {
        return Err(Error::config("missing network name").details("the key is \"name\""));
    }
    if !is_identifier(&name) {
        return Err(Error::config("invalid characters found in network name").details(name));
    }
    Ok(name)
}

fn version_text(value: &Value) -> Result<String, Error> {
    let decode = |mismatch: Mismatch| {
        Error::new(
            code::DECODING_FAILURE,
            format!("decoding version from network config: {mismatch}"),
        )
    };
    let CniVersion { cni_version } = json::read(value).map_err(decode)?;
    Ok(if cni_version.is_empty() {
        Version::V0_1_0.to_string()
    } else {
        cni_version
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, Error> {
        Config::parse(text.into())
    }

    #[test]
    fn common_keys() {
        let config = parse(
            r#"{"CNIVERSION": "1.0.0", "Name": "n.1_a-b", "IPAM": {"Type": "host-local"}, "x": 1}"#,
        )
        .unwrap();
        assert_eq!(config.cni_version, Version::V1_0_0);
        assert_eq!(config.name, "n.1_a-b");
        assert_eq!(config.ipam_type, "host-local");
        assert_eq!(config.value()["x"], 1);
    }

    #[test]
    fn a_missing_version_is_0_1_0() {
        for text in [
            r#"{"name": "n"}"#,
            r#"{"name": "n", "cniVersion": ""}"#,
            r#"{"name": "n", "cniVersion": null, "ipam": null}"#,
        ] {
            let config = parse(text).unwrap();
            assert_eq!(
                (config.cni_version, config.ipam_type),
                (Version::V0_1_0, String::new())
            );
        }
    }

    #[test]
    fn refusals() {
        let missing = "missing network name";
        let invalid = "invalid characters found in network name";
        for (text, code, msg) in [
            (
                "",
                6,
                "error unmarshall network config: unexpected end of JSON input",
            ),
            (
                "{\"name\":",
                6,
                "error unmarshall network config: unexpected end of JSON input",
            ),
            (
                "x",
                6,
                "error unmarshall network config: expected value at line 1 column 1",
            ),
            (
                "[]",
                6,
                "error unmarshall network config: invalid type: sequence, expected an object",
            ),
            (
                r#"{"name": 5}"#,
                6,
                "error unmarshall network config: cannot read \"name\": \
                 invalid type: integer `5`, expected a string",
            ),
            ("{}", 7, missing),
            ("null", 7, missing),
            (r#"{"name": "", "cniVersion": "9.9.9"}"#, 7, missing),
            (r#"{"name": "a/b"}"#, 7, invalid),
            (r#"{"name": ".."}"#, 7, invalid),
            (r#"{"name": "a b"}"#, 7, invalid),
            (
                r#"{"name": "n", "cniVersion": 1}"#,
                6,
                "decoding version from network config: cannot read \"cniVersion\": \
                 invalid type: integer `1`, expected a string",
            ),
            (
                r#"{"name": "n", "cniVersion": "9.9.9"}"#,
                1,
                "incompatible CNI versions",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!((error.code, error.msg.as_str()), (code, msg), "{text}");
        }
    }

    #[test]
    fn common_types_are_left_to_the_verbs() {
        let config = parse(r#"{"name": "n", "ipam": 5, "dns": []}"#).unwrap();
        assert_eq!(config.ipam_type, "");
        let error = config.validate_common().unwrap_err();
        assert_eq!(
            (error.code, error.msg.as_str()),
            (
                6,
                "failed to load netconf: cannot read \"ipam\": \
                 invalid type: integer `5`, expected an object"
            )
        );
    }

    #[test]
    fn a_log_is_an_absolute_path() {
        let check = |file: &str| {
            let config = parse(&format!(r#"{{"name": "n", "LOGFILE": {file}}}"#));
            config
                .unwrap()
                .validate_common()
                .map_err(|e| (e.code, e.msg))
        };
        for file in [r#""/var/log/cni""#, r#""""#, "null"] {
            assert_eq!(check(file), Ok(()), "{file}");
        }
        let relative = "logFile: \"log/cni\" must be an absolute path".to_owned();
        assert_eq!(check(r#""log/cni""#), Err((7, relative)));
        assert_eq!(check("5").unwrap_err().0, 6);
    }

    #[test]
    fn prev_result_is_of_the_same_family() {
        let config = |version: &str, inner: &str| {
            parse(&format!(
                r#"{{"name": "n", "cniVersion": "{version}", "prevRESULT": {{{inner}
                    "ips": [{{"address": "10.1.0.2/24"}}]}}}}"#
            ))
            .unwrap()
        };
        for (version, inner) in [
            ("0.4.0", ""),
            ("0.4.0", r#""cniVersion": "0.3.1","#),
            ("1.0.0", r#""CNIVersion": "1.1.0","#),
        ] {
            let result = config(version, inner).prev_result().unwrap().unwrap();
            assert_eq!(result.ips.len(), 1);
        }
        let error = config("0.4.0", r#""cniVersion": "1.0.0","#)
            .prev_result()
            .unwrap_err();
        assert_eq!(
            (error.code, error.msg.as_str()),
            (
                6,
                "could not parse prevResult: result type supports [0.3.0 0.3.1 0.4.0] \
                 but unmarshalled CNIVersion is \"1.0.0\""
            )
        );
        let none = parse(r#"{"name": "n", "prevResult": null}"#).unwrap();
        assert_eq!(none.prev_result(), Ok(None));
        let bad = parse(r#"{"name": "n", "cniVersion": "1.0.0", "prevResult": []}"#).unwrap();
        assert_eq!(bad.prev_result().unwrap_err().code, 6);
    }
}
