//! Which steps are made: a pure function of a seed.

use fastrand::Rng;

/// Attachments, their pods and their networks, by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// How many there are.
    pub attachments: usize,
    /// How many networks; the last one is that of second interfaces, where there is more than one.
    pub networks: usize,
}

/// One of so many attachments is the second interface of the pod before it.
const SECOND: usize = 8;

impl Layout {
    /// Whether an attachment is the second interface of its pod.
    pub fn is_second(self, attachment: usize) -> bool {
        self.networks > 1 && attachment % SECOND == SECOND - 1
    }

    /// The pod of an attachment: the number of its first one.
    pub fn pod(self, attachment: usize) -> usize {
        attachment - usize::from(self.is_second(attachment))
    }

    /// The network of an attachment.
    pub fn network(self, attachment: usize) -> usize {
        let others = self.networks - usize::from(self.networks > 1);
        match self.is_second(attachment) {
            true => others,
            false => attachment % others.max(1),
        }
    }

    /// The attachments of the pod of one of them.
    pub fn of_pod(self, attachment: usize) -> impl Iterator<Item = usize> {
        let pod = self.pod(attachment);
        let second = (pod + 1 < self.attachments && self.is_second(pod + 1)).then_some(pod + 1);
        std::iter::once(pod).chain(second)
    }
}

/// What is done in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// ADD, whatever came before.
    Add,
    /// CHECK.
    Check,
    /// DEL.
    Del,
    /// The runtime loses the result, and what it has asked for.
    Lose,
    /// The pod's namespace vanishes, with all interfaces.
    Vanish,
    /// GC of a network.
    Gc,
}

impl Action {
    /// All of them.
    pub const ALL: [Action; 6] = [
        Action::Add,
        Action::Check,
        Action::Del,
        Action::Lose,
        Action::Vanish,
        Action::Gc,
    ];
}

/// What happens in the middle of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// In which plugin's call, in their order.
    pub call: usize,
    /// When, in thousandths of the time that it takes as a rule.
    pub moment: u32,
    /// What.
    pub what: What,
}

/// What happens in the middle of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// SIGKILL for the plugin and all that it has started.
    Group,
    /// SIGKILL for the plugin; what it has started lives on.
    Alone,
    /// The pod's namespace vanishes.
    Namespace,
}

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Its place in the plan.
    pub number: u64,
    /// The number of the attachment, or that of the network for GC.
    pub whose: usize,
    /// What is done.
    pub action: Action,
    /// What happens meanwhile.
    pub fault: Option<Fault>,
    /// A coin, for what can be done in two ways.
    pub coin: bool,
}

/// What is to be expected of an attachment, had every fault hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Absent,
    Attached,
    Unsure,
}

/// One of so many steps is GC.
const GC: usize = 60;
/// How many plugins a chain has.
const CHAIN: usize = 3;

/// What is done in each phase, by its weight.
const ABSENT: &[(Action, u32)] = &[(Action::Add, 92), (Action::Del, 5), (Action::Vanish, 3)];
const ATTACHED: &[(Action, u32)] = &[
    (Action::Check, 40),
    (Action::Del, 28),
    (Action::Add, 8),
    (Action::Lose, 10),
    (Action::Vanish, 14),
];
const UNSURE: &[(Action, u32)] = &[
    (Action::Del, 52),
    (Action::Add, 28),
    (Action::Lose, 10),
    (Action::Vanish, 6),
    (Action::Check, 4),
];

/// All steps, one after the other, without an end.
#[derive(Debug, Clone)]
pub struct Plan {
    layout: Layout,
    random: Rng,
    phases: Vec<Phase>,
    number: u64,
}

impl Plan {
    /// The plan of that seed.
    pub fn new(seed: u64, layout: Layout) -> Plan {
        Plan {
            layout,
            random: Rng::with_seed(seed),
            phases: vec![Phase::Absent; layout.attachments],
            number: 0,
        }
    }

    /// What happens meanwhile, in so many of a hundred steps.
    fn fault(&mut self, percent: u32, can_vanish: bool) -> Option<Fault> {
        // The same draws whatever they come to, so that a change of one number is no other storm.
        let (is_hit, what) = (self.random.u32(0..100) < percent, self.random.u32(0..100));
        let (call, moment) = (self.random.usize(0..CHAIN), self.random.u32(0..1100));
        let what = match what {
            0..45 => What::Group,
            45..90 => What::Alone,
            _ if can_vanish => What::Namespace,
            _ => What::Group,
        };
        is_hit.then_some(Fault { call, moment, what })
    }

