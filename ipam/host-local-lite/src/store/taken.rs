//! Which addresses are taken.

use std::cell::{Cell, OnceCell};
use std::collections::HashSet;
use std::net::IpAddr;

use super::Store;

/// After so many addresses that were taken, all names are read at once.
const MANY: usize = 256;

/// Every reserved address.
#[derive(Debug)]
pub enum Taken<'a> {
    /// All that there are, and somebody holds each.
    Read(HashSet<IpAddr>),
    /// Those that are asked for are looked at.
    Asked(Asked<'a>),
}

/// Looks at one file after the other, as long as these are few.
#[derive(Debug)]
pub struct Asked<'a> {
    store: &'a Store,
    asked: Cell<usize>,
    names: OnceCell<Option<HashSet<IpAddr>>>,
}

impl<'a> Taken<'a> {
    /// Of a store that was not read.
    pub fn of(store: &'a Store) -> Taken<'a> {
        Taken::Asked(Asked {
            store,
            asked: Cell::new(0),
            names: OnceCell::new(),
        })
    }

    /// Whether the address is reserved. Where not all were read, a file that names nobody may count.
    pub fn contains(&self, ip: IpAddr) -> bool {
        match self {
            Taken::Read(all) => all.contains(&ip),
            Taken::Asked(asked) => asked.contains(ip),
        }
    }

    /// Whether all that counts was read.
    pub fn is_certain(&self) -> bool {
        matches!(self, Taken::Read(_))
    }
}

impl Asked<'_> {
    fn contains(&self, ip: IpAddr) -> bool {
        let asked = self.asked.get();
        if asked < MANY {
            self.asked.set(asked + 1);
            return !self.store.is_free(ip);
        }
        let names = self.names.get_or_init(|| self.store.names().ok());
        // What cannot be read is taken: then all is read, which tells the error.
        names.as_ref().is_none_or(|names| names.contains(&ip))
    }
}
