//! Tests that this machine cannot run.

use std::fs::OpenOptions;
use std::io::Write;

/// Says aloud that the running test is skipped, and why; and adds the reason as a line to the file
/// that `CNI_SKIP_LOG` names, by which `make test` counts.
pub fn skip(reason: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    // Not eprintln!, which a passing test keeps to itself.
    let _ = writeln!(std::io::stderr(), "{test}: skipped: {reason}");
    if let Some(log) = std::env::var_os("CNI_SKIP_LOG") {
        let file = OpenOptions::new().create(true).append(true).open(log);
        // One write, since other tests add theirs. Uncounted, it has still been said.
        let _ = file.and_then(|mut file| file.write_all(format!("{reason}\n").as_bytes()));
    }
}
