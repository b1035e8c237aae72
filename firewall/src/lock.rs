//! The lock under which shared chains and rules are made.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::thread::sleep;
use std::time::{Duration, Instant};

use fs2::FileExt as _;

use crate::{Error, Result};

const PATH: &str = "/run/cni-lite-nat.lock";
/// Where /run cannot be written (a user namespace of an ordinary user), the network namespace's own
/// inode is locked: it belongs to exactly those who share the table.
const FALLBACK: &str = "/proc/thread-self/ns/net";

/// How long others may hold it: each needs some tens of milliseconds.
const DEADLINE: Duration = Duration::from_secs(30);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Held until it is dropped, or its process ends.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Waits for it, up to a deadline.
    ///
    /// # Errors
    /// [`Error::Io`] where it cannot be had.
    pub fn take() -> Result<Lock> {
        let (path, file) = match open(PATH, true) {
            Ok(file) => (PATH, file),
            Err(_) => (FALLBACK, open(FALLBACK, false).map_err(failed(FALLBACK))?),
        };
        let start = Instant::now();
        let mut pause = Duration::from_millis(1);
        loop {
            match file.try_lock_exclusive() {
                Ok(()) => return Ok(Lock { _file: file }),
                Err(error)
                    if error.raw_os_error() != fs2::lock_contended_error().raw_os_error() =>
                {
                    return Err(failed(path)(error));
                }
                Err(error) if start.elapsed() > DEADLINE => return Err(failed(path)(error)),
                Err(_) => sleep(pause),
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

fn open(path: &str, create: bool) -> std::io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(create)
        .create(create)
        .mode(0o600)
        .open(path)
}

fn failed(path: &str) -> impl Fn(std::io::Error) -> Error {
    let command = format!("lock {path}");
    move |source| Error::Io {
        command: command.clone(),
        source,
    }
}
