//! Versions of the specification.

use std::fmt;

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
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
