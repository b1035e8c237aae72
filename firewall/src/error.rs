//! What could not be done to the rules.

use crate::rule::Family;

/// Result of every verb.
pub type Result<T> = std::result::Result<T, Error>;

/// What could not be done to the rules.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No program for the family: neither on PATH nor in /usr/sbin or /sbin.
    #[error("{0} not found on PATH, in /usr/sbin or /sbin")]
    NoTool(&'static str),
    /// The program refused.
    #[error("{program}: {stderr} (exit status {status}{})", given(.batch))]
    Refused {
        /// The program's path.
        program: String,
        /// Its family.
        family: Family,
        /// The lines that it was given, as one, shortened; empty where there were none.
        batch: String,
        /// Exit status; -1 where a signal ended it.
        status: i32,
        /// What it said, in one line.
        stderr: String,
    },
    /// The program could not be run, the lock not be had, or the kernel refused.
    #[error("{command}: {source}")]
    Io {
        /// Program, lock, or what was asked of nftables.
        command: String,
        /// Why.
        source: std::io::Error,
    },
    /// Another process has held a lock for as long as a verb waits. Later it may be free.
    #[error("{lock} is held by another process")]
    Busy {
        /// Path of the lock.
        lock: String,
    },
    /// The program did not end in time, and was killed.
    #[error("{program}: not ended after {} s, killed", .limit.as_secs())]
    TimedOut {
        /// The program's path.
        program: String,
        /// What it was given.
        limit: std::time::Duration,
    },
    /// The program does not stop talking.
    #[error("{program}: said more than {} MiB, not listened to any more", .limit / 1024 / 1024)]
    TooMuch {
        /// The program's path.
        program: String,
        /// What it might have said, in bytes.
        limit: usize,
    },
    /// What the backend cannot do.
    #[error("{0}")]
    Unsupported(String),
    /// CHECK: what is gone.
    #[error("{0}")]
    Missing(String),
    /// DEL: what is still there, or may be, and cannot be removed.
    #[error("{0}")]
    StillThere(String),
    /// Several of them, of verbs that go on after one.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Several(Vec<Error>),
}

impl Error {
    /// Whether to try again later is enough: nothing is wrong but that others hold locks.
    pub fn is_busy(&self) -> bool {
        match self {
            Error::Busy { .. } => true,
            Error::Several(errors) => errors.iter().all(Error::is_busy),
            _ => false,
        }
    }

    /// Whether some of it may be done later: others hold a lock.
    pub fn may_pass(&self) -> bool {
        match self {
            Error::Busy { .. } => true,
            Error::Several(errors) => errors.iter().any(Error::may_pass),
            _ => false,
        }
    }

    /// Whether rules may have been made all the same: the answer was lost, or the program was
    /// stopped.
    pub fn may_have_changed(&self) -> bool {
        match self {
            Error::Io { .. } | Error::TimedOut { .. } | Error::TooMuch { .. } => true,
            // By 0, it has done something else, or more.
            Error::Refused { status, .. } => *status <= 0,
            Error::Several(errors) => errors.iter().any(Error::may_have_changed),
            _ => false,
        }
    }

    /// Where iptables did not understand what it was given: of which family it was.
    pub fn of_parameters(&self) -> Option<Family> {
        /// `PARAMETER_PROBLEM` of iptables' xtables.h.
        const PARAMETER_PROBLEM: i32 = 2;
        match self {
            Error::Refused { family, status, .. } => {
                matches!(*status, 0 | PARAMETER_PROBLEM).then_some(*family)
            }
            _ => None,
        }
    }

    /// The errors as one; `Ok` where there is none.
    ///
    /// # Errors
    /// The one there is, or [`Error::Several`].
    pub fn all(mut errors: Vec<Error>) -> Result<()> {
        match errors.pop() {
            None => Ok(()),
            Some(only) if errors.is_empty() => Err(only),
            Some(last) => {
                errors.push(last);
                Err(Error::Several(errors))
            }
        }
    }
}

fn given(batch: &str) -> String {
    match batch {
        "" => String::new(),
        batch => format!(", given {batch:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_is_only_what_is_nothing_else_and_may_pass_in_part() {
        let busy = || Error::Busy {
            lock: "/run/x".to_owned(),
        };
        assert_eq!(busy().to_string(), "/run/x is held by another process");
        assert!(busy().is_busy());
        assert!(Error::Several(vec![busy(), busy()]).is_busy());
        let in_part = Error::Several(vec![Error::NoTool("iptables"), busy()]);
        assert!(!in_part.is_busy() && in_part.may_pass() && busy().may_pass());
        let never = Error::NoTool("iptables");
        assert!(!never.is_busy() && !never.may_pass());
    }

    #[test]
    fn what_was_refused_has_changed_nothing_and_what_was_lost_may_have() {
        let ended = |status| Error::Refused {
            program: "/sbin/x".to_owned(),
            family: Family::V4,
            batch: String::new(),
            status,
            stderr: String::new(),
        };
        let lost = || Error::Io {
            command: "nftables: add".to_owned(),
            source: std::io::ErrorKind::OutOfMemory.into(),
        };
        assert!(lost().may_have_changed() && ended(-1).may_have_changed());
        assert!(ended(0).may_have_changed());
        assert!(!ended(1).may_have_changed() && !Error::NoTool("x").may_have_changed());
        assert!(Error::Several(vec![ended(1), lost()]).may_have_changed());
    }

    #[test]
    fn the_words_of_a_program_come_before_what_it_was_given() {
        let refused = |batch: &str| Error::Refused {
            program: "/sbin/x".to_owned(),
            family: Family::V4,
            batch: batch.to_owned(),
            status: 2,
            stderr: "no such thing".to_owned(),
        };
        let plain = "/sbin/x: no such thing (exit status 2)";
        assert_eq!(refused("").to_string(), plain);
        let given = "/sbin/x: no such thing (exit status 2, given \"-N A\")";
        assert_eq!(refused("-N A").to_string(), given);
    }
}
