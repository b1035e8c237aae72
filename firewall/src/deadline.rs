//! How long a verb may wait, in all.

use std::time::{Duration, Instant};

/// How long a verb waits for locks that others hold: each needs some tens of milliseconds.
const LOCKS: Duration = Duration::from_secs(30);
/// When a verb's programs must have ended.
const PROGRAMS: Duration = Duration::from_secs(60);
/// What a program is given however late it is: one that hangs must not keep the others from their
/// work.
const LEAST: Duration = Duration::from_secs(1);

const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// One verb's time. All its waits share it, however many families, variants and attempts there are.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    locks: Instant,
    programs: Instant,
}

impl Deadline {
    /// Of a verb that begins now.
    pub fn start() -> Deadline {
        Deadline::after(LOCKS, PROGRAMS)
    }

    /// Waits that end after `locks`, and programs after `programs`, from now.
    pub fn after(locks: Duration, programs: Duration) -> Deadline {
        let now = Instant::now();
        Deadline {
            locks: now + locks,
            programs: now + programs,
        }
    }

    /// How long a lock may still be waited for.
    pub fn for_locks(&self) -> Duration {
        self.locks.saturating_duration_since(Instant::now())
    }

    /// How long a program that is started now may run.
    pub fn for_program(&self) -> Duration {
        let left = self.programs.saturating_duration_since(Instant::now());
        left.max(LEAST)
    }
}

/// The pauses between looks at something that others hold: each double the one before, up to a
/// longest one. They fill `total`, which may be less than the last one would be.
pub fn pauses(total: Duration) -> impl Iterator<Item = Duration> {
    let mut left = total;
    let mut pause = FIRST_PAUSE;
    std::iter::from_fn(move || {
        let next = pause.min(left);
        left = left.saturating_sub(next);
        pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
        (!next.is_zero()).then_some(next)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_and_fill_the_time() {
        let milliseconds = |total| {
            let pauses = pauses(Duration::from_millis(total));
            pauses.map(|pause| pause.as_millis()).collect::<Vec<_>>()
        };
        assert_eq!(milliseconds(0), [0; 0]);
        assert_eq!(milliseconds(4), [1, 2, 1]);
        assert_eq!(milliseconds(200), [1, 2, 4, 8, 16, 32, 50, 50, 37]);
        assert_eq!(milliseconds(30_000).iter().sum::<u128>(), 30_000);
    }

    #[test]
    fn after_the_end_nothing_is_waited_for_but_a_program_still_has_its_least() {
        let over = Deadline::after(Duration::ZERO, Duration::ZERO);
        assert_eq!(over.for_locks(), Duration::ZERO);
        assert_eq!(over.for_program(), LEAST);
        let long = Deadline::start();
        assert!(long.for_locks() <= LOCKS && long.for_program() <= PROGRAMS);
    }
}
