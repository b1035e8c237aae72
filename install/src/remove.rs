//! Takes back what was put into a folder.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use cni::Undo;

use crate::decide::{self, Fate};
use crate::error::{Doing, Result};
use crate::list::List;
use crate::place::{Place, kept, remove_if_there, without_kept};

/// What became of a file that the list named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removed {
    /// Its place.
    pub path: PathBuf,
    /// What became of it.
    pub undone: Undone,
    /// Where another's is kept still.
    pub backup: Option<PathBuf>,
}

/// What became of a file that the list named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undone {
    /// It is gone.
    Removed,
    /// What another had there is there again.
    Restored,
    /// It is not what was installed, and stays.
    Left,
}

/// Takes back all that the folder's list names. It goes on after a failure; what could not be taken
/// back stays in the list.
///
/// # Errors
/// The folder cannot be looked at. What could not be taken back is among the answers.
pub fn remove(folder: &Path) -> Result<Vec<Result<Removed>>> {
    let Some(mut place) = Place::open(folder)? else {
        return Ok(Vec::new());
    };
    let mut left = place.list.clone();
    let mut all = Vec::new();
    for name in files(&place.list) {
        match take_back(&place, name) {
            Ok(removed) => {
                // Where a package has its place, another's comes back when that has gone.
                let is_left = removed.as_ref().is_some_and(|it| it.undone == Undone::Left);
                if place.list.names(name) || !is_left {
                    left.forget(name);
                    left.forget(&kept(name));
                }
                all.extend(removed.map(Ok));
            }
            Err(error) => all.push(Err(error)),
        }
    }
    let mut undo = Undo::new();
    let listed = place.set_list(left, &mut undo);
    undo.commit();
    all.extend(listed.err().map(Err));
    Ok(all)
}

/// The files of a list, and those in whose place others' were that are kept still.
fn files(list: &List) -> Vec<&str> {
    let names = list.all_names().into_iter().map(without_kept);
    let mut once = BTreeSet::new();
    names.filter(|name| once.insert(*name)).collect()
}

/// `None` where it was gone already.
fn take_back(place: &Place, name: &str) -> Result<Option<Removed>> {
    let seen = place.look(name)?;
    let path = place.path.join(name);
    let backup = place.path.join(kept(name));
    let undone = match decide::fate(&seen) {
        Fate::Gone => return Ok(None),
        // Not even a backup is of our making.
        Fate::Leave if !place.list.names(name) && !seen.is_kept => return Ok(None),
        Fate::Leave => Undone::Left,
        Fate::Remove => {
            fs::remove_file(&path).doing(|| format!("remove {}", path.display()))?;
            Undone::Removed
        }
        Fate::Restore => {
            let back = fs::rename(&backup, &path);
            // One file under two names is renamed by nobody.
            let back = back.and_then(|()| remove_if_there(&backup));
            back.doing(|| format!("bring {} back", backup.display()))?;
            Undone::Restored
        }
    };
    Ok(Some(Removed {
        backup: (undone == Undone::Left && seen.is_kept).then_some(backup),
        path,
        undone,
    }))
}
