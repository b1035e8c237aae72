//! What a step must come to: pure.

use cni::code;

use crate::{Action, Flaw};

/// What is known of an attachment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// Nothing of it may be there.
    Absent,
    /// All of it must be there.
    Attached,
    /// As [`Known::Attached`], but its namespace is gone, and what was in it.
    Bereft,
    /// A call has been killed: anything of it may be there, until the next one.
    Unsure,
}

/// How a call has ended.
#[derive(Debug)]
pub enum End {
    /// With success.
    Done,
    /// With an error.
    Refused(cni::Error),
    /// By a kill.
    Killed,
}

/// A step, and what was known before it.
#[derive(Debug, Clone, Copy)]
pub struct Before {
    /// What is done.
    pub action: Action,
    /// What was known.
    pub known: Known,
    /// Whether the namespace has vanished meanwhile.
    pub vanished: bool,
    /// Whether others may have all addresses.
    pub may_be_full: bool,
    /// Whether a plugin of the chain has succeeded before one failed.
    pub is_begun: bool,
}

impl Before {
    /// What is known then, and what is wrong with how the call has ended.
    pub fn then(self, end: &End) -> (Known, Option<Flaw>) {
        let known = match (self.known, self.vanished) {
            (Known::Attached, true) => Known::Bereft,
            (known, _) => known,
        };
        match (self.action, end) {
            // It changes nothing, however it ends.
            (Action::Check, End::Killed) => (known, None),
            (Action::Check, End::Done) if self.known == Known::Bereft => (known, Some(Flaw::Blind)),
            (Action::Check, End::Refused(_)) if known == Known::Attached => {
                (known, Some(Flaw::Refused))
            }
            (_, End::Killed) => (Known::Unsure, None),
            (Action::Add, End::Done) if self.vanished => (Known::Bereft, None),
            (Action::Add, End::Done) => (Known::Attached, None),
            (Action::Add, End::Refused(error)) => {
                let flaw = (!self.may_be_refused(error)).then_some(Flaw::Refused);
                // What the plugins before it have made is the next DEL's.
                let known = if self.is_begun { Known::Unsure } else { known };
                (known, flaw)
            }
            (Action::Del, End::Done) => (Known::Absent, None),
            (Action::Del, End::Refused(_)) => (Known::Unsure, Some(Flaw::Refused)),
            (Action::Check | Action::Lose | Action::Vanish | Action::Gc, _) => (known, None),
        }
    }

    /// Whether an ADD may be refused so.
    fn may_be_refused(self, error: &cni::Error) -> bool {
        self.vanished
            || match says_full(error) {
                true => self.may_be_full,
                false => self.known != Known::Absent,
            }
    }
}

/// Others have the words alone.
fn says_full(error: &cni::Error) -> bool {
    error.code == code::NO_ADDRESS || error.msg.contains("no IP addresses available")
}

/// What is known after GC of its network, for which all that are attached were valid.
pub fn after_gc(known: Known, end: &End) -> Known {
    match (known, end) {
        (Known::Attached, _) => Known::Attached,
        (Known::Absent, _) | (_, End::Done) => Known::Absent,
        (Known::Bereft | Known::Unsure, _) => Known::Unsure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn then(action: Action, known: Known, end: &End) -> (Known, Option<Flaw>) {
        let before = Before {
            action,
            known,
            vanished: false,
            may_be_full: false,
            is_begun: false,
        };
        before.then(end)
    }

    fn refused(code: u32) -> End {
        End::Refused(cni::Error::new(code, "no"))
    }

    const KNOWN: [Known; 4] = [Known::Absent, Known::Attached, Known::Bereft, Known::Unsure];

    #[test]
    fn del_leaves_nothing_whatever_came_before() {
        for known in KNOWN {
            assert_eq!(then(Action::Del, known, &End::Done), (Known::Absent, None));
            let failed = then(Action::Del, known, &refused(100));
            assert_eq!(failed, (Known::Unsure, Some(Flaw::Refused)));
            assert_eq!(
                then(Action::Del, known, &End::Killed),
                (Known::Unsure, None)
            );
        }
    }

    #[test]
    fn an_add_is_refused_where_something_is_there() {
        for known in KNOWN {
            assert_eq!(
                then(Action::Add, known, &End::Done),
                (Known::Attached, None)
            );
            let flaw = (known == Known::Absent).then_some(Flaw::Refused);
            assert_eq!(then(Action::Add, known, &refused(103)), (known, flaw));
            let full = code::NO_ADDRESS;
            assert_eq!(
                then(Action::Add, known, &refused(full)),
                (known, Some(Flaw::Refused))
            );
            let before = Before {
                action: Action::Add,
                known,
                vanished: false,
                may_be_full: true,
                is_begun: false,
            };
            assert_eq!(before.then(&refused(full)), (known, None));
        }
    }

    #[test]
    fn check_says_what_is_so_and_changes_nothing() {
        for (known, done, failed) in [
            (Known::Attached, None, Some(Flaw::Refused)),
            (Known::Bereft, Some(Flaw::Blind), None),
        ] {
            assert_eq!(then(Action::Check, known, &End::Done), (known, done));
            assert_eq!(then(Action::Check, known, &refused(101)), (known, failed));
            assert_eq!(then(Action::Check, known, &End::Killed), (known, None));
        }
    }

    #[test]
    fn a_namespace_that_vanishes_meanwhile_is_gone() {
        let then = |action, known, end| {
            let before = Before {
                action,
                known,
                vanished: true,
                may_be_full: false,
                is_begun: false,
            };
            before.then(&end)
        };
        assert_eq!(
            then(Action::Add, Known::Absent, End::Done),
            (Known::Bereft, None)
        );
        assert_eq!(
            then(Action::Add, Known::Absent, refused(4)),
            (Known::Absent, None)
        );
        assert_eq!(
            then(Action::Check, Known::Attached, End::Done),
            (Known::Bereft, None)
        );
        assert_eq!(
            then(Action::Check, Known::Attached, refused(101)),
            (Known::Bereft, None)
        );
        assert_eq!(
            then(Action::Del, Known::Attached, End::Done),
            (Known::Absent, None)
        );
    }

    #[test]
    fn a_chain_that_fails_half_way_is_the_next_dels() {
        let before = Before {
            action: Action::Add,
            known: Known::Absent,
            vanished: true,
            may_be_full: false,
            is_begun: true,
        };
        assert_eq!(before.then(&refused(4)), (Known::Unsure, None));
    }

    #[test]
    fn gc_takes_what_is_not_attached() {
        for (known, done, killed) in [
            (Known::Absent, Known::Absent, Known::Absent),
            (Known::Attached, Known::Attached, Known::Attached),
            (Known::Bereft, Known::Absent, Known::Unsure),
            (Known::Unsure, Known::Absent, Known::Unsure),
        ] {
            assert_eq!(after_gc(known, &End::Done), done);
            assert_eq!(after_gc(known, &End::Killed), killed);
        }
    }
}
