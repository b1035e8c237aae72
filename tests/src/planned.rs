//! `podnet` where it needs neither privileges nor a network.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::{Answer, binary_folder};

/// Runs `podnet` in a folder, with `input` on its standard input.
///
/// # Panics
/// It cannot be started.
#[track_caller]
pub fn podnet(folder: &Path, words: &[&str], input: &str) -> Answer {
    let mut process = Command::new(binary_folder().canonicalize().unwrap().join("podnet"))
        .args(words)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = process.stdin.take().unwrap();
    // Who needs no input may be gone before all of it is written.
    let _ = pipe.write_all(input.as_bytes());
    drop(pipe);
    process.wait_with_output().unwrap().into()
}
