//! Plugins that log what each of their steps takes.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::Output;

use cni::runtime::{Child, Exec};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::Outcome;
use crate::rounds::Sample;
use crate::watch::with_path;

/// Runs plugins with a `PATH` of a node's own, and a log for all of them.
#[derive(Debug)]
pub struct Logged {
    path: OsString,
    log: PathBuf,
}

/// What a line of the log says of a call's time.
#[derive(Debug, Deserialize)]
struct Line {
    plugin: String,
    command: String,
    /// By step, in their order, and `all` of them.
    microseconds: Map<String, Value>,
}

impl Logged {
    /// With that `PATH`, and a log that is not there yet.
    pub fn new(path: OsString, log: PathBuf) -> Logged {
        Logged { path, log }
    }

    /// What the steps of the calls since the last time took, in ms.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn take(&self) -> Outcome<Vec<Sample>> {
        let text = match fs::read_to_string(&self.log) {
            // Plugins of others know of no log.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            text => text?,
        };
        fs::remove_file(&self.log)?;
        samples(&text)
    }
}

impl Exec for Logged {
    fn run(
        &self,
        program: &Path,
        variables: &[(&str, &OsStr)],
        stdin: &[u8],
    ) -> io::Result<Output> {
        let mut variables = with_path(variables, &self.path);
        variables.push(("CNI_LITE_LOG", self.log.as_os_str()));
        Child.run(program, &variables, stdin)
    }
}

fn samples(log: &str) -> Outcome<Vec<Sample>> {
    let mut samples = Vec::new();
    for line in log.lines() {
        let line: Line = serde_json::from_str(line)?;
        for (step, took) in &line.microseconds {
            let took = took
                .as_f64()
                .ok_or("the log has a time that is no number")?;
            let what = format!("{} {}: {step}", line.command, line.plugin);
            samples.push((what, took / 1e3));
        }
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_for_each_step_of_each_call() {
        let log = r#"{"plugin":"host-local","command":"ADD","microseconds":{"read":60,"all":1500},"exit":0}
{"plugin":"bridge","command":"ADD","microseconds":{"veth":2000}}
"#;
        let expected = [
            ("ADD host-local: read", 0.06),
            ("ADD host-local: all", 1.5),
            ("ADD bridge: veth", 2.0),
        ];
        let expected = expected.map(|(what, took)| (what.to_owned(), took));
        assert_eq!(samples(log).unwrap(), expected);
    }

    #[test]
    fn without_a_log_there_is_no_sample() {
        let logged = Logged::new(OsString::new(), PathBuf::from("/no/such/log"));
        assert_eq!(logged.take().unwrap(), []);
    }
}
