//! The reservations on disk: a folder with one file for each address, named by it, as the
//! reference plugin keeps it (`record` says what is in a file).
//!
//! Nothing is synced to the disk: a reservation protects a running pod, and after a power loss none
//! runs. What a loss leaves empty names nobody, and its address is free.

use std::collections::{BTreeSet, HashSet};
use std::ffi::{CStr, CString};
use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cni::{Attachment, Error, Undo, code};
use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, openat};
use nix::sys::stat::Mode;
use nix::unistd::{AccessFlags, UnlinkatFlags, linkat, read, unlinkat};

use crate::lock;
use crate::record::{self, Holder};

/// More than what a reservation of another can hold and still be compared with ours.
const SLACK: usize = 1024;
/// More than any reservation, in bytes: no variable of a process's environment, in which a container
/// id comes, is longer than 128 KiB (linux/binfmts.h: `MAX_ARG_STRLEN`).
const LONGEST: usize = (128 + 1) * 1024;

/// A network's folder.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    folder: OwnedFd,
}

/// The folder while it is locked: only then it is changed.
#[derive(Debug)]
pub struct Locked<'a> {
    store: &'a Store,
    _lock: File,
}

/// All reservations, read once, as one attachment sees them.
#[derive(Debug, Default)]
pub struct Reservations {
    /// Every reserved address.
    pub taken: HashSet<IpAddr>,
    /// The attachment's own.
    own: Vec<Reservation>,
    /// Its container's, in the oldest format.
    container: Vec<Reservation>,
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// The address.
    pub ip: IpAddr,
    name: CString,
}

impl Reservation {
    fn new(ip: IpAddr, name: &CStr) -> Reservation {
        Reservation {
            ip,
            name: name.to_owned(),
        }
    }
}

impl Reservations {
    /// The addresses that the attachment holds, in either format.
    pub fn held(&self) -> impl Iterator<Item = IpAddr> {
        self.own.iter().chain(&self.container).map(|one| one.ip)
    }

    /// What a DEL of the attachment removes. The oldest format counts only where there is nothing
    /// in the newer one, since it may be another interface's.
    pub fn to_release(&self) -> &[Reservation] {
        if self.own.is_empty() {
            &self.container
        } else {
            &self.own
        }
    }
}

