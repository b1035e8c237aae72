//! The verbs of what an attachment has in tables of our own, in both families at once.

use std::io;

use nix::errno::Errno;

use super::listing::{self, FoundRule, Listing};
use super::plan::{self, Want};
use super::table::{Entry, Table, TableName};
use super::tag::Tag;
use super::wire::{Message, Socket};
use crate::deadline::Deadline;
use crate::lock::Lock;
use crate::rule::Family;
use crate::{Error, Result};

/// How often a change is planned anew that was refused because of what others did in between.
const ATTEMPTS: u32 = 10;

/// What one kind of rules wants, in a table of each family.
pub trait Kind {
    /// Whose it is.
    fn tag(&self) -> &Tag;

    /// The table, as far as it is known without anything wanted.
    fn table(&self, family: Family) -> Table;

    /// What should be in the table as listed, if the attachment has an address of the family.
    fn want(&self, family: Family, listing: &Listing) -> Option<Want>;

    /// Whether ADD removes an element.
    fn is_stale(&self, entry: &Entry) -> bool {
        self.tag().owns(&entry.comment)
    }
}

/// Makes what is wanted, in place of what the attachment had before. On an error nothing is changed.
///
/// # Errors
/// The kernel's.
pub fn add(kind: &impl Kind) -> Result<()> {
    let doing = "nftables: add";
    let mut socket = open(doing)?;
    let first = first_batch(&mut socket, kind).map_err(failed(doing))?;
    if let Some(batch) = first {
        match socket.commit(&batch) {
            Err(error) if may_pass(&error) => {}
            done => return done.map_err(failed(doing)),
        }
    }
    change(&mut socket, doing, |socket| {
        let mut batch = Vec::new();
        for family in Family::ALL {
            // What is wanted depends on what is there, but the chains that it needs do not.
            let needed = kind.want(family, &Listing::default());
            let table = needed.map_or_else(|| kind.table(family), |want| want.table);
            let listing = Listing::read(socket, &table)?;
            let stale = |entry: &Entry| kind.is_stale(entry);
            batch.extend(match kind.want(family, &listing) {
                Some(want) => plan::repair(&want, &listing, kind.tag(), stale),
                None => {
                    let own = |comment: &str| kind.tag().owns(comment);
                    plan::removal(&table, &listing, stale, own)
                }
            });
        }
        Ok((batch, ()))
    })
}

/// The batch that does for a new attachment where all that is shared is there; `None` where more is
/// to be done.
fn first_batch(socket: &mut Socket, kind: &impl Kind) -> io::Result<Option<Vec<Message>>> {
    let mut batch = Vec::new();
    for family in Family::ALL {
        let Some(want) = kind.want(family, &Listing::default()) else {
            let known = kind.tag().element().entry;
            let name = kind.table(family).name;
            if socket.get(&name.get_element(&known))?.is_some() {
                return Ok(None);
            }
            continue;
        };
        let rules = listing::rules(socket, want.table.name)?;
        if !plan::is_complete(&want.table, &rules) {
            return Ok(None);
        }
        batch.extend(plan::additions(&want, kind.tag()));
    }
    Ok(Some(batch))
}

/// Applies what `plan` makes, under the lock.
///
/// # Errors
/// The kernel's, or the lock's.
pub fn change<T>(
    socket: &mut Socket,
    doing: &str,
    plan: impl FnMut(&mut Socket) -> io::Result<(Vec<Message>, T)>,
) -> Result<T> {
    let _lock = Lock::take(Deadline::start())?;
    apply(socket, doing, plan)
}

/// Applies what `plan` makes; again from the start where it was refused because of what others did
/// in between.
///
/// # Errors
/// The kernel's.
pub fn apply<T>(
    socket: &mut Socket,
    doing: &str,
    mut plan: impl FnMut(&mut Socket) -> io::Result<(Vec<Message>, T)>,
) -> Result<T> {
    let mut attempt = 1_u32;
    loop {
        let (batch, said) = plan(socket).map_err(failed(doing))?;
        match socket.commit(&batch) {
            Ok(()) => return Ok(said),
            Err(error) if may_pass(&error) && attempt < ATTEMPTS => {}
            Err(error) => return Err(failed(doing)(error)),
        }
        attempt = attempt.saturating_add(1);
    }
}

/// What was removed.
#[derive(Debug, Default)]
pub struct Removed {
    /// Elements of our own tables.
    pub entries: Vec<(Family, Entry)>,
    /// Rules, of our own tables and of others.
    pub rules: Vec<FoundRule>,
}

/// What is to be removed.
pub struct Leftovers<'a> {
    /// Our own tables.
    pub own: [Table; 2],
    /// Whose comments there are to go.
    pub is_own: &'a dyn Fn(&str) -> bool,
    /// Tables of others.
    pub foreign: &'a [TableName],
    /// Which rules there are to go.
    pub is_foreign: &'a dyn Fn(&FoundRule) -> bool,
}

