//! One fault at one point, and its name.

use std::fmt;

use crate::{Fault, Kind, Point, Setting};

/// The call that is failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// Of a pod that is new.
    Add,
    /// Of a pod that is whole.
    Del,
    /// Where that pod is none of the valid ones.
    Gc,
}

/// What comes after the fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum After {
    /// DEL of the chain.
    Del,
    /// The same without the result of the ADD, as where the runtime has lost its cache.
    Lost,
    /// The same when the pod's namespace is gone.
    Gone,
    /// GC of the chain instead of DEL.
    Gc,
    /// ADD of the same attachment, which works or is refused, and then DEL.
    Again,
}

impl Verb {
    /// All of them.
    pub const ALL: [Verb; 3] = [Verb::Add, Verb::Del, Verb::Gc];

    /// What may come after a fault of that kind in it.
    pub fn afters(self, kind: Kind) -> &'static [After] {
        match (kind, self) {
            (Kind::Kill, Verb::Add | Verb::Del) => &[
                After::Del,
                After::Lost,
                After::Gone,
                After::Gc,
                After::Again,
            ],
            (Kind::Kill, Verb::Gc) => &[After::Del, After::Lost, After::Gone, After::Gc],
            (Kind::Error | Kind::Netlink, Verb::Gc) => &[After::Gc],
            (Kind::Error | Kind::Netlink, _) => &[After::Del],
        }
    }
}

/// One fault at one point.
#[derive(Debug, Clone)]
pub struct Case {
    /// The node.
    pub setting: Setting,
    /// The call.
    pub verb: Verb,
    /// The plugin that is called.
    pub plugin: String,
    /// What is done.
    pub fault: Fault,
    /// What comes then.
    pub after: After,
    /// Where it is done.
    pub point: Point,
}

/// Which cases are meant: the parts of their names, the first ones; `*` stands for any, and at the end of
/// one for any that begins so.
#[derive(Debug, Clone, Default)]
pub struct Pattern(Vec<String>);

impl Pattern {
    /// Whether a name that begins with these parts can be meant.
    pub fn allows(&self, parts: &[&dyn fmt::Display]) -> bool {
        let same = |(pattern, part): (&String, &&dyn fmt::Display)| {
            let part = part.to_string();
            let begin = pattern.strip_suffix('*');
            begin.map_or(part == *pattern, |begin| part.starts_with(begin))
        };
        self.0.iter().zip(parts).all(same)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("/"))
    }
}

impl std::str::FromStr for Pattern {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Pattern, Self::Err> {
        Ok(Pattern(text.split('/').map(str::to_owned).collect()))
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case {
            setting,
            verb,
            plugin,
            fault,
            after,
            point,
        } = self;
        write!(f, "{setting}/{verb}/{plugin}/{fault}/{after}/{point}")
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verb::Add => "ADD",
            Verb::Del => "DEL",
            Verb::Gc => "GC",
        })
    }
}

impl fmt::Display for After {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            After::Del => "del",
            After::Lost => "lost",
            After::Gone => "gone",
            After::Gc => "gc",
            After::Again => "again",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(pattern: &str, parts: &[&str]) -> bool {
        let pattern: Pattern = pattern.parse().unwrap();
        let parts: Vec<&dyn fmt::Display> = parts.iter().map(|part| part as _).collect();
        pattern.allows(&parts)
    }

    #[test]
    fn a_pattern_names_the_first_parts() {
        assert!(allows("nft-dual", &["nft-dual", "ADD", "bridge"]));
        assert!(allows("nft-dual/ADD/bridge/kill", &["nft-dual"]));
        assert!(allows("*/ADD", &["nft-dual", "ADD", "bridge"]));
        assert!(!allows("*/ADD", &["nft-dual", "DEL"]));
        assert!(!allows(
            "nft-dual/*/portmap",
            &["nft-dual", "ADD", "bridge"]
        ));
    }
}
