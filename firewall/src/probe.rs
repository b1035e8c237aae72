//! Whether a chain can be there at all, asked without starting a process.

use std::io;

use crate::iptables::Variant;
use crate::legacy;
use crate::nft::nat;
use crate::rule::Family;

/// What is known without having looked at the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It is not there.
    Absent,
    /// It is there.
    Present,
    /// There is a table in which it may be, or the kernel was kept from saying.
    Possible,
    /// The kernel does not tell this process.
    Unknown,
}

/// Whether one of the chains is in the table `nat` of the calling thread's namespace.
pub fn chains(family: Family, variant: Variant, names: &[&str]) -> Presence {
    match variant {
        Variant::Nft => match nat::has_chain(family, names) {
            Ok(true) => Presence::Present,
            Ok(false) => Presence::Absent,
            Err(error) if is_forbidden(&error) => Presence::Unknown,
            Err(_) => Presence::Possible,
        },
        Variant::Legacy => match self::names(family, variant) {
            Names::Known(found) if found.iter().any(|name| names.contains(&name.as_str())) => {
                Presence::Present
            }
            Names::Known(_) => Presence::Absent,
            Names::Hidden => Presence::Possible,
            Names::Unknown => Presence::Unknown,
        },
    }
}

/// The chains of the table `nat` of the calling thread's namespace, as far as they can be known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Names {
    /// These; none where there is no table.
    Known(Vec<String>),
    /// There is a table, and only its program can tell what is in it; or the kernel was kept from saying.
    Hidden,
    /// The kernel does not tell this process whether there is a table.
    Unknown,
}

/// The names of all chains.
pub fn names(family: Family, variant: Variant) -> Names {
    match variant {
        Variant::Nft => match nat::chains(family) {
            Ok(names) => Names::Known(names),
            Err(error) if is_forbidden(&error) => Names::Unknown,
            Err(_) => Names::Hidden,
        },
        Variant::Legacy => match legacy_tables(family) {
            Ok(tables) if tables.iter().any(|table| table == "nat") => {
                legacy::chains(family).map_or(Names::Hidden, Names::Known)
            }
            Ok(_) => Names::Known(Vec::new()),
            Err(error) if is_forbidden(&error) => Names::Unknown,
            Err(_) => Names::Hidden,
        },
    }
}

/// Whether another answer cannot be had, however often the kernel is asked.
fn is_forbidden(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

/// The tables of a family that are there in the calling thread's namespace, of the legacy variant: the
/// first one that looks at one makes it.
///
/// # Errors
/// They are there, and may not be known.
pub fn legacy_tables(family: Family) -> io::Result<Vec<String>> {
    let read = || std::fs::read_to_string(legacy_file(family));
    // Once more, since a program that looks makes the table.
    match read().or_else(|_| read()) {
        Ok(tables) => Ok(tables.lines().map(str::to_owned).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn legacy_file(family: Family) -> &'static str {
    match family {
        Family::V4 => "/proc/thread-self/net/ip_tables_names",
        Family::V6 => "/proc/thread-self/net/ip6_tables_names",
    }
}
