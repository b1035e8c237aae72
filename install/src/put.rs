//! Puts files in their places, all or none.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cni::Undo;
use tempfile::TempPath;

use crate::decide::{self, Refusal, Step};
use crate::error::{Doing, Error, Result};
use crate::found::{Found, Sum};
use crate::order::{self, Item};
use crate::place::{self, Place, kept, remove_if_there};

/// What became of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Put {
    /// Its place.
    pub path: PathBuf,
    /// How it got there.
    pub done: Done,
    /// Where what another had there is now.
    pub backup: Option<PathBuf>,
}

/// How an item got to its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// It was there already.
    Unchanged,
    /// The same, but it could not be run.
    Enabled,
    /// Nothing was there.
    Created,
    /// An earlier one of ours was there.
    Updated,
    /// Another's was there.
    Replaced,
}

/// An item with what is to be done.
struct Planned<'a> {
    item: &'a Item,
    path: PathBuf,
    sum: Sum,
    step: Step,
    /// What was there.
    found: Found,
}

/// Puts all items in their places. Programs that run are not disturbed: they keep the file that they
/// were started from.
///
/// # Errors
/// The first that cannot be put there; all is then as it was.
pub fn put(items: &[Item]) -> Result<Vec<Put>> {
    // In this order, so that the folders are held until all is undone.
    let mut places: Vec<Place> = Vec::new();
    let mut undo = Undo::new();
    for item in items {
        if places.iter().any(|place| place.path == item.folder) {
            continue;
        }
        if let Some(held) = places.iter().find(|place| place.is_at(&item.folder)) {
            return Err(Error::OneFolder {
                first: held.path.clone(),
                second: item.folder.clone(),
            });
        }
        places.push(Place::make(&item.folder, &mut undo)?);
    }
    put_into(&mut places, items, undo)
}

/// Puts items in their places, which are held. What has been done before is undone with it.
fn put_into(places: &mut [Place], items: &[Item], mut undo: Undo) -> Result<Vec<Put>> {
    let each = places.iter().flat_map(|place| {
        let items = items.iter().filter(|item| item.folder == place.path);
        items.map(|item| Planned::new(item, place))
    });
    let planned: Vec<Planned> = each.collect::<Result<_>>()?;
    announce(places, &planned, &mut undo)?;
    let staged: Vec<Option<TempPath>> =
        planned.iter().map(Planned::stage).collect::<Result<_>>()?;
    for (one, staged) in planned.iter().zip(staged) {
        match staged {
            Some(staged) => one.exchange(staged, &mut undo)?,
            None if one.step == Step::SetMode => one.set_mode(&mut undo)?,
            None => {}
        }
    }
    settle(places, &planned, &mut undo)?;
    undo.commit();
    for one in &planned {
        // Where it stays, the next installation removes it.
        drop(remove_if_there(&one.former()));
    }
    Ok(planned.into_iter().map(Planned::told).collect())
}

/// What a package has put into a folder under the plugins' own names is the package's from now on, whoever
/// had put a file there before; what was kept of another's is remembered. What stands under the other names
/// as it was put there becomes a copy of the package's.
///
/// # Errors
/// The folder cannot be looked at, or the first copy that cannot be made; all copies are then as they were.
pub fn hand_over(folder: &Path) -> Result<Vec<Put>> {
    let Some(mut place) = Place::open(folder)? else {
        return Ok(Vec::new());
    };
    let mut undo = Undo::new();
    let mut list = place.list.clone();
    order::PLUGINS
        .iter()
        .for_each(|plugin| list.forget(&order::own_name(plugin)));
    place.set_list(list, &mut undo)?;
    undo.commit();
    let mut copies = Vec::new();
    for copy in order::copies(folder) {
        if place.look(&copy.name)?.is_ours {
            copies.push(copy);
        }
    }
    put_into(&mut [place], &copies, Undo::new())
}

/// Lists the new files and what is kept beside the former ones, so that they and what is written beside
/// them are known as ours whatever happens in between.
fn announce(places: &mut [Place], planned: &[Planned], undo: &mut Undo) -> Result<()> {
    for place in places {
        let mut list = place.list.clone();
        for one in planned.iter().filter(|one| one.changes(place)) {
            list.add(&one.item.name, one.sum);
            if let Some(sum) = one.kept_sum() {
                list.add(&kept(&one.item.name), sum);
            }
        }
        place.set_list(list, undo)?;
    }
    Ok(())
}

