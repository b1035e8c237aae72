//! A folder that files are put into, held against others for as long as that takes.

use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cni::Undo;
use cni::runtime::read_regular;
use tempfile::{Builder, NamedTempFile, TempPath};

use crate::decide::Seen;
use crate::error::{Doing, Error, Result};
use crate::found::Found;
use crate::list::{self, List};
use crate::lock::{Lock, TRIES};
use crate::order::Content;

/// Behind the name of what another had there.
const KEPT: &str = ".bak";

/// A folder, its list, and the lock on it.
#[derive(Debug)]
pub struct Place {
    /// The folder.
    pub path: PathBuf,
    /// What is ours in it.
    pub list: List,
    lock: Lock,
}

impl Place {
    /// Holds the folder, which is made where it is not there; `undo` removes it again, and must have done
    /// so when the answer is dropped.
    ///
    /// # Errors
    /// Another process holds it; it is no folder; the file system's.
    pub fn make(path: &Path, undo: &mut Undo) -> Result<Place> {
        for _ in 0..TRIES {
            let missing = not_there(path);
            for above in missing.iter().filter(|folder| **folder != path) {
                let above = (*above).to_owned();
                undo.push(move || remove_folder(&above));
            }
            match make_folders(path, &missing) {
                // One that failed is removing what it has made.
                Err(error) if is_removed_meanwhile(&error, &missing) => continue,
                made => made.doing(|| format!("make {}", path.display()))?,
            }
            let Some(place) = Place::open(path)? else {
                continue;
            };
            // Not before it is held: it may be another's by then, who has found it empty.
            if missing.contains(&path) {
                let made = path.to_owned();
                undo.push(move || drop(fs::remove_dir(made)));
            }
            return Ok(place);
        }
        Err(Error::Restless(path.to_owned()))
    }

    /// Holds a folder; `None` where it is not there. What one that was killed has left in it goes.
    ///
    /// # Errors
    /// As [`Place::make`].
    pub fn open(path: &Path) -> Result<Option<Place>> {
        let Some(lock) = Lock::take(path)? else {
            return Ok(None);
        };
        let list = read_list(path)?;
        for name in list.all_names().into_iter().chain([list::NAME]) {
            for left in [staged(name), former(name)] {
                drop(remove_if_there(&path.join(left)));
            }
        }
        Ok(Some(Place {
            path: path.to_owned(),
            list,
            lock,
        }))
    }

    /// Whether another path leads to the same folder.
    pub fn is_at(&self, path: &Path) -> bool {
        self.lock.is_of(path)
    }

    /// What is known of a name.
    ///
    /// # Errors
    /// The file system's.
    pub fn look(&self, name: &str) -> Result<Seen> {
        let path = self.path.join(name);
        let found = Found::at(&path)?;
        let backup = Found::at(&self.path.join(kept(name)))?;
        let mode = path.metadata().map_or(0, |file| file.permissions().mode());
        Ok(Seen {
            found,
            is_ours: matches!(found, Found::File(sum) if self.list.has(name, sum)),
            is_listed: self.list.names(name),
            is_executable: mode & 0o111 != 0,
            backup,
            is_kept: backup != Found::Nothing && self.list.names(&kept(name)),
        })
    }

    /// Exchanges the list; `undo` brings the former one back. An empty one is no file.
    ///
    /// # Errors
    /// The file system's; the former one is there then.
    pub fn set_list(&mut self, list: List, undo: &mut Undo) -> Result<()> {
        if list == self.list {
            return Ok(());
        }
        write_list(&self.path, &list)?;
        let former = std::mem::replace(&mut self.list, list);
        let folder = self.path.clone();
        undo.push(move || drop(write_list(&folder, &former)));
        Ok(())
    }
}

/// The folders of a path that are not there, from the outermost on.
fn not_there(path: &Path) -> Vec<&Path> {
    let missing =
        |folder: &&Path| !folder.as_os_str().is_empty() && matches!(folder.try_exists(), Ok(false));
    let mut missing: Vec<&Path> = path.ancestors().take_while(missing).collect();
    missing.reverse();
    missing
}

/// Makes the folders of a path that are not there.
fn make_folders(path: &Path, missing: &[&Path]) -> io::Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    fs::create_dir_all(path)?;
    // Whatever the umask is: not only root looks there.
    let mut missing = missing.iter();
    missing.try_for_each(|folder| fs::set_permissions(folder, Permissions::from_mode(0o755)))
}

/// Whether a folder was there or above at one look, and not at the next.
fn is_removed_meanwhile(error: &io::Error, missing: &[&Path]) -> bool {
    match error.kind() {
        io::ErrorKind::NotFound => true,
        // Not where something else has the name.
        io::ErrorKind::AlreadyExists => missing.iter().all(|it| it.is_dir() || !it.exists()),
        _ => false,
    }
}

/// Removes an empty folder that nobody holds.
fn remove_folder(path: &Path) {
    if let Ok(Some(_held)) = Lock::take(path) {
        drop(fs::remove_dir(path));
    }
}

fn read_list(folder: &Path) -> Result<List> {
    let file = folder.join(list::NAME);
    let invalid = |reason: String| io::Error::new(io::ErrorKind::InvalidData, reason);
    let list = read_regular(&file).and_then(|bytes| {
        let text = String::from_utf8(bytes).map_err(|_| invalid("it is no text".to_owned()))?;
        List::parse(&text).map_err(invalid)
    });
    match list {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(List::default()),
        list => list.map_err(|source| Error::List { file, source }),
    }
}

fn write_list(folder: &Path, list: &List) -> Result<()> {
    let file = folder.join(list::NAME);
    if list.is_empty() {
        return remove_if_there(&file).doing(|| format!("remove {}", file.display()));
    }
    let content = Content::Bytes(list.to_string().into_bytes());
    let staged = stage(folder, list::NAME, &content, 0o644)?;
    let put = staged.persist(&file).map_err(|error| error.error);
    put.doing(|| format!("write {}", file.display()))
}

/// Writes a content beside its place, under a name that no program looks for; it goes when the
/// answer is dropped.
///
/// # Errors
/// The file system's.
pub fn stage(folder: &Path, name: &str, content: &Content, mode: u32) -> Result<TempPath> {
    let name = staged(name);
    let path = folder.join(&name);
    let write = || -> io::Result<TempPath> {
        // Of one that was killed.
        remove_if_there(&path)?;
        let mut file: NamedTempFile = Builder::new()
            .prefix(&name)
            .rand_bytes(0)
            .tempfile_in(folder)?;
        io::copy(&mut content.open()?, &mut file)?;
        file.flush()?;
        file.as_file()
            .set_permissions(Permissions::from_mode(mode))?;
        // So that no loss of power leaves an empty file under the final name.
        file.as_file().sync_all()?;
        Ok(file.into_temp_path())
    };
    write().doing(|| format!("write {}", path.display()))
}

/// The name of a new file until it is in its place.
fn staged(name: &str) -> String {
    format!(".{name}.new")
}

/// The name of what was there until all is done, if nobody keeps it.
pub fn former(name: &str) -> String {
    format!(".{name}.old")
}

/// The name under which another's file is kept.
pub fn kept(name: &str) -> String {
    format!("{name}{KEPT}")
}

/// The name of the file that is kept under a name, or that name.
pub fn without_kept(name: &str) -> &str {
    name.strip_suffix(KEPT).unwrap_or(name)
}

/// That there is none is no error.
pub fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
