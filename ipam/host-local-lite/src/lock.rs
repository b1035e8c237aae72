//! The store's lock, which excludes the reference plugin as well: flock(2) on the file `lock`.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::thread::sleep;
use std::time::{Duration, Instant};

use fs2::FileExt;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, fstat, fstatat};

const NAME: &str = "lock";
/// The first pause between two tries; each is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_micros(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(10);

/// Takes the lock of the folder, waiting for others until `deadline` has passed. It is held while
/// the file is open.
///
/// # Errors
/// `WouldBlock` where others still held it at the deadline, `NotFound` where the folder is deleted.
pub fn acquire(folder: BorrowedFd, deadline: Duration) -> io::Result<File> {
    let start = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        let file = open(folder)?;
        match file.try_lock_exclusive() {
            // Somebody may have deleted the file that we opened: it would lock nothing then.
            Ok(()) if is_current(folder, &file)? => return Ok(file),
            Ok(()) => {}
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            Err(error) if start.elapsed() >= deadline => return Err(error),
            Err(_) => {
                sleep(pause);
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

/// Follows no link to a file elsewhere, and does not wait where the file is a pipe.
fn open(folder: BorrowedFd) -> io::Result<File> {
    let flags = OFlag::O_CREAT | OFlag::O_RDONLY | OFlag::O_CLOEXEC;
    let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let mode = Mode::S_IRWXU | Mode::S_IRGRP | Mode::S_IXGRP;
    Ok(openat(folder, NAME, flags, mode)?.into())
}

fn is_current(folder: BorrowedFd, file: &File) -> io::Result<bool> {
    let held = fstat(file)?;
    match fstatat(folder, NAME, AtFlags::empty()) {
        Ok(named) => Ok((held.st_dev, held.st_ino) == (named.st_dev, named.st_ino)),
        Err(Errno::ENOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