/// Removes what is to be removed. Where no such table is, not even the lock is taken.
///
/// # Errors
/// The kernel's, where something is there or was `expected`.
pub fn delete(leftovers: &Leftovers, expected: bool) -> Result<Removed> {
    let doing = "nftables: delete";
    let look = || {
        let mut socket = Socket::open()?;
        let tables = leftovers.there(&mut socket)?;
        Ok((socket, tables))
    };
    // Once more, since what cannot be seen and is not expected is left where it is.
    let there = look().or_else(|_: io::Error| look());
    let (mut socket, (own, foreign)) = match or_nothing_there(there, doing, expected)? {
        Some((socket, (own, foreign))) if !own.is_empty() || !foreign.is_empty() => {
            (socket, (own, foreign))
        }
        _ => return Ok(Removed::default()),
    };
    change(&mut socket, doing, |socket| {
        let mut removed = Removed::default();
        let mut batch = Vec::new();
        for table in &own {
            let listing = Listing::read(socket, table)?;
            let is_entry = |entry: &Entry| (leftovers.is_own)(&entry.comment);
            let removal = plan::removal(table, &listing, is_entry, leftovers.is_own);
            batch.extend(removal);
            let entries = listing.entries.into_iter().filter(is_entry);
            let entries = entries.map(|entry| (table.family, entry));
            removed.entries.extend(entries);
            let is_rule = |rule: &FoundRule| (leftovers.is_own)(&rule.comment);
            removed
                .rules
                .extend(listing.rules.into_iter().filter(is_rule));
        }
        for table in &foreign {
            let rules = listing::rules(socket, *table)?;
            for rule in rules.into_iter().filter(leftovers.is_foreign) {
                batch.push(table.delete_rule(&rule.chain, rule.handle));
                removed.rules.push(rule);
            }
        }
        Ok((batch, removed))
    })
}

/// Removes what the attachment has in tables of our own. Where its element is in none of them, the
/// kernel is asked for nothing else.
///
/// # Errors
/// The kernel's.
pub fn forget(tag: &Tag, own: [Table; 2]) -> Result<()> {
    let known = tag.element().entry;
    let is_there = Socket::open().and_then(|mut socket| {
        let find = |table: &Table| table.name.get_element(&known);
        let mut found = own.iter().map(|table| socket.get(&find(table)));
        found.try_fold(false, |is_there, found| Ok(is_there || found?.is_some()))
    });
    // What the kernel does not tell of, DEL will look for.
    if !is_there.unwrap_or(false) {
        return Ok(());
    }
    let leftovers = Leftovers {
        own,
        is_own: &|comment| tag.owns(comment),
        foreign: &[],
        is_foreign: &|_| false,
    };
    delete(&leftovers, false).map(drop)
}

/// What DEL could ask the kernel; `None` where it could not, which is no matter: nothing can be
/// there, or nothing is `expected`.
///
/// # Errors
/// [`Error::StillThere`].
pub fn or_nothing_there<T>(asked: io::Result<T>, doing: &str, expected: bool) -> Result<Option<T>> {
    match asked {
        Ok(found) => Ok(Some(found)),
        Err(error) if !expected || is_without_nftables(&error) => Ok(None),
        Err(error) => Err(Error::StillThere(format!(
            "{doing}: what was made may still be there: {error}"
        ))),
    }
}

impl Leftovers<'_> {
    /// The tables that are there: our own, and others'.
    fn there(&self, socket: &mut Socket) -> io::Result<(Vec<&Table>, Vec<TableName>)> {
        let mut own = Vec::new();
        for table in &self.own {
            if socket.get(&table.name.get())?.is_some() {
                own.push(table);
            }
        }
        let mut foreign = Vec::new();
        for table in self.foreign {
            if socket.get(&table.get())?.is_some() {
                foreign.push(*table);
            }
        }
        Ok((own, foreign))
    }
}

/// Whether the kernel has no nf_tables: it knows neither the protocol nor the subsystem.
pub fn is_without_nftables(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::EPROTONOSUPPORT | Errno::EINVAL))
}

/// Whether all that is wanted is there.
///
/// # Errors
/// [`Error::Missing`] with the first thing that is not, or the kernel's.
pub fn check(kind: &impl Kind) -> Result<()> {
    let doing = "nftables: list";
    let mut socket = open(doing)?;
    for family in Family::ALL {
        let Some(needed) = kind.want(family, &Listing::default()) else {
            continue;
        };
        let listing = Listing::read_keys_of(&mut socket, &needed.table, &needed.elements);
        let listing = listing.map_err(failed(doing))?;
        let want = kind.want(family, &listing);
        let missing = want.and_then(|want| plan::missing(&want, &listing, kind.tag()));
        if let Some(text) = missing {
            return Err(Error::Missing(text));
        }
    }
    Ok(())
}

/// A socket.
///
/// # Errors
/// The kernel's.
pub fn open(doing: &str) -> Result<Socket> {
    Socket::open().map_err(failed(doing))
}

/// What the kernel's error is to our callers.
pub fn failed(doing: &str) -> impl Fn(io::Error) -> Error {
    move |source| Error::Io {
        command: doing.to_owned(),
        source,
    }
}

/// Whether it may be because of what others did in between: something that was to be made is there,
/// or something that was there is gone.
fn may_pass(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(
        errno,
        Some(Errno::EEXIST | Errno::ENOENT | Errno::ENOTEMPTY | Errno::EBUSY | Errno::EAGAIN)
    )
}
