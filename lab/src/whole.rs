//! The lab as a whole: its folder, its namespaces, and how both go away.
//!
//! The folder `lab-LABEL-PID-N` in the temporary folder is made first and removed last, and its
//! `alive` file is locked as long as the lab is in use. So what a killed run left is known by name,
//! is not mistaken for a running one's, and [`sweep`] can remove it.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use nix::fcntl::{Flock, FlockArg};

use crate::error::Doing;
use crate::{Namespace, Result};

/// Where `ip netns` looks for namespaces.
const NAMESPACES: &str = "/run/netns";
/// How every lab's name begins.
const PREFIX: &str = "lab-";
/// The file that is locked while the lab is in use.
const ALIVE: &str = "alive";
/// The file that says that the lab is to outlive its process.
const KEPT: &str = "kept";

/// A folder and namespaces of its own, removed when it is dropped.
#[derive(Debug)]
pub struct Lab {
    name: String,
    folder: PathBuf,
    kept: AtomicBool,
    _alive: Flock<File>,
}

impl Lab {
    /// An empty lab. `label` becomes part of the names of its folder and namespaces.
    ///
    /// # Errors
    /// The file system's.
    pub fn new(label: &str) -> Result<Lab> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("{PREFIX}{label}-{}-{number}", std::process::id());
            let folder = std::env::temp_dir().join(&name);
            match fs::create_dir(&folder) {
                // Left by an earlier process of this number.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                made => made.doing(format!("make folder {}", folder.display()))?,
            }
            let alive = lock(&folder).doing(format!("lock {}", folder.display()))?;
            // A sweep may have found the folder before its lock was taken.
            if let Some(alive) = alive.filter(|_| folder.join(ALIVE).exists()) {
                return Ok(Lab {
                    name,
                    folder,
                    kept: AtomicBool::new(false),
                    _alive: alive,
                });
            }
        }
    }

    /// A folder for whatever belongs to this lab, removed with it.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes a namespace, with its loopback up. Its full name has the lab's name before `name`.
    ///
    /// # Errors
    /// The kernel's or the file system's; EEXIST where this lab has one of that name.
    pub fn namespace(&self, name: &str) -> Result<Namespace> {
        let name = format!("{}-{name}", self.name);
        let path = Path::new(NAMESPACES).join(&name);
        Namespace::create(name, path)
    }

    /// Lets the lab outlive its process, and [`sweep`] pass it by.
    ///
    /// # Errors
    /// The file system's.
    pub fn keep(&self) -> Result<()> {
        File::create(self.folder.join(KEPT)).doing("mark the lab as kept")?;
        self.kept.store(true, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if !self.kept.load(Ordering::Relaxed)
            && let Err(error) = remove(&self.folder)
        {
            eprintln!("lab {}: {error}", self.name);
        }
    }
}

/// Removes what killed runs left behind, and with `also_kept` the labs that were kept. Returns how
/// many it removed. Labs in use are left alone.
///
/// # Errors
/// The file system's.
pub fn sweep(also_kept: bool) -> Result<usize> {
    let temporary = std::env::temp_dir();
    let mut removed = 0;
    for folder in entries(&temporary, PREFIX).doing(format!("read {}", temporary.display()))? {
        // Another's, or about to be made or gone: no business of ours.
        if !folder.join(ALIVE).exists() || (folder.join(KEPT).exists() && !also_kept) {
            continue;
        }
        if let Ok(Some(_dead)) = lock(&folder) {
            remove(&folder)?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Whether namespaces can be made here; else why not, so that a test can skip and say so.
///
/// # Errors
/// What failed, and what would help.
pub fn supported() -> std::result::Result<(), String> {
    static ANSWER: OnceLock<std::result::Result<(), String>> = OnceLock::new();
    ANSWER
        .get_or_init(|| {
            Lab::new("probe")
                .and_then(|lab| lab.namespace("probe")?.run(|| ()))
                .map_err(|error| {
                    format!("network namespaces cannot be made: {error} (needs root, or a user namespace with a tmpfs on /run)")
                })
        })
        .clone()
}

/// Locks a lab's folder; `None` where another holds it.
fn lock(folder: &Path) -> io::Result<Option<Flock<File>>> {
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(folder.join(ALIVE))?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(locked) => Ok(Some(locked)),
        Err((_, nix::errno::Errno::EWOULDBLOCK)) => Ok(None),
        Err((_, errno)) => Err(errno.into()),
    }
}

/// Removes a lab's namespaces, then its folder.
fn remove(folder: &Path) -> Result<()> {
    if let Some(name) = folder.file_name().and_then(|name| name.to_str()) {
        let own = format!("{name}-");
        for path in entries(Path::new(NAMESPACES), &own).unwrap_or_default() {
            net::netns::remove(&path)?;
        }
    }
    fs::remove_dir_all(folder).doing(format!("remove {}", folder.display()))
}

/// The paths in a folder whose names begin with `prefix`.
fn entries(folder: &Path, prefix: &str) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(prefix.as_bytes())
        {
            found.push(entry.path());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lab_is_gone_after_its_drop() {
        let lab = Lab::new("drop").unwrap();
        let folder = lab.folder().to_owned();
        fs::write(folder.join("something"), "x").unwrap();
        drop(lab);
        assert!(!folder.exists());
    }

    #[test]
    fn two_labs_of_one_label_have_folders_of_their_own() {
        let (one, two) = (Lab::new("twin").unwrap(), Lab::new("twin").unwrap());
        assert_ne!(one.folder(), two.folder());
    }

    #[test]
    fn a_lab_in_use_is_not_swept() {
        let lab = Lab::new("used").unwrap();
        sweep(false).unwrap();
        assert!(lab.folder().exists());
    }

    #[test]
    fn the_lock_of_a_lab_is_exclusive() {
        let lab = Lab::new("lock").unwrap();
        assert!(lock(lab.folder()).unwrap().is_none());
    }
}