impl Store {
    /// Opens the folder; `None` where there is none, or can be none under that path.
    pub fn open(path: &Path) -> Result<Option<Store>, Error> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        match nix::fcntl::open(path, flags, Mode::empty()) {
            Ok(folder) => Ok(Some(Store {
                path: path.to_path_buf(),
                folder,
            })),
            Err(Errno::ENOENT | Errno::ENOTDIR) => Ok(None),
            // Parts that are too long, a NUL byte, links in a circle.
            Err(Errno::ENAMETOOLONG | Errno::EINVAL | Errno::ELOOP) => Ok(None),
            Err(error) => Err(io_error("open", path, &error.into())),
        }
    }

    /// Opens the folder, making it and those above it where they are missing.
    pub fn create(path: &Path) -> Result<Store, Error> {
        let made = DirBuilder::new().recursive(true).mode(0o755).create(path);
        made.map_err(|error| io_error("mkdir", path, &error))?;
        Self::open(path)?.ok_or_else(|| io_error("open", path, &Errno::ENOENT.into()))
    }

    /// Locks the folder; `None` where it has been deleted.
    ///
    /// # Errors
    /// Code 11 where others still hold the lock at the deadline.
    pub fn lock(&self, deadline: Duration) -> Result<Option<Locked<'_>>, Error> {
        match lock::acquire(self.folder.as_fd(), deadline) {
            Ok(file) => Ok(Some(Locked {
                store: self,
                _lock: file,
            })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(Error::new(
                code::TRY_AGAIN_LATER,
                format!(
                    "lock {} is held by another process after {deadline:?}",
                    self.path.join("lock").display()
                ),
            )),
            Err(error) => Err(io_error("lock", &self.path, &error)),
        }
    }

    /// Every name in the folder that is an address, in no order. Names that are none are no
    /// reservations.
    fn each(&self, mut visit: impl FnMut(IpAddr, &CStr, Option<Type>)) -> Result<(), Error> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        let listing = Dir::openat(&self.folder, ".", flags, Mode::empty());
        let failed = |error: Errno| io_error("read", &self.path, &error.into());
        for entry in listing.map_err(failed)?.iter() {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            if let Some(ip) = name.to_str().ok().and_then(|name| name.parse().ok()) {
                visit(ip, name, entry.file_type());
            }
        }
        Ok(())
    }

    /// The addresses that files are named by. No file is read: one that names nobody, and so
    /// leaves its address free, counts too.
    pub fn names(&self) -> Result<HashSet<IpAddr>, Error> {
        let mut names = HashSet::new();
        self.each(|ip, _, _| {
            names.insert(ip);
        })?;
        Ok(names)
    }

    /// Reads every reservation.
    pub fn reservations(&self, attachment: &Attachment) -> Result<Reservations, Error> {
        let mut buffer = vec![0; record::content(attachment).len() + SLACK];
        let mut all = Reservations::default();
        self.each(|ip, name, _| {
            let holder = match self.read(name, &mut buffer) {
                Ok(content) => record::holder(content, attachment),
                Err(Errno::ENOENT) => return,
                // A folder, or broken: the name is taken, and by whom cannot be told.
                Err(_) => Holder::Other,
            };
            let list = match holder {
                Holder::Attachment => Some(&mut all.own),
                Holder::Container => Some(&mut all.container),
                Holder::Other => None,
                Holder::Nobody => return,
            };
            all.taken.insert(ip);
            list.into_iter()
                .for_each(|list| list.push(Reservation::new(ip, name)));
        })?;
        Ok(all)
    }

    /// Reads every reservation: those that no valid attachment holds, and what could not be read.
    /// The oldest format stays with its container, by whatever interface that is valid.
    pub fn garbage(
        &self,
        network: &str,
        valid: &BTreeSet<Attachment>,
    ) -> Result<(Vec<Reservation>, Vec<Error>), Error> {
        let is_valid = |id: &str, ifname: Option<&str>| {
            let from = Attachment::new(network, id, ifname.unwrap_or_default());
            match ifname {
                Some(_) => valid.contains(&from),
                None => valid
                    .range(from..)
                    .next()
                    .is_some_and(|next| next.container_id == id),
            }
        };
        let mut buffer = vec![0; LONGEST];
        let (mut garbage, mut errors) = (Vec::new(), Vec::new());
        self.each(|ip, name, kind| {
            if kind.is_some_and(|kind| kind != Type::File) {
                return;
            }
            match self.read(name, &mut buffer) {
                // Longer than any reservation.
                Ok(content) if content.len() == LONGEST => {}
                Ok(content) if record::is_garbage(content, is_valid) => {
                    garbage.push(Reservation::new(ip, name));
                }
                Ok(_) | Err(Errno::ENOENT) => {}
                Err(error) => errors.push(io_error("read", &self.file(ip), &error.into())),
            }
        })?;
        Ok((garbage, errors))
    }

    /// Whether the attachment holds the address; only its file is read.
    pub fn holds(&self, attachment: &Attachment, ip: IpAddr) -> bool {
        matches!(
            self.holder(attachment, &ip.to_string()),
            Holder::Attachment | Holder::Container
        )
    }

    /// Who has the address, for a person.
    pub fn describe(&self, ip: IpAddr) -> String {
        let mut buffer = vec![0; SLACK];
        let content = self.read(ip.to_string().as_str(), &mut buffer);
        content.map_or_else(|error| error.desc().to_string(), record::describe)
    }

    fn file(&self, ip: IpAddr) -> PathBuf {
        self.path.join(ip.to_string())
    }

    /// Whether the address's file names nobody, or is not there.
    pub fn is_free(&self, ip: IpAddr) -> bool {
        // Whoever asks: it is somebody, or nobody.
        let nobody = Attachment::new("", "", "");
        self.holder(&nobody, &ip.to_string()) == Holder::Nobody
    }

    fn holder(&self, attachment: &Attachment, name: &str) -> Holder {
        let mut buffer = vec![0; record::content(attachment).len() + SLACK];
        match self.read(name, &mut buffer) {
            Ok(content) => record::holder(content, attachment),
            Err(Errno::ENOENT) => Holder::Nobody,
            Err(_) => Holder::Other,
        }
    }

    /// As much of a file as fits. A pipe in the folder does not make us wait.
    fn read<'b>(
        &self,
        name: &(impl nix::NixPath + ?Sized),
        buffer: &'b mut [u8],
    ) -> nix::Result<&'b [u8]> {
        let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
        let file = openat(&self.folder, name, flags, Mode::empty())?;
        let length = read(&file, buffer)?;
        Ok(buffer.get(..length).unwrap_or_default())
    }
}

