//! The environment a plugin is started with (specification, section "Parameters").

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::{Error, Version, code};

/// What the runtime asks for: `CNI_COMMAND`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Make the attachment.
    Add,
    /// Unmake it.
    Del,
    /// Is all as ADD made it?
    Check,
    /// Remove what belongs to no valid attachment.
    Gc,
    /// Can ADD be served?
    Status,
    /// Which versions are spoken?
    Version,
}

impl Command {
    const ALL: [Command; 6] = [
        Command::Add,
        Command::Del,
        Command::Check,
        Command::Gc,
        Command::Status,
        Command::Version,
    ];

    /// As it is written in `CNI_COMMAND`.
    pub fn as_str(self) -> &'static str {
        match self {
            Command::Add => "ADD",
            Command::Del => "DEL",
            Command::Check => "CHECK",
            Command::Gc => "GC",
            Command::Status => "STATUS",
            Command::Version => "VERSION",
        }
    }

    /// The command with exactly this text.
    ///
    /// # Errors
    /// Code 4 where there is none.
    pub fn parse(text: &str) -> Result<Command, Error> {
        Self::ALL
            .into_iter()
            .find(|command| command.as_str() == text)
            .ok_or_else(|| invalid(format!("unknown CNI_COMMAND: {}", shortened(text))))
    }

    /// The version of the specification that brought the command, where it matters.
    pub(crate) fn since(self) -> Option<Version> {
        match self {
            Command::Check => Some(Version::V0_4_0),
            Command::Gc | Command::Status => Some(Version::V1_1_0),
            Command::Add | Command::Del | Command::Version => None,
        }
    }

    /// Whether the call is about one attachment.
    fn has_attachment(self) -> bool {
        matches!(self, Command::Add | Command::Del | Command::Check)
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The `CNI_*` variables, validated as the specification says for the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Env {
    /// `CNI_COMMAND`.
    pub command: Command,
    /// `CNI_CONTAINERID`; empty for GC, STATUS and VERSION.
    pub container_id: String,
    /// `CNI_NETNS`; `None` where it is missing or empty.
    pub netns: Option<PathBuf>,
    /// `CNI_NETNS_OVERRIDE` is `1` or `TRUE`: the pod's namespace may be the plugin's own.
    pub netns_override: bool,
    /// `CNI_IFNAME`; empty for GC, STATUS and VERSION.
    pub ifname: String,
    /// `CNI_ARGS` as given; empty for GC, STATUS and VERSION, which are about no attachment.
    pub args: String,
    /// `CNI_PATH` as its folders.
    pub path: Vec<PathBuf>,
}

impl Env {
    /// Reads what `command` needs through `lookup`. Variables are looked at in a fixed order:
    /// one that is invalid is reported at once, those that are missing together at the end.
    /// A variable that the command does not need is not validated.
    ///
    /// # Errors
    /// Code 4, naming the variables.
    pub fn read(command: Command, lookup: impl Fn(&str) -> Option<String>) -> Result<Env, Error> {
        let attachment = command.has_attachment();
        let get = |name: &str| lookup(name).unwrap_or_default();
        let mut missing = Vec::new();
        let mut need = |name: &'static str, needed: bool| {
            let value = get(name);
            if needed && value.is_empty() {
                missing.push(name);
            }
            value
        };

        let container_id = need("CNI_CONTAINERID", attachment);
        if attachment && !container_id.is_empty() {
            validate_container_id(&container_id)?;
        }
        let netns = need("CNI_NETNS", attachment && command != Command::Del);
        let ifname = need("CNI_IFNAME", attachment);
        if attachment && !ifname.is_empty() {
            validate_ifname(&ifname)?;
        }
        // DEL does without: what needs no other plugin can be cleaned all the same.
        let path = need(
            "CNI_PATH",
            !matches!(command, Command::Version | Command::Del),
        );
        if !missing.is_empty() {
            let names = missing.join(",");
            return Err(invalid(format!("required env variables [{names}] missing")));
        }

        let netns_override = get("CNI_NETNS_OVERRIDE");
        Ok(Env {
            command,
            container_id: if attachment {
                container_id
            } else {
                String::new()
            },
            netns: (!netns.is_empty()).then(|| PathBuf::from(netns)),
            netns_override: netns_override == "1" || netns_override.eq_ignore_ascii_case("true"),
            ifname: if attachment { ifname } else { String::new() },
            args: if attachment {
                get("CNI_ARGS")
            } else {
                String::new()
            },
            path: std::env::split_paths(&path)
                .filter(|folder| !folder.as_os_str().is_empty())
                .collect(),
        })
    }

    /// `CNI_NETNS` as results tell it, or empty.
    pub fn sandbox(&self) -> Cow<'_, str> {
        self.netns
            .as_deref()
            .map(Path::to_string_lossy)
            .unwrap_or_default()
    }

    /// The value of one key of `CNI_ARGS` (`K=V;K2=V2`), the last of a repeated one.
    ///
    /// `known` are the keys that the caller understands, beside `IgnoreUnknown`.
    ///
    /// # Errors
    /// Code 4 for a pair that is none, and for an unknown key unless `IgnoreUnknown` is true.
    pub fn arg(&self, key: &str, known: &[&str]) -> Result<Option<String>, Error> {
        if self.args.is_empty() {
            return Ok(None);
        }
        let mut found = None;
        let mut unknown = Vec::new();
        let mut ignore_unknown = false;
        for pair in self.args.split(';') {
            let (name, value) = pair
                .split_once('=')
                .filter(|(_, value)| !value.contains('='))
                .ok_or_else(|| args_error(format!("invalid pair {:?}", shortened(pair))))?;
            if name == "IgnoreUnknown" {
                ignore_unknown = boolean(value).ok_or_else(|| {
                    args_error(format!(
                        "error parsing value of pair {:?}: boolean unmarshal error: \
                         invalid input {}",
                        shortened(pair),
                        shortened(value)
                    ))
                })?;
            } else if !known.contains(&name) {
                unknown.push(format!("{:?}", shortened(pair)));
            }
            if name == key {
                found = Some(value.to_owned());
            }
        }
        if !unknown.is_empty() && !ignore_unknown {
            let unknown = unknown.join(" ");
            return Err(args_error(format!("unknown args [{unknown}]")));
        }
        Ok(found)
    }
}

fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" => Some(true),
        "0" | "false" => Some(false),
        _ => None,
    }
}

fn invalid(msg: impl Into<String>) -> Error {
    Error::new(code::INVALID_ENVIRONMENT, msg)
}

fn args_error(msg: String) -> Error {
    invalid(format!("ARGS: {msg}")).details("in CNI_ARGS")
}

/// A value as far as a message can carry it.
fn shortened(value: &str) -> String {
    const LIMIT: usize = 128;
    if value.chars().count() <= LIMIT {
        return value.to_owned();
    }
    value.chars().take(LIMIT).chain(['…']).collect()
}

/// Whether the text can name a container or a network: a letter or digit, then letters, digits,
/// `_`, `.` and `-`.
pub fn is_identifier(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
}

pub(crate) fn validate_container_id(id: &str) -> Result<(), Error> {
    if is_identifier(id) {
        return Ok(());
    }
    Err(invalid("invalid characters in containerID (CNI_CONTAINERID)").details(shortened(id)))
}

/// What an interface's name holds at most, in bytes (linux/if.h: `IFNAMSIZ` less its final NUL).
const IFNAME_MAX: usize = 15;

/// What is wrong with an interface's name, as the kernel's `dev_valid_name` (net/core/dev.c) sees it.
pub(crate) fn ifname_flaw(name: &str) -> Option<&'static str> {
    if name.len() > IFNAME_MAX {
        return Some("is too long");
    }
    if name == "." || name == ".." {
        return Some("is . or ..");
    }
    name.contains(|c: char| c == '/' || c == ':' || c.is_whitespace())
        .then_some("contains / or : or whitespace characters")
}

