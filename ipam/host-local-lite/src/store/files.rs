//! Files of a folder, made whole and removed.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, openat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, linkat, unlinkat};

/// Of every file that is made.
pub fn file_mode() -> Mode {
    Mode::S_IRUSR | Mode::S_IWUSR
}

/// Makes a file that is whole from the moment it has its name: programs that do not take the lock
/// read every file in the folder, and a kill must not leave half of one.
pub fn publish(folder: &OwnedFd, name: &str, content: &[u8]) -> io::Result<()> {
    let Some(mut file) = unnamed(folder)? else {
        return write_named(folder, name, content);
    };
    file.write_all(content)?;
    let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
    let follow = AtFlags::AT_SYMLINK_FOLLOW;
    match linkat(AT_FDCWD, unnamed.as_str(), folder, name, follow) {
        // Without /proc there is no way to the unnamed file that needs no capability.
        Err(Errno::ENOENT) => write_named(folder, name, content),
        other => Ok(other?),
    }
}

/// A file in the folder that has no name, and is gone when it is closed; `None` where the file system
/// has no such files (open(2); old kernels see a folder being written).
pub fn unnamed(folder: &OwnedFd) -> io::Result<Option<File>> {
    let flags = OFlag::O_TMPFILE | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
    match openat(folder, ".", flags, file_mode()) {
        Ok(file) => Ok(Some(file.into())),
        Err(Errno::EOPNOTSUPP | Errno::EISDIR | Errno::EINVAL | Errno::ENOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The way without unnamed files. What a kill leaves is empty and names nobody.
pub fn write_named(folder: &OwnedFd, name: &str, content: &[u8]) -> io::Result<()> {
    let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
    let mut file = File::from(openat(folder, name, flags, file_mode())?);
    file.write_all(content).inspect_err(|_| {
        // The error of the write is the one to report.
        drop(unlink(folder, name));
    })
}

/// Removes a file; that there is none is no error.
pub fn unlink(folder: &OwnedFd, name: &(impl nix::NixPath + ?Sized)) -> io::Result<()> {
    match unlinkat(folder, name, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