impl Locked<'_> {
    /// Reserves one address from each set, in the sets' order, and remembers them as the last
    /// ones given. After an error nothing is reserved.
    pub fn reserve_all(&self, attachment: &Attachment, ips: &[IpAddr]) -> Result<(), Error> {
        let mut undo = Undo::new();
        for ip in ips {
            let name = ip.to_string();
            self.reserve(attachment, &name)?;
            undo.push(move || drop(unlink(&self.store.folder, name.as_str())));
        }
        for (set, ip) in ips.iter().enumerate() {
            let before = self.last(set);
            undo.push(move || match before {
                Some(ip) => drop(self.set_last(set, ip)),
                None => drop(unlink(&self.store.folder, last_name(set).as_str())),
            });
            self.set_last(set, *ip).map_err(|error| {
                io_error("write", &self.store.path.join(last_name(set)), &error)
            })?;
        }
        undo.commit();
        Ok(())
    }

    /// Frees an address.
    pub fn release(&self, reservation: &Reservation) -> Result<(), Error> {
        unlink(&self.store.folder, reservation.name.as_c_str())
            .map_err(|error| io_error("remove", &self.store.file(reservation.ip), &error))
    }

    /// The address given last from the set of that index. It is a hint: one that is missing or
    /// unreadable is none.
    pub fn last(&self, set: usize) -> Option<IpAddr> {
        let mut buffer = [0; 64];
        let content = self.store.read(last_name(set).as_str(), &mut buffer).ok()?;
        std::str::from_utf8(content).ok()?.trim().parse().ok()
    }

    /// Writes over what is there, and cuts it then: a kill between leaves another hint, at worst.
    fn set_last(&self, set: usize, ip: IpAddr) -> io::Result<()> {
        let flags = OFlag::O_CREAT | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
        let name = last_name(set);
        let file = File::from(openat(
            &self.store.folder,
            name.as_str(),
            flags,
            file_mode(),
        )?);
        let text = ip.to_string();
        file.write_all_at(text.as_bytes(), 0)?;
        file.set_len(text.len().try_into().map_err(io::Error::other)?)
    }

    fn reserve(&self, attachment: &Attachment, name: &str) -> Result<(), Error> {
        let folder = &self.store.folder;
        let content = record::content(attachment);
        let mut made = publish(folder, name, &content);
        let exists = matches!(&made, Err(error) if error.kind() == io::ErrorKind::AlreadyExists);
        if exists && self.store.holder(attachment, name) == Holder::Nobody {
            made = unlink(folder, name).and_then(|()| publish(folder, name, &content));
        }
        made.map_err(|error| io_error("write", &self.store.path.join(name), &error))
    }
}

fn last_name(set: usize) -> String {
    format!("last_reserved_ip.{set}")
}

fn file_mode() -> Mode {
    Mode::S_IRUSR | Mode::S_IWUSR
}

/// Makes a file that is whole from the moment it has its name: programs that do not take the lock
/// read every file in the folder, and a kill must not leave half of one.
fn publish(folder: &OwnedFd, name: &str, content: &[u8]) -> io::Result<()> {
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
fn unnamed(folder: &OwnedFd) -> io::Result<Option<File>> {
    let flags = OFlag::O_TMPFILE | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
    match openat(folder, ".", flags, file_mode()) {
        Ok(file) => Ok(Some(file.into())),
        Err(Errno::EOPNOTSUPP | Errno::EISDIR | Errno::EINVAL | Errno::ENOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Sees that files can be written in the folder, or in the nearest one above it that is there, where
/// it would be made. Nothing is left.
pub fn check_writable(path: &Path) -> Result<(), Error> {
    let mut folders = path.ancestors().filter(|folder| folder.exists());
    let nearest = folders.next().unwrap_or(Path::new("."));
    let write = || {
        let flags = OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        let folder = nix::fcntl::open(nearest, flags, Mode::empty())?;
        match unnamed(&folder)? {
            Some(mut file) => file.write_all(b"x"),
            None => Ok(nix::unistd::access(nearest, AccessFlags::W_OK)?),
        }
    };
    write().map_err(|error: io::Error| io_error("write", nearest, &error))
}

/// The way without unnamed files. What a kill leaves is empty and names nobody.
fn write_named(folder: &OwnedFd, name: &str, content: &[u8]) -> io::Result<()> {
    let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
    let mut file = File::from(openat(folder, name, flags, file_mode())?);
    file.write_all(content).inspect_err(|_| {
        // The error of the write is the one to report.
        drop(unlink(folder, name));
    })
}

/// Removes a file; that there is none is no error.
fn unlink(folder: &OwnedFd, name: &(impl nix::NixPath + ?Sized)) -> io::Result<()> {
    match unlinkat(folder, name, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// What a file or folder refused, in the texts of C, as the reference plugin prints them (code 5).
pub fn io_error(doing: &str, path: &Path, error: &io::Error) -> Error {
    let reason = match error.raw_os_error() {
        Some(errno) => Errno::from_raw(errno).desc().to_lowercase(),
        None => error.to_string(),
    };
    Error::new(
        code::IO_FAILURE,
        format!("{doing} {}: {reason}", path.display()),
    )
}

#[cfg(test)]
mod tests;
