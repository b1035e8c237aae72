//! The reservations on disk: a folder with one file for each address, named by it, as the
//! reference plugin keeps it (`record` says what is in a file).
//!
//! Nothing is synced to the disk: a reservation protects a running pod, and after a power loss none
//! runs. What a loss leaves empty names nobody, and its address is free.

use std::collections::{BTreeSet, HashSet};
use std::ffi::{CStr, CString};
use std::fs::DirBuilder;
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cni::{Attachment, Error, code};
use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use nix::unistd::{AccessFlags, read};

use crate::lock;
use crate::record::{self, Holder};

mod files;
mod index;
mod locked;
mod taken;

pub use locked::Locked;
pub use taken::Taken;

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

/// All reservations, read once, as one attachment sees them.
#[derive(Debug, Default)]
pub struct Reservations {
    /// Every reserved address.
    pub taken: HashSet<IpAddr>,
    /// The attachment's.
    pub held: Held,
    /// Who holds which.
    entries: index::Entries,
}

/// What an attachment has.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Its own.
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

impl Held {
    /// The addresses, in either format.
    pub fn ips(&self) -> impl Iterator<Item = IpAddr> {
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
            Ok(file) => Ok(Some(Locked::new(self, file))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(Error::new(
                code::TRY_AGAIN_LATER,
                format!(
                    "lock {} is held by another process after {deadline:?}",
                    self.path.join("lock").display()
                ),
            )),
            Err(error) => Err(io_error("lock", &self.path.join("lock"), &error)),
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
        let mut buffer = vec![0; LONGEST];
        let mut all = Reservations::default();
        self.each(|ip, name, _| {
            let content = match self.read(name, &mut buffer) {
                Ok(content) => content,
                Err(Errno::ENOENT) => return,
                // A folder, or broken: the name is taken, and by whom cannot be told.
                Err(_) => {
                    all.taken.insert(ip);
                    return;
                }
            };
            match record::holder(content, attachment) {
                Holder::Attachment => all.held.own.push(Reservation::new(ip, name)),
                Holder::Container => all.held.container.push(Reservation::new(ip, name)),
                Holder::Other => {}
                Holder::Nobody => return,
            }
            all.taken.insert(ip);
            if let Some(entry) = record::owner(content).and_then(index::name) {
                all.entries.entry(entry).or_default().push(ip);
            }
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
        let mut attempt = || {
            let file = openat(&self.folder, name, flags, Mode::empty())?;
            read(&file, buffer)
        };
        let length = match attempt() {
            // A file that cannot be read is another's, and DEL would leave it for ever: not for what is
            // over in a moment.
            Err(error) if error != Errno::ENOENT => attempt(),
            length => length,
        }?;
        Ok(buffer.get(..length).unwrap_or_default())
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
        match files::unnamed(&folder)? {
            Some(mut file) => file.write_all(b"x"),
            None => Ok(nix::unistd::access(nearest, AccessFlags::W_OK)?),
        }
    };
    write().map_err(|error: io::Error| io_error("write", nearest, &error))
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
