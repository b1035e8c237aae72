//! Network namespaces.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag};
use nix::libc;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::statfs::{NSFS_MAGIC, fstatfs};

use crate::{Error, Result};

/// The calling thread's namespace.
const CURRENT: &str = "/proc/thread-self/ns/net";

/// Where `ip netns` keeps its namespaces.
const NETNS_DIR: &str = "/run/netns";

/// An open network namespace. It lives at least as long as this.
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
        // NONBLOCK: the path may name a FIFO.
        let flags = (OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits();
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let file = opened.map_err(|source| open_error(path, source))?;
        if is_netns(&file) {
            Ok(Netns { file })
        } else {
            Err(Error::NotANetns(path.to_owned()))
        }
    }

    /// The calling thread's namespace (`/proc/thread-self/ns/net`).
    ///
    /// # Errors
    /// The file system's.
    pub fn current() -> Result<Netns> {
        let file =
            File::open(CURRENT).map_err(|source| io("open the own network namespace", source))?;
        Ok(Netns { file })
    }

    /// A new namespace without a name: it ends with its last handle, socket and process.
    ///
    /// # Errors
    /// The kernel's.
    pub fn anonymous() -> Result<Netns> {
        let make = || {
            unshare(CloneFlags::CLONE_NEWNET)
                .map_err(|errno| io("make a network namespace", errno))?;
            Netns::current()
        };
        // On a thread of its own, which ends in the new namespace: the caller's stays where it is.
        let thread = std::thread::Builder::new().spawn(make);
        let thread = thread.map_err(|source| io("start a thread", source))?;
        thread
            .join()
            .map_err(|_| Error::Protocol("a thread panicked".to_owned()))?
    }

    /// Whether both are the same namespace (device and inode).
    ///
    /// # Errors
    /// The file system's.
    pub fn same_as(&self, other: &Netns) -> Result<bool> {
        let identity = |netns: &Netns| {
            let metadata = netns.file.metadata();
            let metadata = metadata.map_err(|source| io("look at a network namespace", source))?;
            Ok((metadata.dev(), metadata.ino()))
        };
        Ok(identity(self)? == identity(other)?)
    }

    /// Another handle to the same namespace.
    ///
    /// # Errors
    /// The file system's.
    pub fn try_clone(&self) -> Result<Netns> {
        let file = self.file.try_clone();
        let file = file.map_err(|source| io("clone a namespace's handle", source))?;
        Ok(Netns { file })
    }

    /// Runs `inside` on this thread in the namespace, and comes back; aborts the process if it
    /// cannot. `/proc/sys/net` (by `/proc/thread-self` or the opening thread) and new sockets are
    /// then the namespace's.
    ///
    /// # Errors
    /// The kernel's, where it cannot be entered.
    pub fn enter<T>(&self, inside: impl FnOnce() -> T) -> Result<T> {
        let home = Netns::current()?;
        setns(self, CloneFlags::CLONE_NEWNET)
            .map_err(|errno| io("enter a network namespace", errno))?;
        // Only who has left must come back: who may not leave may not come back either.
        let back = Return { home };
        let result = inside();
        drop(back);
        Ok(result)
    }
}

impl AsFd for Netns {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Brings the thread home, on unwinding too.
struct Return {
    home: Netns,
}

impl Drop for Return {
    fn drop(&mut self) {
        if let Err(errno) = setns(&self.home, CloneFlags::CLONE_NEWNET) {
            // Whatever this thread did next would happen in the wrong namespace.
            eprintln!("cannot return to the own network namespace: {errno}");
            std::process::abort();
        }
    }
}

/// Makes a namespace and binds it to a path, which must not exist. Equivalent to `ip netns add`
/// for a path in `/run/netns`.
///
/// # Errors
/// The kernel's; nothing is left then.
pub fn create(path: &Path) -> Result<Netns> {
    let doing = || format!("make netns {}", path.display());
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(|source| io(doing(), source))?;
        if parent == Path::new(NETNS_DIR) {
            share_mounts(parent)?;
        }
    }
    let netns = Netns::anonymous()?;
    // Nobody reads the file itself: the namespace covers it.
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o0)
        .open(path);
    file.map_err(|source| io(doing(), source))?;
    let handle = format!("/proc/self/fd/{}", netns.file.as_raw_fd());
    let bound = mount(
        Some(handle.as_str()),
        path,
        None::<&str>,
        MsFlags::MS_BIND,
        None::<&str>,
    );
    if let Err(errno) = bound {
        let _ = std::fs::remove_file(path);
        return Err(io(doing(), errno));
    }
    Ok(netns)
}

/// Unbinds the namespace at a path and removes the file. Equivalent to `ip netns del`. That there
/// is none is no error.
///
/// # Errors
/// The kernel's.
pub fn remove(path: &Path) -> Result<()> {
    let doing = || format!("remove netns {}", path.display());
    match umount2(path, MntFlags::MNT_DETACH) {
        // EINVAL: nothing is mounted there.
        Ok(()) | Err(Errno::EINVAL | Errno::ENOENT) => {}
        Err(errno) => return Err(io(doing(), errno)),
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io(doing(), error)),
        _ => Ok(()),
    }
}

/// Makes the folder a mount that is shared, so that a namespace bound in it is seen, and can be
/// unbound, in every mount namespace. The lock keeps others from mounting it twice.
fn share_mounts(folder: &Path) -> Result<()> {
    let doing = || format!("share the mounts of {}", folder.display());
    let file = File::open(folder).map_err(|source| io(doing(), source))?;
    let _lock =
        Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| io(doing(), errno))?;
    let change = |source, flags| mount(source, folder, None::<&str>, flags, None::<&str>);
    let shared = MsFlags::MS_SHARED | MsFlags::MS_REC;
    let result = change(None, shared).or_else(|errno| match errno {
        // It is no mount yet.
        Errno::EINVAL => {
            change(Some(folder), MsFlags::MS_BIND | MsFlags::MS_REC)?;
            change(None, shared)
        }
        errno => Err(errno),
    });
    result.map_err(|errno| io(doing(), errno))
}

/// What a path that could not be opened says of the namespace it should name.
fn open_error(path: &Path, source: io::Error) -> Error {
    match source.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOENT | Errno::ENOTDIR | Errno::ENAMETOOLONG) => {
            Error::NetnsMissing(path.to_owned())
        }
        // A loop of links; a socket; a device without a driver.
        Some(Errno::ELOOP | Errno::ENXIO | Errno::ENODEV) => Error::NotANetns(path.to_owned()),
        Some(_) => io(format!("failed to open netns {path:?}"), source),
        // Not from the kernel: the path contains a NUL.
        None => Error::NetnsMissing(path.to_owned()),
    }
}

/// Whether the file is a namespace (of the file system for them), and one of network type.
fn is_netns(file: &File) -> bool {
    if !fstatfs(file).is_ok_and(|info| info.filesystem_type() == NSFS_MAGIC) {
        return false;
    }
    // A kernel that does not tell will tell on entering.
    matches!(
        raw::namespace_kind(file),
        Ok(libc::CLONE_NEWNET) | Err(Errno::ENOTTY)
    )
}

/// A failure with what was being done.
fn io(doing: impl Into<String>, source: impl Into<io::Error>) -> Error {
    Error::Io {
        doing: doing.into(),
        source: source.into(),
    }
}
