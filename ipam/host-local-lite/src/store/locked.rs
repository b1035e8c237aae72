//! The store while it is locked: only then it is changed.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::FileExt;

use cni::{Attachment, Error, Undo};
use nix::fcntl::{OFlag, openat};

use super::files::{file_mode, publish, unlink};
use super::index::{self, Index};
use super::{Held, Reservation, Reservations, Store, Taken, io_error};
use crate::record::{self, Holder, Owner};

/// The folder while it is locked.
#[derive(Debug)]
pub struct Locked<'a> {
    store: &'a Store,
    _lock: File,
    /// Where the store is large, and the index was good when it was last looked at.
    index: Option<Index>,
}

impl<'a> Locked<'a> {
    /// Of a lock that is held as long as the file is open.
    pub(super) fn new(store: &'a Store, lock: File) -> Locked<'a> {
        Locked {
            store,
            _lock: lock,
            index: Index::open(&store.folder),
        }
    }

    /// What the attachment holds, and what is taken: by the index, or by reading all.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn look(&mut self, attachment: &Attachment) -> Result<(Held, Taken<'a>), Error> {
        match self.indexed(attachment) {
            Some(held) => Ok((held, Taken::of(self.store))),
            None => self.look_at_all(attachment),
        }
    }

    /// As [`Locked::look`], by reading all, after which the index is good, where one is worth while.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn look_at_all(&mut self, attachment: &Attachment) -> Result<(Held, Taken<'a>), Error> {
        let Reservations {
            taken,
            held,
            entries,
        } = self.store.reservations(attachment)?;
        let folder = &self.store.folder;
        let made = if taken.len() < index::WORTHWHILE {
            Index::discard(folder).map(|()| None)
        } else {
            Index::make(folder, entries).map(Some)
        };
        self.index = made.unwrap_or_default();
        self.seal();
        Ok((held, Taken::Read(taken)))
    }

    /// What the attachment holds, as the index and the files that it leads to say.
    fn indexed(&self, attachment: &Attachment) -> Option<Held> {
        let index = self.index.as_ref()?;
        let mut held = Held::default();
        for owner in [Owner::of(attachment), Owner::before(attachment)] {
            for ip in index.find(&index::name(owner)?).ok()? {
                let name = ip.to_string();
                let list = match self.store.holder(attachment, &name) {
                    Holder::Attachment => &mut held.own,
                    Holder::Container => &mut held.container,
                    Holder::Other | Holder::Nobody => continue,
                };
                list.push(Reservation::new(ip, CString::new(name).ok()?.as_c_str()));
            }
        }
        Some(held)
    }

    /// Says of the index that it is as the store is; where that cannot be said, it is void.
    fn seal(&mut self) {
        let sealed = self
            .index
            .as_ref()
            .map(|index| index.seal(&self.store.folder));
        if !matches!(sealed, Some(Ok(()))) {
            self.index = None;
        }
    }

    /// Notes in the index what the attachment holds now.
    fn note(&mut self, owner: Owner, ips: &[IpAddr]) {
        let name = index::name(owner);
        let noted = self
            .index
            .as_ref()
            .zip(name)
            .map(|(index, name)| match ips {
                [] => index.remove(name.as_str()),
                ips => index.put(&name, ips),
            });
        if !matches!(noted, Some(Ok(()))) {
            self.index = None;
        }
        self.seal();
    }

    /// Reserves one address from each set, in the sets' order, and remembers them as the last
    /// ones given. After an error nothing is reserved.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn reserve_all(
        &mut self,
        attachment: &Attachment,
        held: &Held,
        ips: &[IpAddr],
    ) -> Result<(), Error> {
        self.reserve_each(attachment, ips)?;
        let before = held.own.iter().map(|one| one.ip);
        let all: Vec<IpAddr> = before.chain(ips.iter().copied()).collect();
        self.note(Owner::of(attachment), &all);
        Ok(())
    }

    fn reserve_each(&self, attachment: &Attachment, ips: &[IpAddr]) -> Result<(), Error> {
        let mut undo = Undo::new();
        for ip in ips {
            let name = ip.to_string();
            self.reserve(attachment, &name)?;
            undo.push(move || drop(unlink(&self.store.folder, name.as_str())));
        }
        for (set, ip) in ips.iter().enumerate() {
            let before = self.last(set);
            let failed = |error| io_error("write", &self.store.path.join(last_name(set)), &error);
            let file = self.open_last(set).map_err(failed)?;
            undo.push(move || match before {
                Some(ip) => drop(self.open_last(set).and_then(|file| write_last(&file, ip))),
                None => drop(unlink(&self.store.folder, last_name(set).as_str())),
            });
            write_last(&file, *ip).map_err(failed)?;
        }
        undo.commit();
        Ok(())
    }

    /// Frees what a DEL of the attachment frees.
    ///
    /// # Errors
    /// All that could not be removed.
    pub fn release_all(&mut self, attachment: &Attachment, held: &Held) -> Result<(), Error> {
        if held.to_release().is_empty() {
            return Ok(());
        }
        let freed = held.to_release().iter().map(|one| self.release(one));
        Error::all(freed.filter_map(Result::err).collect())?;
        let owner = if held.own.is_empty() {
            Owner::before(attachment)
        } else {
            Owner::of(attachment)
        };
        self.note(owner, &[]);
        Ok(())
    }

    /// Frees an address.
    ///
    /// # Errors
    /// The file cannot be removed.
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

    /// Follows no link, since what it leads to would be written over, and does not wait where it is a
    /// pipe.
    fn open_last(&self, set: usize) -> io::Result<File> {
        let flags = OFlag::O_CREAT | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
        let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
        let name = last_name(set);
        let file = openat(&self.store.folder, name.as_str(), flags, file_mode())?;
        Ok(file.into())
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

/// Writes over what is there, and cuts it then: a kill between leaves another hint, at worst.
fn write_last(file: &File, ip: IpAddr) -> io::Result<()> {
    let text = ip.to_string();
    file.write_all_at(text.as_bytes(), 0)?;
    file.set_len(text.len().try_into().map_err(io::Error::other)?)
}

fn last_name(set: usize) -> String {
    format!("last_reserved_ip.{set}")
}

#[cfg(test)]
mod tests;
