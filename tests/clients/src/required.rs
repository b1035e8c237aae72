//! What the machine must have for these tests.

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// How long a runtime may take for what it does on its own, on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether these programs are on this machine, and the user may run containers. That one is missing
/// is said aloud and counted.
///
/// # Panics
/// One is missing, and `CLIENTS_REQUIRED` says that none may be.
#[track_caller]
pub fn are_here(programs: &[&str]) -> bool {
    let mut missing: Vec<String> = programs
        .iter()
        .filter(|program| lab::find_tool(program).is_none())
        .map(|program| format!("no {program}"))
        .collect();
    if !nix::unistd::geteuid().is_root() {
        missing.push("not root".to_owned());
    }
    let missing = missing.join(", ");
    let required = std::env::var_os("CLIENTS_REQUIRED").is_some_and(|value| !value.is_empty());
    assert!(missing.is_empty() || !required, "{missing}");
    if !missing.is_empty() {
        lab::skip(&format!("{missing} (make test-clients)"));
    }
    missing.is_empty()
}

/// Tries until it succeeds, or a minute has passed.
///
/// # Panics
/// With the last attempt's error.
#[track_caller]
pub fn patiently<T, E: Debug>(mut attempt: impl FnMut() -> Result<T, E>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        match attempt() {
            Ok(value) => return value,
            Err(error) if Instant::now() >= end => panic!("after {PATIENCE:?}: {error:?}"),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}