    fn collect(&mut self) -> (usize, Option<Fault>) {
        let network = self.random.usize(0..self.layout.networks);
        let fault = self.fault(25, false);
        for (attachment, phase) in self.phases.iter_mut().enumerate() {
            let is_gone = fault.is_none() && *phase == Phase::Unsure;
            if is_gone && self.layout.network(attachment) == network {
                *phase = Phase::Absent;
            }
        }
        (network, fault)
    }

    fn attend(&mut self) -> (usize, Action, Option<Fault>) {
        let attachment = self.random.usize(0..self.layout.attachments);
        let phase = self.phases.get(attachment).copied();
        let phase = phase.unwrap_or(Phase::Absent);
        let weights = match phase {
            Phase::Absent => ABSENT,
            Phase::Attached => ATTACHED,
            Phase::Unsure => UNSURE,
        };
        let action = pick(&mut self.random, weights);
        let percent = match action {
            Action::Add => 25,
            Action::Check => 10,
            Action::Del => 35,
            Action::Lose | Action::Vanish | Action::Gc => 0,
        };
        let fault = self.fault(percent, true);
        let next = match (action, fault.map(|fault| fault.what)) {
            (Action::Lose, _) => phase,
            (Action::Check, None | Some(What::Group | What::Alone)) => phase,
            (Action::Add, None) => Phase::Attached,
            (Action::Del, None | Some(What::Namespace)) => Phase::Absent,
            _ => Phase::Unsure,
        };
        let is_pods =
            action == Action::Vanish || fault.is_some_and(|fault| fault.what == What::Namespace);
        for other in self.layout.of_pod(attachment) {
            if let Some(phase) = self.phases.get_mut(other) {
                match (other == attachment, *phase) {
                    (true, Phase::Absent) if action == Action::Vanish => {}
                    (true, _) => *phase = next,
                    (false, Phase::Attached) if is_pods => *phase = Phase::Unsure,
                    (false, _) => {}
                }
            }
        }
        (attachment, action, fault)
    }
}

fn pick(random: &mut Rng, weights: &[(Action, u32)]) -> Action {
    let mut left = random.u32(0..weights.iter().map(|(_, weight)| weight).sum());
    for (action, weight) in weights {
        match left.checked_sub(*weight) {
            Some(less) => left = less,
            None => return *action,
        }
    }
    Action::Del
}

impl Iterator for Plan {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        self.number += 1;
        let coin = self.random.bool();
        let (whose, action, fault) = if self.random.usize(0..GC) == 0 {
            let (network, fault) = self.collect();
            (network, Action::Gc, fault)
        } else {
            self.attend()
        };
        Some(Step {
            number: self.number,
            whose,
            action,
            fault,
            coin,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const LAYOUT: Layout = Layout {
        attachments: 200,
        networks: 7,
    };

    #[test]
    fn a_seed_is_a_plan() {
        let plan = |seed| Plan::new(seed, LAYOUT).take(500).collect::<Vec<_>>();
        assert_eq!(plan(7), plan(7));
        assert_ne!(plan(7), plan(8));
    }

    #[test]
    fn everything_happens_to_everyone() {
        let steps: Vec<_> = Plan::new(1, LAYOUT).take(20_000).collect();
        for action in Action::ALL {
            let all: Vec<_> = steps.iter().filter(|step| step.action == action).collect();
            let whose: BTreeSet<_> = all.iter().map(|step| step.whose).collect();
            let most = if action == Action::Gc { 7 } else { 200 };
            assert_eq!(whose.len(), most, "{action:?}");
            let faults: BTreeSet<_> = all
                .iter()
                .filter_map(|step| step.fault.map(|fault| (fault.call, fault.what)))
                .collect();
            let kinds = match action {
                Action::Lose | Action::Vanish => 0,
                Action::Gc => 6,
                _ => 9,
            };
            assert_eq!(faults.len(), kinds, "{action:?}");
        }
    }

    #[test]
    fn second_interfaces_are_in_the_last_network() {
        assert_eq!((LAYOUT.pod(6), LAYOUT.pod(7), LAYOUT.pod(8)), (6, 6, 8));
        assert_eq!((LAYOUT.network(6), LAYOUT.network(7)), (0, 6));
        assert_eq!(LAYOUT.of_pod(7).collect::<Vec<_>>(), [6, 7]);
        assert_eq!(LAYOUT.of_pod(8).collect::<Vec<_>>(), [8]);
        let one = Layout {
            attachments: 8,
            networks: 1,
        };
        assert_eq!((one.pod(7), one.network(7)), (7, 0));
    }
}
