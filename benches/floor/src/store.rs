//! The reservation, as host-local keeps it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use nix::fcntl::{Flock, FlockArg};

use crate::Pod;

/// Takes the address: refused where it is taken.
pub fn reserve(store: &Path, pod: Pod) -> io::Result<()> {
    let _lock = lock(store)?;
    let address = pod.address().to_string();
    let mut file = File::create_new(store.join(&address))?;
    file.write_all(format!("floor{}\r\neth0", pod.number).as_bytes())?;
    fs::write(store.join("last_reserved_ip.0"), address)
}

/// Gives it back.
pub fn release(store: &Path, pod: Pod) -> io::Result<()> {
    let _lock = lock(store)?;
    fs::remove_file(store.join(pod.address().to_string()))
}

fn lock(store: &Path) -> io::Result<Flock<File>> {
    let mut options = File::options();
    let file = options
        .create(true)
        .truncate(false)
        .write(true)
        .open(store.join("lock"))?;
    Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| errno.into())
}
