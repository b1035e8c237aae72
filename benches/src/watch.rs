//! Plugins that are timed.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::process::Output;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use cni::runtime::{Child, Exec};

/// Runs plugins with a `PATH` of a node's own, and notes what each call took.
#[derive(Debug)]
pub struct Watch {
    path: OsString,
    calls: Mutex<Vec<(String, Duration)>>,
}

impl Watch {
    /// With that `PATH`.
    pub fn new(path: OsString) -> Watch {
        Watch {
            path,
            calls: Mutex::default(),
        }
    }

    /// The plugins that were called since the last time, in that order, and what each took.
    pub fn take(&self) -> Vec<(String, Duration)> {
        std::mem::take(&mut self.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Exec for Watch {
    fn run(
        &self,
        program: &Path,
        variables: &[(&str, &OsStr)],
        stdin: &[u8],
    ) -> io::Result<Output> {
        let variables = with_path(variables, &self.path);
        let began = Instant::now();
        let output = Child.run(program, &variables, stdin);
        let took = began.elapsed();
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.push((name.into_owned(), took));
        output
    }
}

/// The variables of a call, and `PATH`.
pub fn with_path<'a>(
    variables: &[(&'a str, &'a OsStr)],
    path: &'a OsStr,
) -> Vec<(&'a str, &'a OsStr)> {
    let mut all = variables.to_vec();
    all.push(("PATH", path));
    all
}
