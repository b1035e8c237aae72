//! Versions of the specification.

use std::fmt;

use crate::{Command, Error, code};

/// A version of the specification that we speak, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// 0.1.0: `ip4` and `ip6` results.
    V0_1_0,
    /// 0.2.0: VERSION.
    V0_2_0,
    /// 0.3.0: interfaces, ips and routes; chaining.
    V0_3_0,
    /// 0.3.1.
    V0_3_1,
    /// 0.4.0: CHECK, `prevResult` on DEL.
    V0_4_0,
    /// 1.0.0: no `version` in `ips`.
    V1_0_0,
    /// 1.1.0: GC, STATUS, more fields of interfaces and routes.
    V1_1_0,
}

impl Version {
    /// Every version, oldest first.
    pub const ALL: &'static [Version] = &[
        Version::V0_1_0,
        Version::V0_2_0,
        Version::V0_3_0,
        Version::V0_3_1,
        Version::V0_4_0,
        Version::V1_0_0,
        Version::V1_1_0,
    ];

    /// The newest version.
    pub const NEWEST: Version = Version::V1_1_0;

    /// As it is written in a configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Version::V0_1_0 => "0.1.0",
            Version::V0_2_0 => "0.2.0",
            Version::V0_3_0 => "0.3.0",
            Version::V0_3_1 => "0.3.1",
            Version::V0_4_0 => "0.4.0",
            Version::V1_0_0 => "1.0.0",
            Version::V1_1_0 => "1.1.0",
        }
    }

    /// The version with exactly this text; `"1.0"` is none.
    pub fn parse(text: &str) -> Option<Version> {
        Self::ALL.iter().copied().find(|v| v.as_str() == text)
    }

    /// The versions whose results have the same shape, this one included.
    pub fn family(self) -> &'static [Version] {
        match self {
            Version::V0_1_0 | Version::V0_2_0 => &[Version::V0_1_0, Version::V0_2_0],
            Version::V0_3_0 | Version::V0_3_1 | Version::V0_4_0 => {
                &[Version::V0_3_0, Version::V0_3_1, Version::V0_4_0]
            }
            Version::V1_0_0 | Version::V1_1_0 => &[Version::V1_0_0, Version::V1_1_0],
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The version in which to serve `command`, for a configuration that says `text`.
///
/// # Errors
/// Code 1 where `text` is none of `supported` or too old for the command, 6 where a command that
/// came later meets a text that is no version.
pub(crate) fn accept(
    text: &str,
    command: Command,
    supported: &[Version],
) -> Result<Version, Error> {
    if let Some(first) = command.since() {
        let asked = triple(text)?;
        let refuse = |who: &str| {
            let msg = format!("{who} version does not allow {command}");
            Err(Error::new(code::INCOMPATIBLE_VERSION, msg).details(listed(text, supported)))
        };
        if asked < triple(first.as_str())? {
            return refuse("config");
        }
        let newest = supported.last().map_or("0.0.0", |v| v.as_str());
        if asked > triple(newest)? {
            return refuse("plugin");
        }
    }
    Version::parse(text)
        .filter(|version| supported.contains(version))
        .ok_or_else(|| {
            Error::new(code::INCOMPATIBLE_VERSION, "incompatible CNI versions")
                .details(listed(text, supported))
        })
}

/// The two sides of a disagreement, as other programs print it.
fn listed(text: &str, supported: &[Version]) -> String {
    let supported: Vec<_> = supported.iter().map(|v| format!("\"{v}\"")).collect();
    format!(
        "config is {text:?}, plugin supports [{}]",
        supported.join(" ")
    )
}

/// Major, minor and micro; missing parts are 0.
fn triple(text: &str) -> Result<[u32; 3], Error> {
    let mut triple = [0; 3];
    let mut parts = text.split('.');
    for (slot, name) in triple.iter_mut().zip(["major", "minor", "micro"]) {
        let Some(part) = parts.next() else { break };
        *slot = part.parse().map_err(|error| {
            let msg = format!("failed to convert {name} version part {part:?}: {error}");
            Error::new(code::DECODING_FAILURE, msg)
        })?;
    }
    if parts.next().is_some() {
        let msg = format!("invalid version {text:?}: too many parts");
        return Err(Error::new(code::DECODING_FAILURE, msg));
    }
    Ok(triple)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_families() {
        for version in Version::ALL {
            assert_eq!(Version::parse(version.as_str()), Some(*version));
            assert!(version.family().contains(version));
        }
        assert_eq!(Version::ALL.last(), Some(&Version::NEWEST));
        for text in ["", "1.0", "1.0.0 ", "01.0.0", "v1.0.0", "9.9.9"] {
            assert_eq!(Version::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn acceptance() {
        use Command::{Add, Check, Del, Gc, Status};
        let from_0_3 = &Version::ALL[2..];
        let incompatible = "incompatible CNI versions";
        type Case<'a> = (
            &'a str,
            Command,
            &'a [Version],
            Result<Version, (u32, &'a str)>,
        );
        let cases: &[Case<'_>] = &[
            ("1.0.0", Add, Version::ALL, Ok(Version::V1_0_0)),
            ("0.1.0", Del, Version::ALL, Ok(Version::V0_1_0)),
            ("0.4.0", Check, Version::ALL, Ok(Version::V0_4_0)),
            ("1.1.0", Gc, Version::ALL, Ok(Version::V1_1_0)),
            ("0.2.0", Add, from_0_3, Err((1, incompatible))),
            ("1.0", Add, Version::ALL, Err((1, incompatible))),
            ("0.9.0", Check, Version::ALL, Err((1, incompatible))),
            ("x.y", Add, Version::ALL, Err((1, incompatible))),
            (
                "0.3.1",
                Check,
                Version::ALL,
                Err((1, "config version does not allow CHECK")),
            ),
            (
                "1.0.0",
                Gc,
                Version::ALL,
                Err((1, "config version does not allow GC")),
            ),
            (
                "1.0.0",
                Status,
                Version::ALL,
                Err((1, "config version does not allow STATUS")),
            ),
            (
                "9.9.9",
                Check,
                Version::ALL,
                Err((1, "plugin version does not allow CHECK")),
            ),
            (
                "1.2.3.4",
                Check,
                Version::ALL,
                Err((6, "invalid version \"1.2.3.4\": too many parts")),
            ),
            (
                "x",
                Status,
                Version::ALL,
                Err((
                    6,
                    "failed to convert major version part \"x\": invalid digit found in string",
                )),
            ),
        ];
        for (text, command, supported, expected) in cases {
            let got = accept(text, *command, supported).map_err(|e| (e.code, e.msg));
            let expected = expected.map_err(|(code, msg)| (code, msg.to_owned()));
            assert_eq!(got, expected, "{text} {command}");
        }
    }

    #[test]
    fn the_details_name_both_sides() {
        let error = accept("9.9.9", Command::Add, &Version::ALL[..2]).unwrap_err();
        assert_eq!(
            error.details,
            r#"config is "9.9.9", plugin supports ["0.1.0" "0.2.0"]"#
        );
    }
}
