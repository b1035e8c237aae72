//! Which attachment holds which addresses, kept beside a large number of reservations, so that nobody
//! has to read them all to find his own: a folder with a symbolic link for each attachment, whose
//! target lists the addresses. (It leads nowhere: the reference plugin, which reads whatever it finds
//! below the store, finds nothing in it.)
//!
//! It is a memory and no truth. What it says is looked up in the reservations, and that it says nothing
//! counts only while nobody has changed the store since. That is told by the folders' times of change:
//! whoever has brought the index up to date seals both with one time that has passed already. No other
//! change can give a folder such a time. So the reference plugin, or a kill, makes the index void,
//! and reading all reservations makes it anew. What fails here leaves it void, and is no error.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, readlinkat};
use nix::sys::stat::{Mode, fstat, futimens, mkdirat};
use nix::sys::time::TimeSpec;
use nix::unistd::{UnlinkatFlags, symlinkat, unlinkat};

use crate::record::Owner;

/// The folder's name, which is no address.
pub const NAME: &str = ".by-attachment";
/// Fewer reservations are read as fast as the index is.
pub const WORTHWHILE: usize = 64;
/// How long ago a seal says that the change was. No clock's steps, and no file system's, are so long.
const AGO: Duration = Duration::from_secs(10);
/// A file's name, in bytes (linux/limits.h: `NAME_MAX`).
const LONGEST_NAME: usize = 255;

/// Each attachment's entry: its name, and the addresses.
pub type Entries = BTreeMap<String, Vec<IpAddr>>;

/// The index of a store that is locked.
#[derive(Debug)]
pub struct Index {
    folder: OwnedFd,
}

/// The name of an owner's entry; `None` where no file can have it. No request has an interface that
/// no entry is named by, but a file may name one.
pub fn name(owner: Owner) -> Option<String> {
    let Owner {
        container_id,
        ifname,
    } = owner;
    let name = match ifname {
        Some(ifname) => format!("{container_id}:{ifname}"),
        None => container_id.to_owned(),
    };
    (name.len() <= LONGEST_NAME && !name.contains('/')).then_some(name)
}

impl Index {
    /// The store's index; `None` where there is none that counts.
    pub fn open(store: &OwnedFd) -> Option<Index> {
        let index = Index::in_folder(store).ok()?;
        let seal = seal(store)?;
        (self::seal(&index.folder)? == seal).then_some(index)
    }

    /// Makes the index say what these entries say, and nothing else.
    pub fn make(store: &OwnedFd, entries: Entries) -> nix::Result<Index> {
        match mkdirat(store, NAME, Mode::S_IRWXU) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(error) => return Err(error),
        }
        let index = Index::in_folder(store)?;
        let mut missing = entries;
        for there in index.names()? {
            let name = there.to_str().unwrap_or_default();
            let wanted = missing.get(name);
            if wanted.is_some() && index.find(name).ok().as_ref() == wanted {
                missing.remove(name);
            } else {
                index.remove(there.as_c_str())?;
            }
        }
        for (name, ips) in &missing {
            index.put(name, ips)?;
        }
        Ok(index)
    }

    /// Removes the index, for a store that is small again.
    pub fn discard(store: &OwnedFd) -> nix::Result<()> {
        let index = match Index::in_folder(store) {
            Err(Errno::ENOENT) => return Ok(()),
            other => other?,
        };
        for name in index.names()? {
            index.remove(name.as_c_str())?;
        }
        unlinkat(store, NAME, UnlinkatFlags::RemoveDir)
    }

    fn in_folder(store: &OwnedFd) -> nix::Result<Index> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
        let folder = openat(store, NAME, flags, Mode::empty())?;
        Ok(Index { folder })
    }

    fn names(&self) -> nix::Result<Vec<CString>> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        let mut names = Vec::new();
        for entry in Dir::openat(&self.folder, ".", flags, Mode::empty())?.iter() {
            let name = entry?.file_name().to_owned();
            if !matches!(name.as_bytes(), b"." | b"..") {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// The addresses of the entry of that name; none where there is no such entry.
    pub fn find(&self, name: &str) -> nix::Result<Vec<IpAddr>> {
        let text = match readlinkat(&self.folder, name) {
            Err(Errno::ENOENT) => return Ok(Vec::new()),
            other => other?,
        };
        let text = text.to_str().ok_or(Errno::EINVAL)?;
        let ips = text.split(',').map(|ip| ip.parse());
        ips.collect::<Result<_, _>>().map_err(|_| Errno::EINVAL)
    }

    /// Makes the entry of that name say these addresses.
    pub fn put(&self, name: &str, ips: &[IpAddr]) -> nix::Result<()> {
        let text: Vec<String> = ips.iter().map(IpAddr::to_string).collect();
        self.remove(name)?;
        symlinkat(text.join(",").as_str(), &self.folder, name)
    }

    /// Removes the entry of that name, if there is one.
    pub fn remove(&self, name: &(impl nix::NixPath + ?Sized)) -> nix::Result<()> {
        match unlinkat(&self.folder, name, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Says that the index is as the store is.
    pub fn seal(&self, store: &OwnedFd) -> nix::Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let past = now.ok().and_then(|now| now.checked_sub(AGO));
        let past = TimeSpec::from_duration(past.ok_or(Errno::EINVAL)?);
        futimens(&self.folder, &TimeSpec::UTIME_OMIT, &past)?;
        futimens(store, &TimeSpec::UTIME_OMIT, &past)
    }
}

/// The time by which a folder is sealed; `None` where it has been changed since.
fn seal(folder: &OwnedFd) -> Option<(i64, i64)> {
    let stat = fstat(folder).ok()?;
    // When the times themselves were set: the kernel writes that, and nobody else can.
    let set = stat.st_ctime;
    let ago = i64::try_from(AGO.as_secs() / 2).ok()?;
    (set.saturating_sub(stat.st_mtime) >= ago).then_some((stat.st_mtime, stat.st_mtime_nsec))
}

#[cfg(test)]
mod tests;
