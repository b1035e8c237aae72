//! Plugins whose processes, system calls, memory and instructions are counted.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use cni::runtime::{Child, Exec};
use lab::trace::{Next, Process, trace};

use crate::watch::with_path;

/// One call of a plugin, and all processes that were started for it, itself first.
#[derive(Debug, Clone)]
pub struct Call {
    /// `CNI_COMMAND`.
    pub verb: String,
    /// The processes.
    pub processes: Vec<Process>,
}

/// Runs plugins with a `PATH` of a node's own, and watches them at every system call.
#[derive(Debug)]
pub struct Traced {
    path: OsString,
    calls: Mutex<Vec<Call>>,
}

impl Traced {
    /// With that `PATH`.
    pub fn new(path: OsString) -> Traced {
        Traced {
            path,
            calls: Mutex::default(),
        }
    }

    /// The calls since the last time.
    pub fn take(&self) -> Vec<Call> {
        std::mem::take(&mut self.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Exec for Traced {
    fn run(
        &self,
        program: &Path,
        variables: &[(&str, &OsStr)],
        stdin: &[u8],
    ) -> io::Result<Output> {
        let mut command = Command::new(program);
        command.envs(with_path(variables, &self.path));
        let traced = trace(&mut command, stdin, |_| Next::Proceed).map_err(io::Error::other)?;
        let call = Call {
            verb: verb(variables),
            processes: traced.processes,
        };
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.push(call);
        Ok(traced.output)
    }
}

fn verb(variables: &[(&str, &OsStr)]) -> String {
    let verb = variables.iter().find(|(key, _)| *key == "CNI_COMMAND");
    verb.map(|(_, verb)| verb.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Runs plugins by valgrind's callgrind, and counts the instructions of each alone: those of its
/// children apart, and none of the kernel's.
#[derive(Debug)]
pub struct Callgrind {
    valgrind: PathBuf,
    /// Where it writes.
    folder: PathBuf,
    instructions: Mutex<u64>,
}

impl Callgrind {
    /// `None` where valgrind is not installed. What it writes goes to `folder`.
    pub fn new(folder: &Path) -> Option<Callgrind> {
        Some(Callgrind {
            valgrind: lab::find_tool("valgrind")?,
            folder: folder.to_owned(),
            instructions: Mutex::default(),
        })
    }

    /// The instructions of the last call.
    pub fn last(&self) -> u64 {
        *self
            .instructions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Exec for Callgrind {
    fn run(
        &self,
        program: &Path,
        variables: &[(&str, &OsStr)],
        stdin: &[u8],
    ) -> io::Result<Output> {
        let log = self.folder.join("callgrind.log");
        let own = [
            "#!/bin/sh\nexec".to_owned(),
            self.valgrind.display().to_string(),
            "--tool=callgrind".to_owned(),
            format!("--log-file={}", log.display()),
            format!(
                "--callgrind-out-file={}",
                self.folder.join("callgrind.out").display()
            ),
            format!("{} \"$@\"\n", program.display()),
        ];
        let script = self.folder.join("by-callgrind");
        fs::write(&script, own.join(" "))?;
        fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        let output = Child.run(&script, variables, stdin)?;
        let counted = collected(&fs::read_to_string(&log)?).ok_or_else(|| {
            io::Error::other(format!(
                "callgrind counted nothing of {}",
                program.display()
            ))
        })?;
        *self
            .instructions
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = counted;
        Ok(output)
    }
}

/// What callgrind's log says of the instructions.
fn collected(log: &str) -> Option<u64> {
    let (_, rest) = log.split_once("Collected :")?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_callgrind_has_counted() {
        let log = "==7== Callgrind\n==7== Events    : Ir\n==7== Collected : 1234567\n==7==\n";
        assert_eq!(collected(log), Some(1_234_567));
        assert_eq!(collected("==7== Collected : none\n"), None);
        assert_eq!(collected(""), None);
    }
}
