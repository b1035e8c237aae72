//! How long each part of a call takes, for the log.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The parts of one call and when each began. A clone is of the same call.
#[derive(Debug, Clone)]
pub(crate) struct Steps(Rc<RefCell<Vec<(&'static str, Instant)>>>);

impl Steps {
    /// The first step begins.
    pub(crate) fn begin(name: &'static str) -> Steps {
        let steps = Steps(Rc::default());
        steps.next(name);
        steps
    }

    /// The step of before ends, and this one begins.
    pub(crate) fn next(&self, name: &'static str) {
        self.0.borrow_mut().push((name, Instant::now()));
    }

    /// How long each step took, in the order in which they first began; the last one ends at `end`.
    /// Several of one name count together.
    pub(crate) fn durations(&self, end: Instant) -> Vec<(&'static str, Duration)> {
        let steps = self.0.borrow();
        let begins = steps.iter().map(|(_, begin)| *begin);
        let ends = begins.skip(1).chain([end]);
        let mut durations: Vec<(&str, Duration)> = Vec::new();
        for ((name, begin), end) in steps.iter().zip(ends) {
            let took = end.saturating_duration_since(*begin);
            match durations.iter_mut().find(|(known, _)| known == name) {
                Some((_, sum)) => *sum += took,
                None => durations.push((name, took)),
            }
        }
        durations
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_lasts_until_the_next_and_those_of_one_name_are_one() {
        let begin = Instant::now();
        let ms = Duration::from_millis;
        let at = |name, after| (name, begin + ms(after));
        let steps = [at("look", 0), at("ipam", 2), at("look", 9), at("veth", 10)];
        let steps = Steps(Rc::new(RefCell::new(steps.into())));
        let expected = [("look", ms(3)), ("ipam", ms(7)), ("veth", ms(5))];
        assert_eq!(steps.durations(begin + ms(15)), expected);
        assert_eq!(Steps::begin("read").durations(begin), [("read", ms(0))]);
    }

    #[test]
    fn a_clone_is_of_the_same_call() {
        let steps = Steps::begin("read");
        steps.clone().next("look");
        assert_eq!(steps.durations(Instant::now()).len(), 2);
    }
}
