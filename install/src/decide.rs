//! What is to be done with a name: decisions over what was found there.

use crate::found::{Found, Sum};

/// What is known of a name before anything is changed.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    /// What is there.
    pub found: Found,
    /// The list has that file.
    pub is_ours: bool,
    /// The list has a file of that name; without one, its place has been left to a package.
    pub is_listed: bool,
    /// It is a file that can be run.
    pub is_executable: bool,
    /// What is there under the name by which another's would be kept.
    pub backup: Found,
    /// That is there, and the list has it: it was kept by an earlier installation.
    pub is_kept: bool,
}

/// How a file comes to its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It is there already, whoever has put it there.
    Leave,
    /// The same, but it cannot be run.
    SetMode,
    /// Nothing is there.
    Create,
    /// An earlier one of ours is there.
    Update,
    /// Another's is there, which is kept.
    Replace {
        /// It is kept already.
        kept: bool,
    },
}

/// Whether what is there is another's.
pub fn is_anothers(seen: &Seen) -> bool {
    seen.found != Found::Nothing && !seen.is_ours
}

/// Why a file cannot come to its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// What is there is no file.
    NoFile,
    /// Another's is there, and something that we have not kept under the name that it would be kept by.
    BackupTaken,
}

/// How a file with content `wanted`, which `is_program` or is only read, comes to its place.
///
/// # Errors
/// It cannot without a loss.
pub fn step(wanted: Sum, is_program: bool, seen: &Seen) -> Result<Step, Refusal> {
    match seen.found {
        Found::Other => Err(Refusal::NoFile),
        Found::Nothing => Ok(Step::Create),
        Found::File(sum) if sum == wanted => match is_program && !seen.is_executable {
            true => Ok(Step::SetMode),
            false => Ok(Step::Leave),
        },
        Found::File(_) if seen.is_ours => Ok(Step::Update),
        found @ (Found::File(_) | Found::Link(_)) => match seen.backup {
            Found::Nothing => Ok(Step::Replace { kept: false }),
            backup if backup == found && seen.is_kept => Ok(Step::Replace { kept: true }),
            _ => Err(Refusal::BackupTaken),
        },
    }
}

/// How a file that was installed is taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It goes.
    Remove,
    /// It goes, and what was kept comes back.
    Restore,
    /// It is not what was installed: it stays, and so does what was kept.
    Leave,
    /// It is gone already.
    Gone,
}

/// How a file that the list names is taken back.
pub fn fate(seen: &Seen) -> Fate {
    let can_restore = seen.is_kept && matches!(seen.backup, Found::File(_) | Found::Link(_));
    let goes = match seen.found {
        Found::Nothing => true,
        Found::File(_) if seen.is_ours => true,
        // What was kept is there again, or still.
        found => can_restore && found == seen.backup && seen.is_listed,
    };
    match (goes, can_restore) {
        (false, _) => Fate::Leave,
        (true, true) => Fate::Restore,
        (true, false) if seen.found == Found::Nothing => Fate::Gone,
        (true, false) => Fate::Remove,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: &[u8] = b"new";

    fn file(content: &[u8]) -> Found {
        Found::File(Sum::of(content))
    }

    fn link(target: &str) -> Found {
        Found::Link(Sum::of(target.as_bytes()))
    }

    fn seen(found: Found, is_ours: bool, backup: Found) -> Seen {
        Seen {
            found,
            is_ours,
            is_listed: true,
            is_executable: true,
            backup,
            is_kept: backup != Found::Nothing,
        }
    }

    #[test]
    fn how_a_file_comes_to_its_place() {
        let another = file(b"another's");
        let taken = Err(Refusal::BackupTaken);
        let replace = |kept| Ok(Step::Replace { kept });
        for (found, is_ours, backup, expected) in [
            (Found::Nothing, false, Found::Nothing, Ok(Step::Create)),
            // Removed by somebody else.
            (Found::Nothing, true, another, Ok(Step::Create)),
            (file(NEW), true, Found::Nothing, Ok(Step::Leave)),
            (file(NEW), false, Found::Nothing, Ok(Step::Leave)),
            (file(b"old"), true, Found::Nothing, Ok(Step::Update)),
            (file(b"old"), true, another, Ok(Step::Update)),
            (another, false, Found::Nothing, replace(false)),
            (another, false, another, replace(true)),
            (another, false, file(b"else"), taken),
            (another, false, Found::Other, taken),
            (link("a"), false, Found::Nothing, replace(false)),
            (link("a"), false, link("a"), replace(true)),
            (link("a"), false, link("b"), taken),
            (Found::Other, false, Found::Nothing, Err(Refusal::NoFile)),
        ] {
            let seen = seen(found, is_ours, backup);
            assert_eq!(step(Sum::of(NEW), true, &seen), expected, "{seen:?}");
        }
    }

    #[test]
    fn a_program_that_cannot_be_run_becomes_one() {
        for (content, is_program, expected) in [
            (NEW, true, Step::SetMode),
            (NEW, false, Step::Leave),
            (b"old", true, Step::Update),
        ] {
            let seen = Seen {
                is_executable: false,
                ..seen(file(content), true, Found::Nothing)
            };
            assert_eq!(step(Sum::of(NEW), is_program, &seen), Ok(expected));
        }
    }

    #[test]
    fn how_it_is_taken_back() {
        let another = file(b"another's");
        for (found, is_ours, backup, expected) in [
            (file(NEW), true, Found::Nothing, Fate::Remove),
            (file(NEW), true, another, Fate::Restore),
            (file(NEW), true, link("a"), Fate::Restore),
            (file(NEW), true, Found::Other, Fate::Remove),
            (Found::Nothing, false, Found::Nothing, Fate::Gone),
            (Found::Nothing, false, another, Fate::Restore),
            (file(b"changed"), false, another, Fate::Leave),
            (another, false, another, Fate::Restore),
            (link("a"), false, link("a"), Fate::Restore),
            (link("a"), false, Found::Nothing, Fate::Leave),
            (Found::Other, false, another, Fate::Leave),
        ] {
            let seen = seen(found, is_ours, backup);
            assert_eq!(fate(&seen), expected, "{seen:?}");
        }
    }

    /// Even where the package's is the same as what was kept: it goes with the package.
    #[test]
    fn what_was_left_to_a_package_goes_with_it() {
        let another = file(b"another's");
        for (found, expected) in [
            (file(NEW), Fate::Leave),
            (another, Fate::Leave),
            (Found::Nothing, Fate::Restore),
        ] {
            let seen = Seen {
                is_listed: false,
                ..seen(found, false, another)
            };
            assert_eq!(fate(&seen), expected, "{seen:?}");
        }
    }

    #[test]
    fn what_we_have_not_kept_is_not_brought_back() {
        let ours = Seen {
            is_kept: false,
            ..seen(file(NEW), true, file(b"another's"))
        };
        assert_eq!(fate(&ours), Fate::Remove);
        let another = Seen {
            is_kept: false,
            ..seen(file(b"another's"), false, file(b"another's"))
        };
        let taken = Err(Refusal::BackupTaken);
        assert_eq!(step(Sum::of(NEW), true, &another), taken);
    }
}
