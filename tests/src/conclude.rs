//! How a driver of tests ends that is a program of its own.

use std::error::Error;
use std::fmt::Display;
use std::io::Write as _;
use std::process::ExitCode;

/// Prints what was counted; the exit status is 0, or 1 where something was found, or 2 where nothing could be
/// tried.
pub fn conclude<T: Display>(
    driver: &str,
    tried: Result<T, Box<dyn Error + Send + Sync>>,
    findings: impl Fn(&T) -> u64,
) -> ExitCode {
    let tally = match tried {
        Ok(tally) => tally,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{driver}: {error}");
            return ExitCode::from(2);
        }
    };
    let _ = write!(std::io::stdout(), "{tally}");
    if findings(&tally) == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