pub(crate) fn validate_ifname(name: &str) -> Result<(), Error> {
    let Some(flaw) = ifname_flaw(name) else {
        return Ok(());
    };
    let shown = shortened(name);
    let error = invalid(format!("interface name {flaw} (CNI_IFNAME is {shown:?})"));
    Err(if name.len() > IFNAME_MAX {
        error.details("interface name should be less than 16 characters")
    } else {
        error
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A complete environment, with `changes` made to it; an empty value removes.
    fn read(command: Command, changes: &[(&str, &str)]) -> Result<Env, Error> {
        let base = [
            ("CNI_CONTAINERID", "c1"),
            ("CNI_NETNS", "/run/netns/p"),
            ("CNI_IFNAME", "eth0"),
            ("CNI_PATH", "/opt/cni/bin:/usr/lib/cni"),
        ];
        Env::read(command, |name| {
            changes
                .iter()
                .chain(&base)
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn a_complete_environment() {
        let env = read(Command::Add, &[("CNI_ARGS", "A=B")]).unwrap();
        let expected = Env {
            command: Command::Add,
            container_id: "c1".into(),
            netns: Some("/run/netns/p".into()),
            netns_override: false,
            ifname: "eth0".into(),
            args: "A=B".into(),
            path: vec!["/opt/cni/bin".into(), "/usr/lib/cni".into()],
        };
        assert_eq!(env, expected);
    }

    #[test]
    fn commands() {
        for command in Command::ALL {
            assert_eq!(Command::parse(command.as_str()), Ok(command));
        }
        for text in ["add", "FOO", "ADD "] {
            let error = Command::parse(text).unwrap_err();
            assert_eq!(
                (error.code, error.msg),
                (4, format!("unknown CNI_COMMAND: {text}"))
            );
        }
    }

    #[test]
    fn what_each_command_requires() {
        let none = [
            ("CNI_CONTAINERID", ""),
            ("CNI_NETNS", ""),
            ("CNI_IFNAME", ""),
            ("CNI_PATH", ""),
        ];
        let all = "CNI_CONTAINERID,CNI_NETNS,CNI_IFNAME,CNI_PATH";
        let cases = [
            (Command::Add, Some(all)),
            (Command::Check, Some(all)),
            (Command::Del, Some("CNI_CONTAINERID,CNI_IFNAME")),
            (Command::Gc, Some("CNI_PATH")),
            (Command::Status, Some("CNI_PATH")),
            (Command::Version, None),
        ];
        for (command, names) in cases {
            let got = read(command, &none).map(|_| ()).map_err(|e| e.msg);
            let expected = names.map_or(Ok(()), |names| {
                Err(format!("required env variables [{names}] missing"))
            });
            assert_eq!(got, expected, "{command}");
        }
        assert_eq!(read(Command::Del, &none[1..2]).unwrap().netns, None);
    }

    #[test]
    fn what_is_not_needed_is_not_validated() {
        let bad = [("CNI_CONTAINERID", "a b"), ("CNI_IFNAME", "a/b")];
        for command in [Command::Gc, Command::Status, Command::Version] {
            let env = read(command, &[bad, [("CNI_ARGS", "A"); 2]].concat()).unwrap();
            assert_eq!((env.container_id.as_str(), env.ifname.as_str()), ("", ""));
            assert_eq!(env.args, "");
        }
    }

    #[test]
    fn invalid_values() {
        let cases = [
            (
                ("CNI_CONTAINERID", "-x"),
                "invalid characters in containerID (CNI_CONTAINERID)",
                "-x",
            ),
            (
                ("CNI_CONTAINERID", "a/../b"),
                "invalid characters in containerID (CNI_CONTAINERID)",
                "a/../b",
            ),
            (
                ("CNI_IFNAME", "abcdefghijklmnop"),
                "interface name is too long (CNI_IFNAME is \"abcdefghijklmnop\")",
                "interface name should be less than 16 characters",
            ),
            (
                ("CNI_IFNAME", "."),
                "interface name is . or .. (CNI_IFNAME is \".\")",
                "",
            ),
            (
                ("CNI_IFNAME", "a\u{a0}b"),
                "interface name contains / or : or whitespace characters \
                 (CNI_IFNAME is \"a\\u{a0}b\")",
                "",
            ),
        ];
        for (change, msg, details) in cases {
            for command in [Command::Add, Command::Check, Command::Del] {
                // Being invalid wins over others that are missing.
                let error = read(command, &[change, ("CNI_NETNS", "")]).unwrap_err();
                let got = (error.code, error.msg.as_str(), error.details.as_str());
                assert_eq!(got, (4, msg, details));
            }
        }
        for name in ["e", "abcdefghijklmno", "ünï", "..."] {
            assert!(
                read(Command::Add, &[("CNI_IFNAME", name)]).is_ok(),
                "{name}"
            );
        }
    }

    #[test]
    fn own_namespace_override() {
        for (text, expected) in [("1", true), ("true", true), ("TRUE", true), ("yes", false)] {
            let env = read(Command::Add, &[("CNI_NETNS_OVERRIDE", text)]).unwrap();
            assert_eq!(env.netns_override, expected, "{text}");
        }
    }

    #[test]
    fn args() {
        let cases: &[(&str, Result<Option<&str>, &str>)] = &[
            ("", Ok(None)),
            ("IP=10.1.0.9", Ok(Some("10.1.0.9"))),
            ("IP=1;IP=2", Ok(Some("2"))),
            ("ip=1;IgnoreUnknown=1", Ok(None)),
            ("K8S_POD_NAME=w;IP=::1;IgnoreUnknown=TRUE", Ok(Some("::1"))),
            ("IP=", Ok(Some(""))),
            ("IgnoreUnknown=0;IP=1", Ok(Some("1"))),
            ("A=1;B=2", Err("ARGS: unknown args [\"A=1\" \"B=2\"]")),
            (
                "A=1;IgnoreUnknown=false",
                Err("ARGS: unknown args [\"A=1\"]"),
            ),
            ("IP=1;", Err("ARGS: invalid pair \"\"")),
            ("IP", Err("ARGS: invalid pair \"IP\"")),
            ("IP=a=b", Err("ARGS: invalid pair \"IP=a=b\"")),
            (
                "IgnoreUnknown=yes",
                Err("ARGS: error parsing value of pair \"IgnoreUnknown=yes\": \
                     boolean unmarshal error: invalid input yes"),
            ),
        ];
        for (args, expected) in cases {
            let env = read(Command::Add, &[("CNI_ARGS", args)]).unwrap();
            let got = env.arg("IP", &["IP"]).map_err(|e| e.msg);
            let expected = expected
                .map(|value| value.map(str::to_owned))
                .map_err(str::to_owned);
            assert_eq!(got, expected, "{args}");
        }
    }
}
