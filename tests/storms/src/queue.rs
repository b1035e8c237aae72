//! Hands out the steps of a plan: those of one pod in their order, one at a time.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

use crate::{Action, Layout, Plan, Step, lock};

/// How many steps may wait for their pods.
const MOST: usize = 64;

/// A plan, and who is busy.
#[derive(Debug)]
pub struct Queue {
    layout: Layout,
    only: Option<usize>,
    end: Instant,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Debug)]
struct State {
    plan: Plan,
    waiting: VecDeque<Step>,
    busy: BTreeSet<usize>,
    stopped: bool,
}

impl Queue {
    /// Hands out steps until then; those of one pod alone, where one is named.
    pub fn new(plan: Plan, layout: Layout, only: Option<usize>, end: Instant) -> Queue {
        Queue {
            layout,
            only: only.map(|attachment| layout.pod(attachment)),
            end,
            state: Mutex::new(State {
                plan,
                waiting: VecDeque::new(),
                busy: BTreeSet::new(),
                stopped: false,
            }),
            freed: Condvar::new(),
        }
    }

    /// The next step; `None` where it is over.
    pub fn next(&self) -> Option<Step> {
        let mut state = lock(&self.state);
        while !state.stopped && Instant::now() < self.end {
            if let Some(step) = self.free(&mut state) {
                return Some(step);
            }
            if state.waiting.len() < MOST {
                let step = state.plan.next()?;
                if self.is_wanted(&step) {
                    state.waiting.push_back(step);
                }
            } else {
                let left = self.end.saturating_duration_since(Instant::now());
                let waited = self.freed.wait_timeout(state, left);
                (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            }
        }
        None
    }

    /// The step is done.
    pub fn done(&self, step: &Step) {
        if let Some(pod) = self.pod(step) {
            lock(&self.state).busy.remove(&pod);
        }
        self.freed.notify_all();
    }

    /// Nothing is handed out any more.
    pub fn stop(&self) {
        lock(&self.state).stopped = true;
        self.freed.notify_all();
    }

    /// The first that waits for nobody. One that waits goes before those of its pod that came after.
    fn free(&self, state: &mut State) -> Option<Step> {
        let pod = |step: &Step| self.pod(step);
        let busy = &state.busy;
        let is_free = |step: &Step| pod(step).is_none_or(|pod| !busy.contains(&pod));
        let place = state.waiting.iter().position(is_free)?;
        let step = state.waiting.remove(place)?;
        state.busy.extend(pod(&step));
        Some(step)
    }

    fn is_wanted(&self, step: &Step) -> bool {
        let pod = self.pod(step);
        self.only.is_none() || pod.is_none() || pod == self.only
    }

    /// GC is no pod's.
    fn pod(&self, step: &Step) -> Option<usize> {
        (step.action != Action::Gc).then(|| self.layout.pod(step.whose))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;

    const LAYOUT: Layout = Layout {
        attachments: 16,
        networks: 3,
    };

    fn queue(only: Option<usize>) -> Queue {
        let end = Instant::now() + Duration::from_secs(60);
        Queue::new(Plan::new(1, LAYOUT), LAYOUT, only, end)
    }

    #[test]
    fn steps_of_a_pod_come_one_at_a_time_and_in_order() {
        let queue = queue(None);
        let mut held: VecDeque<Step> = VecDeque::new();
        let mut last = BTreeMap::new();
        for _ in 0..1000 {
            let step = queue.next().unwrap();
            if let Some(pod) = queue.pod(&step) {
                assert!(held.iter().all(|held| queue.pod(held) != Some(pod)));
                assert!(last.insert(pod, step.number) < Some(step.number));
            }
            held.push_back(step);
            if held.len() == 5 {
                queue.done(&held.pop_front().unwrap());
            }
        }
        queue.stop();
        assert_eq!(queue.next(), None);
    }

    #[test]
    fn the_steps_of_one_pod_are_those_of_the_whole_plan() {
        let queue = queue(Some(7));
        let expected = Plan::new(1, LAYOUT);
        let mut expected = expected.filter(|step| queue.pod(step).is_none_or(|pod| pod == 6));
        for _ in 0..50 {
            let step = queue.next().unwrap();
            assert_eq!(Some(step), expected.next());
            queue.done(&step);
        }
    }
}
