//! The lock on a folder: whoever holds it, holds what the folder's path leads to.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag};

use crate::error::{Doing, Error, Result};

/// How often a folder is begun with that others remove meanwhile.
pub const TRIES: usize = 100;

/// A folder that no other installation changes, or removes.
#[derive(Debug)]
pub struct Lock {
    held: Flock<File>,
}

impl Lock {
    /// Takes it, and waits for nobody; `None` where there is no such folder.
    ///
    /// # Errors
    /// Another process holds it; it is no folder; the file system's.
    pub fn take(path: &Path) -> Result<Option<Lock>> {
        let doing = || format!("lock {}", path.display());
        for _ in 0..TRIES {
            let folder = match open(path) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                Err(error) if error.kind() == ErrorKind::NotADirectory && path.exists() => {
                    return Err(Error::NoFolder(path.to_owned()));
                }
                folder => folder.doing(doing)?,
            };
            let held = match Flock::lock(folder, FlockArg::LockExclusiveNonblock) {
                Ok(held) => held,
                Err((_, Errno::EWOULDBLOCK)) => return Err(Error::Busy(path.to_owned())),
                Err((_, errno)) => return Err(errno).doing(doing),
            };
            // One that failed removes the folder that it has made while it holds it. Who has opened that
            // folder before holds nothing then.
            if is_at(&held, path).doing(doing)? {
                return Ok(Some(Lock { held }));
            }
        }
        Err(Error::Restless(path.to_owned()))
    }

    /// Whether the path leads to that folder.
    pub fn is_of(&self, path: &Path) -> bool {
        is_at(&self.held, path).unwrap_or(false)
    }
}

/// Opens a folder, and nothing else: a FIFO would be waited for.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NONBLOCK;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags.bits()).open(path)
}

/// Whether that is what the path leads to.
fn is_at(folder: &File, path: &Path) -> io::Result<bool> {
    let opened = folder.metadata()?;
    match fs::metadata(path) {
        Ok(there) => Ok((opened.dev(), opened.ino()) == (there.dev(), there.ino())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    /// Of making and removing a folder.
    const ROUNDS: usize = 3_000;

    #[test]
    fn one_holds_it() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("bin");
        assert!(Lock::take(&folder).unwrap().is_none());
        fs::create_dir(&folder).unwrap();
        let held = Lock::take(&folder).unwrap();
        assert!(held.is_some());
        assert!(matches!(Lock::take(&folder), Err(Error::Busy(_))));
        drop(held);
        assert!(Lock::take(&folder).unwrap().is_some());
    }

    /// While another makes the folder and removes it again and again, as one does that holds it.
    #[test]
    fn who_holds_it_holds_what_is_there() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("bin");
        let is_over = AtomicBool::new(false);
        let fails_again_and_again = || {
            for _ in 0..ROUNDS {
                fs::create_dir_all(&folder).unwrap();
                if let Ok(Some(_held)) = Lock::take(&folder) {
                    fs::remove_dir(&folder).unwrap();
                }
            }
            is_over.store(true, Ordering::Relaxed);
        };
        thread::scope(|scope| {
            scope.spawn(fails_again_and_again);
            while !is_over.load(Ordering::Relaxed) {
                if let Ok(Some(held)) = Lock::take(&folder) {
                    assert!(held.is_of(&folder));
                }
            }
        });
    }

    #[test]
    fn what_was_opened_may_be_there_no_more() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("bin");
        fs::create_dir(&folder).unwrap();
        let opened = open(&folder).unwrap();
        assert!(is_at(&opened, &folder).unwrap());
        fs::remove_dir(&folder).unwrap();
        assert!(!is_at(&opened, &folder).unwrap());
        fs::create_dir(&folder).unwrap();
        assert!(!is_at(&opened, &folder).unwrap());
        // By another way it is the same.
        let link = parent.path().join("link");
        std::os::unix::fs::symlink(&folder, &link).unwrap();
        assert!(is_at(&open(&folder).unwrap(), &link).unwrap());
    }

    #[test]
    fn what_is_no_folder_is_not_waited_for() {
        let parent = tempfile::tempdir().unwrap();
        let (fifo, file) = (parent.path().join("fifo"), parent.path().join("file"));
        mkfifo(&fifo, Mode::S_IRWXU).unwrap();
        fs::write(&file, "").unwrap();
        for path in [&fifo, &file] {
            let error = Lock::take(path).unwrap_err();
            let said = format!("{} is there, and no folder", path.display());
            assert_eq!(error.to_string(), said);
        }
        let error = Lock::take(&file.join("x")).unwrap_err();
        assert!(error.to_string().contains("Not a directory"), "{error}");
    }
}