/// Lists the new files alone.
fn settle(places: &mut [Place], planned: &[Planned], undo: &mut Undo) -> Result<()> {
    for place in places {
        let mut list = place.list.clone();
        for one in planned.iter().filter(|one| one.changes(place)) {
            list.forget(&one.item.name);
            list.add(&one.item.name, one.sum);
        }
        place.set_list(list, undo)?;
    }
    Ok(())
}

impl Planned<'_> {
    fn new<'a>(item: &'a Item, place: &Place) -> Result<Planned<'a>> {
        let path = item.folder.join(&item.name);
        let sum = item.content.open().and_then(Sum::of_reader);
        let sum = sum.doing(|| format!("read {}", item.content))?;
        let seen = place.look(&item.name)?;
        let is_program = item.mode & 0o111 != 0;
        let step = match item.yields && decide::is_anothers(&seen) {
            true => Ok(Step::Leave),
            false => decide::step(sum, is_program, &seen),
        };
        let step = step.map_err(|refusal| match refusal {
            Refusal::NoFile => Error::NoFile(path.clone()),
            Refusal::BackupTaken => Error::BackupTaken {
                path: path.clone(),
                backup: item.folder.join(kept(&item.name)),
            },
        })?;
        Ok(Planned {
            item,
            path,
            sum,
            step,
            found: seen.found,
        })
    }

    fn changes(&self, place: &Place) -> bool {
        self.item.folder == place.path && self.is_written()
    }

    fn is_written(&self) -> bool {
        !matches!(self.step, Step::Leave | Step::SetMode)
    }

    /// Where another's is kept.
    fn backup(&self) -> Option<PathBuf> {
        let path = || self.item.folder.join(kept(&self.item.name));
        matches!(self.step, Step::Replace { .. }).then(path)
    }

    /// What is kept there.
    fn kept_sum(&self) -> Option<Sum> {
        match (self.step, self.found) {
            (Step::Replace { .. }, Found::File(sum) | Found::Link(sum)) => Some(sum),
            _ => None,
        }
    }

    /// Where what was there is until all is done, if nobody keeps it.
    fn former(&self) -> PathBuf {
        self.item.folder.join(place::former(&self.item.name))
    }

    /// The new file beside its place, where one is needed.
    fn stage(&self) -> Result<Option<TempPath>> {
        if !self.is_written() {
            return Ok(None);
        }
        let Item {
            folder,
            name,
            content,
            mode,
            ..
        } = self.item;
        let staged = place::stage(folder, name, content, *mode)?;
        match Found::at(&staged)? {
            Found::File(sum) if sum == self.sum => Ok(Some(staged)),
            _ => Err(Error::Changed(content.to_string())),
        }
    }

    /// Puts the new file in its place, which is never without a file meanwhile.
    fn exchange(&self, staged: TempPath, undo: &mut Undo) -> Result<()> {
        let path = self.path.clone();
        let doing = || format!("put {} in its place", path.display());
        let saved = match self.step {
            Step::Leave | Step::SetMode => return Ok(()),
            Step::Create => {
                let put = staged.persist_noclobber(&path);
                put.map_err(|error| error.error).doing(doing)?;
                undo.push(move || drop(fs::remove_file(path)));
                return Ok(());
            }
            Step::Replace { kept: false } => self.item.folder.join(kept(&self.item.name)),
            Step::Replace { kept: true } | Step::Update => {
                let former = self.former();
                remove_if_there(&former).doing(|| format!("remove {}", former.display()))?;
                former
            }
        };
        fs::hard_link(&path, &saved).doing(|| format!("keep {}", saved.display()))?;
        let link = saved.clone();
        undo.push(move || drop(fs::remove_file(link)));
        let put = staged.persist(&path).map_err(|error| error.error);
        put.doing(doing)?;
        undo.push(move || drop(fs::rename(saved, path)));
        Ok(())
    }

    /// Lets the file be run that is there.
    fn set_mode(&self, undo: &mut Undo) -> Result<()> {
        let path = self.path.clone();
        let doing = || format!("make {} executable", path.display());
        let former = fs::metadata(&path).doing(doing)?.permissions();
        let mode = Permissions::from_mode(self.item.mode);
        fs::set_permissions(&path, mode).doing(doing)?;
        undo.push(move || drop(fs::set_permissions(path, former)));
        Ok(())
    }

    fn told(self) -> Put {
        let done = match self.step {
            Step::Leave => Done::Unchanged,
            Step::SetMode => Done::Enabled,
            Step::Create => Done::Created,
            Step::Update => Done::Updated,
            Step::Replace { .. } => Done::Replaced,
        };
        Put {
            backup: self.backup(),
            path: self.path,
            done,
        }
    }
}
