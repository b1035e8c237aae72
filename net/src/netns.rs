//! Network namespaces.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use crate::Result;

/// An open network namespace.
#[derive(Debug)]
pub struct Netns {
    file: File,
}

impl Netns {
    /// Opens the namespace bound to a path (as `/run/netns/x` or `/proc/1/ns/net`).
    ///
    /// # Errors
    /// [`crate::Error::NetnsMissing`], [`crate::Error::NotANetns`], or the file system's.
    pub fn open(path: &Path) -> Result<Netns> {
        let _ = path;
        todo!()
    }

    /// The calling thread's namespace (`/proc/thread-self/ns/net`).
    ///
    /// # Errors
    /// The file system's.
    pub fn current() -> Result<Netns> {
        todo!()
    }

    /// Whether both are the same namespace (device and inode).
    ///
    /// # Errors
    /// The file system's.
    pub fn same_as(&self, other: &Netns) -> Result<bool> {
        let _ = other;
        todo!()
    }

    /// Runs `inside` on this thread in the namespace, and comes back; aborts the process if it
    /// cannot. `/proc/sys/net` (by `/proc/thread-self` or the opening thread) and new sockets are
    /// then the namespace's.
    ///
    /// # Errors
    /// The kernel's, where it cannot be entered.
    pub fn enter<T>(&self, inside: impl FnOnce() -> T) -> Result<T> {
        let _ = inside;
        todo!()
    }
}

impl AsFd for Netns {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
