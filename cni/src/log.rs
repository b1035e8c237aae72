//! The log for people: a line of JSON for each call, appended to the file that `CNI_LITE_LOG` or the
//! configuration's `logFile` names. Nothing that goes wrong with it changes what a call does.

mod cut;
#[cfg(test)]
mod tests;

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use serde_json::{Map, Value};

use crate::steps::Steps;
use crate::{Error, Version, json};
use cut::cut;

/// The variable that names the file; it wins over the configuration's key.
pub(crate) const VARIABLE: &str = "CNI_LITE_LOG";
/// The key of the configuration that does.
pub(crate) const KEY: &str = "logFile";

/// How much of the configuration, and of the answer, a line holds, in characters.
const ROOM: usize = 4096;
/// How much of each variable.
const VARIABLE_ROOM: usize = 1024;
/// Keys of the configuration that a line tells elsewhere, and what the plugin before has told.
const TOLD_ELSEWHERE: [&str; 5] = ["cniVersion", "name", "type", KEY, "prevResult"];

/// What the line of a call will say, as far as it is known.
#[derive(Debug)]
pub(crate) struct Log {
    plugin: &'static str,
    began: SystemTime,
    steps: Steps,
    file: Option<PathBuf>,
    network: Value,
    asked: Value,
}

impl Log {
    /// A call begins; `file` is the variable's value.
    pub(crate) fn begin(plugin: &'static str, file: Option<&str>, steps: Steps) -> Log {
        Log {
            plugin,
            began: SystemTime::now(),
            steps,
            file: path(file),
            network: Value::Null,
            asked: Value::Null,
        }
    }

    /// The configuration is there.
    pub(crate) fn read(&mut self, config: &Value) {
        let key = |key| json::get(config, key);
        if self.file.is_none() {
            self.file = path(key(KEY).and_then(Value::as_str));
        }
        if self.file.is_some() {
            self.network = key("name").map_or(Value::Null, |name| cut(name, VARIABLE_ROOM));
            self.asked = cut(&asked(config), ROOM);
        }
    }

    /// The call has ended: `outcome` is what was printed, or the error. What keeps the line from
    /// being written is told on standard error.
    pub(crate) fn write(
        self,
        version: Version,
        variable: impl Fn(&str) -> Option<String>,
        outcome: &Result<String, Error>,
        stderr: &mut impl Write,
    ) {
        let Some(file) = self.file.clone() else {
            return;
        };
        let plugin = self.plugin;
        let line = self.line(version, variable, outcome);
        if let Err(error) = append(&file, &format!("{line}\n")) {
            let file = cut(&file.to_string_lossy().into(), VARIABLE_ROOM);
            // With a broken standard error there is nobody to tell.
            let _ = writeln!(stderr, "{plugin}: cannot write the log {file}: {error}");
        }
    }

    /// The line, without what there is not.
    fn line(
        self,
        version: Version,
        variable: impl Fn(&str) -> Option<String>,
        outcome: &Result<String, Error>,
    ) -> Value {
        let variable = |name| {
            let value = variable(name).filter(|value| !value.is_empty());
            value.map_or(Value::Null, |value| cut(&value.into(), VARIABLE_ROOM))
        };
        let result = outcome.as_ref().ok();
        let result = result.and_then(|printed| serde_json::from_str(printed).ok());
        let error = outcome.as_ref().err().map(|error| error.to_json(version));
        let steps = self.steps.durations(Instant::now());
        let came_back = |answer: Option<Value>| answer.map_or(Value::Null, |it| cut(&it, ROOM));
        let all = [
            ("time", timestamp(self.began)),
            ("plugin", self.plugin.into()),
            ("version", env!("CARGO_PKG_VERSION").into()),
            ("cniVersion", version.as_str().into()),
            ("command", variable("CNI_COMMAND")),
            ("network", self.network),
            ("containerID", variable("CNI_CONTAINERID")),
            ("ifname", variable("CNI_IFNAME")),
            ("netns", variable("CNI_NETNS")),
            ("args", variable("CNI_ARGS")),
            ("asked", self.asked),
            ("microseconds", microseconds(&steps)),
            ("exit", u8::from(outcome.is_err()).into()),
            ("result", came_back(result)),
            ("error", came_back(error)),
        ];
        let there = all.into_iter().filter(|(_, value)| !value.is_null());
        there
            .map(|(key, value)| (key.to_owned(), value))
            .collect::<Map<_, _>>()
            .into()
    }
}

fn path(text: Option<&str>) -> Option<PathBuf> {
    text.filter(|text| !text.is_empty()).map(PathBuf::from)
}

/// The keys that say what is asked for.
fn asked(config: &Value) -> Value {
    let told = |key: &str| TOLD_ELSEWHERE.iter().any(|it| it.eq_ignore_ascii_case(key));
    let keys = config.as_object().into_iter().flatten();
    keys.filter(|(key, _)| !told(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect::<Map<_, _>>()
        .into()
}

/// In UTC, as RFC 3339 has it.
fn timestamp(time: SystemTime) -> Value {
    humantime::format_rfc3339_micros(time).to_string().into()
}

/// The steps, and behind them the whole.
fn microseconds(steps: &[(&'static str, Duration)]) -> Value {
    let whole = ("all", steps.iter().map(|(_, took)| *took).sum());
    let number = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    steps
        .iter()
        .chain([&whole])
        .map(|(name, took)| ((*name).to_owned(), number(*took).into()))
        .collect::<Map<_, _>>()
        .into()
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno as i32)
}

/// Appends by one write, so that lines of calls at the same time stay whole. Nothing here can block:
/// not a FIFO that nobody reads, and no lease; and what is no plain file is not written to.
fn append(file: &Path, line: &str) -> io::Result<()> {
    let refuse = |reason| Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    if !file.is_absolute() {
        return refuse("it must be an absolute path");
    }
    // Whoever can put a symbolic link there must not choose what root writes to.
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW | OFlag::O_NOCTTY;
    let opened = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(flags.bits())
        .open(file);
    let mut file = match opened {
        Err(error) if is(&error, Errno::ELOOP) => return refuse("it is a symbolic link"),
        // A FIFO that nobody reads, or a socket.
        Err(error) if is(&error, Errno::ENXIO) => return refuse("it is no regular file"),
        opened => opened?,
    };
    if !file.metadata()?.is_file() {
        return refuse("it is no regular file");
    }
    match file.write(line.as_bytes())? {
        written if written == line.len() => Ok(()),
        _ => Err(io::Error::new(
            io::ErrorKind::WriteZero,
            "only a part of the line has room",
        )),
    }
}
