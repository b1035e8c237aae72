//! The lock under which shared chains and rules are made.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::thread::sleep;

use fs2::FileExt as _;

use crate::deadline::{Deadline, pauses};
use crate::{Error, Result};

const PATH: &str = "/run/cni-lite-nat.lock";
/// Where /run cannot be written (a user namespace of an ordinary user), the network namespace's own
/// inode is locked: it belongs to exactly those who share the table.
const FALLBACK: &str = "/proc/thread-self/ns/net";

/// Held until it is dropped, or its process ends.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Waits for it, up to the deadline.
    ///
    /// # Errors
    /// [`Error::Busy`] where another has held it until then, [`Error::Io`] where it cannot be had.
    pub fn take(deadline: Deadline) -> Result<Lock> {
        let (path, file) = match open(PATH, true) {
            Ok(file) => (PATH, file),
            Err(_) => (FALLBACK, open(FALLBACK, false).map_err(failed(FALLBACK))?),
        };
        Lock::of(file, path, deadline)
    }

    fn of(file: File, path: &str, deadline: Deadline) -> Result<Lock> {
        let mut pauses = pauses(deadline.for_locks());
        loop {
            match file.try_lock_exclusive() {
                Ok(()) => return Ok(Lock { _file: file }),
                Err(error)
                    if error.raw_os_error() != fs2::lock_contended_error().raw_os_error() =>
                {
                    return Err(failed(path)(error));
                }
                Err(_) => {}
            }
            let Some(pause) = pauses.next() else {
                return Err(Error::Busy {
                    lock: path.to_owned(),
                });
            };
            sleep(pause);
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn who_holds_it_too_long_is_reported_as_such() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        let take = |wait| {
            let deadline = Deadline::after(Duration::from_millis(wait), Duration::ZERO);
            Lock::of(open(path, true).unwrap(), path, deadline)
        };
        let held = take(0).unwrap();
        let refused = take(20).unwrap_err();
        assert!(refused.is_busy(), "{refused}");
        assert!(refused.to_string().contains(path), "{refused}");
        drop(held);
        take(0).unwrap();
    }
}
