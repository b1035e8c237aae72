//! What becomes of a packet that is forwarded: rules as conditions and actions, walked without a
//! packet being sent.
//!
//! Not every condition can be judged from outside. So a packet counts as dropped only where it is
//! for certain: what may match neither saves nor dooms it for sure.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;

use super::shell::quote;

use crate::rule::Family;

/// How deep chains may lead into each other (`NFT_JUMP_STACK_SIZE` of the kernel is 16).
const DEEPEST: u32 = 32;

/// The first packet of a connection, as it passes from one link to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// Name of the link that it comes in by.
    pub input: String,
    /// Name of the link that it leaves by.
    pub output: String,
    /// Who sends it.
    pub source: IpAddr,
    /// To whom.
    pub destination: IpAddr,
}

impl Packet {
    fn family(&self) -> Family {
        Family::of(&self.source.into())
    }
}

/// What a condition is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Condition {
    /// It is true where the test is, and with `not` where it is not.
    Is {
        /// What is asked.
        test: Test,
        /// Whether the answer is turned around.
        not: bool,
    },
    /// It is true of a packet that nobody has marked, or is not; nobody can tell what others mark.
    Unmarked(bool),
    /// Nobody can tell from here.
    Maybe,
}

/// A question to which a packet has an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Test {
    /// It comes in by such a link.
    Input(Name),
    /// It leaves by such a link.
    Output(Name),
    /// Its source is in the range.
    Source(IpNet),
    /// Its destination is in the range.
    Destination(IpNet),
    /// It is of the family.
    Family(Family),
    /// The first packet of a connection is among the states that are wanted.
    New(bool),
    /// One of them is true.
    Any(Vec<Test>),
}

/// The name of a link, or how it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    /// The name, or its beginning.
    pub text: String,
    /// Whether it goes on.
    pub begins: bool,
}

impl Name {
    fn fits(&self, name: &str) -> bool {
        match self.begins {
            true => name.starts_with(&self.text),
            false => name == self.text,
        }
    }
}

impl Test {
    fn holds(&self, packet: &Packet) -> bool {
        match self {
            Test::Input(name) => name.fits(&packet.input),
            Test::Output(name) => name.fits(&packet.output),
            Test::Source(net) => net.contains(&packet.source),
            Test::Destination(net) => net.contains(&packet.destination),
            Test::Family(family) => packet.family() == *family,
            Test::New(wanted) => *wanted,
            Test::Any(tests) => tests.iter().any(|test| test.holds(packet)),
        }
    }
}

/// What a rule does with a packet that meets all its conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// This base chain has nothing against it.
    Accept,
    /// It is gone, whether its sender is told or not.
    Drop,
    /// The next rule is asked.
    Continue,
    /// The chain that led here goes on.
    Return,
    /// Another chain is asked, and then the next rule.
    Jump(String),
    /// Another chain is asked instead.
    Goto(String),
    /// It gets an address of the node's for its source.
    Translate,
    /// The action of the first test that is true; of none the next rule is asked.
    Choose(Vec<(Test, Action)>),
    /// Nobody can tell from here.
    Unsure,
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    /// All must be true.
    pub conditions: Vec<Condition>,
    /// What is done then.
    pub action: Action,
    /// The rule in words.
    pub text: String,
    /// The command that removes it.
    pub removal: String,
}

/// Whether a rule matches.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Match {
    Yes,
    No,
    Maybe,
}

impl Action {
    /// What is done with a packet.
    fn of(&self, packet: &Packet) -> &Action {
        let Action::Choose(choices) = self else {
            return self;
        };
        let mut choices = choices.iter();
        let chosen = choices.find(|(test, _)| test.holds(packet));
        chosen.map_or(&Action::Continue, |(_, action)| action)
    }
}

impl Step {
    fn matches(&self, packet: &Packet) -> Match {
        let mut all = Match::Yes;
        for condition in &self.conditions {
            match condition {
                Condition::Is { test, not } if test.holds(packet) == *not => return Match::No,
                Condition::Is { .. } => {}
                Condition::Unmarked(_) | Condition::Maybe => all = Match::Maybe,
            }
        }
        all
    }
}

/// What a chain where forwarded packets come in decides, with all chains that it leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// The families that it is asked for.
    pub(crate) families: Vec<Family>,
    /// By what it was read, table and chain, in words.
    pub name: String,
    /// Whether it drops what no rule decides on.
    pub(crate) drops: bool,
    /// The chain where packets come in.
    pub(crate) entrance: String,
    /// It is asked before a host port's address is translated to the pod's, and by whichever link a
    /// packet will leave.
    pub(crate) is_early: bool,
    /// Its table's chains.
    pub(crate) chains: BTreeMap<String, Vec<Step>>,
    /// How a rule is put before all others: what stands before and behind the condition.
    pub(crate) insertion: Insertion,
}

/// How a rule that accepts is put into a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Insertion {
    /// `PROGRAM -t TABLE -I CHAIN -s RANGE -j ACCEPT`.
    Iptables {
        /// Name of the program.
        program: String,
        /// Name of the table.
        table: String,
    },
    /// `nft insert rule TABLE CHAIN ip saddr RANGE accept`.
    Nft {
        /// Family and name of the table.
        table: String,
    },
}

/// That a packet is dropped, for certain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// The rule or the policy that does it.
    pub by: String,
    /// The commands that let the packet pass.
    pub mend: Vec<String>,
}

/// What a chain leaves of a packet.
pub(super) enum Outcome<'a> {
    /// By this rule.
    Accepted(&'a Step),
    /// By this rule.
    Dropped(&'a Step),
    /// By this rule.
    Translated(&'a Step),
    /// No rule decides.
    Through,
    /// Nobody can tell.
    Unsure,
}

impl Gate {
    /// Whether it is asked before a host port's address is translated to the pod's: what it decides on
    /// such a packet cannot be told by the pod's address.
    pub fn is_early(&self) -> bool {
        self.is_early
    }

    pub(super) fn early_if(mut self, is_early: bool) -> Gate {
        self.is_early = is_early;
        self
    }

    /// Whether it is asked about a packet.
    pub(super) fn is_asked(&self, packet: &Packet) -> bool {
        self.families.contains(&packet.family())
    }

    /// Whether and why a packet is dropped here; `None` where it is not, or where that cannot be
    /// known. `range` is what an acceptance would be for: the addresses of all pods of the node.
    pub fn drops(&self, packet: &Packet, range: IpNet) -> Option<Dropped> {
        if !self.is_asked(packet) {
            return None;
        }
        match self.walk(&self.entrance, packet, 0) {
            Outcome::Dropped(step) => Some(Dropped {
                by: format!("{}: {}", self.name, step.text),
                mend: vec![step.removal.clone()],
            }),
            Outcome::Through if self.drops => Some(Dropped {
                by: format!("{}: policy drop, and no rule accepts it", self.name),
                mend: self.insertions(range),
            }),
            _ => None,
        }
    }

    pub(super) fn walk(&self, chain: &str, packet: &Packet, depth: u32) -> Outcome<'_> {
        let Some(steps) = self.chains.get(chain).filter(|_| depth < DEEPEST) else {
            return Outcome::Unsure;
        };
        let deeper = |chain: &str| self.walk(chain, packet, depth.saturating_add(1));
        for step in steps {
            let matched = step.matches(packet);
            if matched == Match::No {
                continue;
            }
            let outcome = match step.action.of(packet) {
                Action::Continue => Outcome::Through,
                Action::Accept => Outcome::Accepted(step),
                Action::Drop => Outcome::Dropped(step),
                Action::Return if matched == Match::Yes => return Outcome::Through,
                Action::Goto(chain) if matched == Match::Yes => return deeper(chain),
                Action::Jump(chain) => deeper(chain),
                Action::Translate => Outcome::Translated(step),
                Action::Return | Action::Goto(_) | Action::Choose(_) | Action::Unsure => {
                    Outcome::Unsure
                }
            };
            match outcome {
                Outcome::Through => {}
                // What may be dropped here goes on otherwise: what comes then decides.
                Outcome::Dropped(_) if matched == Match::Maybe => {}
                Outcome::Accepted(_) | Outcome::Translated(_) if matched == Match::Maybe => {
                    return Outcome::Unsure;
                }
                decided => return decided,
            }
        }
        Outcome::Through
    }

    fn insertions(&self, range: IpNet) -> Vec<String> {
        let chain = quote(&self.entrance);
        match &self.insertion {
            Insertion::Iptables { program, table } => ["-s", "-d"]
                .map(|side| format!("{program} -t {table} -I {chain} {side} {range} -j ACCEPT"))
                .into(),
            Insertion::Nft { table } => {
                let family = match range {
                    IpNet::V4(_) => "ip",
                    IpNet::V6(_) => "ip6",
                };
                ["saddr", "daddr"]
                    .map(|side| {
                        format!("nft insert rule {table} {chain} {family} {side} {range} accept")
                    })
                    .into()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(conditions: Vec<Condition>, action: Action) -> Step {
        Step {
            text: format!("{action:?}"),
            removal: String::new(),
            conditions,
            action,
        }
    }

    fn from_bridge(not: bool) -> Condition {
        let name = Name {
            text: "cni".to_owned(),
            begins: true,
        };
        Condition::Is {
            test: Test::Input(name),
            not,
        }
    }

    /// What becomes of a pod's packet, in a gate of these chains, the first of which is entered.
    fn fate(drops: bool, chains: &[(&str, Vec<Step>)]) -> Option<String> {
        let gate = Gate {
            families: vec![Family::V4],
            name: "g".to_owned(),
            drops,
            entrance: chains[0].0.to_owned(),
            is_early: false,
            chains: chains
                .iter()
                .map(|(name, steps)| ((*name).to_owned(), steps.clone()))
                .collect(),
            insertion: Insertion::Nft {
                table: "inet f".to_owned(),
            },
        };
        let packet = Packet {
            input: "cni0".to_owned(),
            output: "eth0".to_owned(),
            source: "10.1.0.2".parse().unwrap(),
            destination: "192.0.2.1".parse().unwrap(),
        };
        let dropped = gate.drops(&packet, "10.1.0.0/24".parse().unwrap());
        dropped.map(|dropped| dropped.by)
    }

    #[test]
    fn the_policy_decides_where_no_rule_does() {
        assert_eq!(fate(false, &[("f", Vec::new())]), None);
        let policy = "g: policy drop, and no rule accepts it";
        let of = |steps| fate(true, &[("f", steps)]);
        assert_eq!(of(Vec::new()).as_deref(), Some(policy));
        let other = step(vec![from_bridge(true)], Action::Accept);
        assert_eq!(of(vec![other]).as_deref(), Some(policy));
        let ours = step(vec![from_bridge(false)], Action::Accept);
        assert_eq!(of(vec![ours]), None);
        let returns = step(Vec::new(), Action::Return);
        let late = step(Vec::new(), Action::Accept);
        assert_eq!(of(vec![returns, late]).as_deref(), Some(policy));
    }

    #[test]
    fn a_rule_decides_before_the_policy() {
        let drop = step(vec![from_bridge(false)], Action::Drop);
        let accept = step(Vec::new(), Action::Accept);
        let of = |steps| fate(false, &[("f", steps)]);
        assert_eq!(
            of(vec![drop.clone(), accept.clone()]).as_deref(),
            Some("g: Drop")
        );
        assert_eq!(of(vec![accept, drop]), None);
        assert_eq!(of(vec![step(vec![from_bridge(true)], Action::Drop)]), None);
    }

    #[test]
    fn what_cannot_be_known_is_not_said() {
        let maybe = |action| step(vec![Condition::Maybe, from_bridge(false)], action);
        for (unsure, certain) in [
            (maybe(Action::Accept), false),
            (maybe(Action::Return), false),
            (maybe(Action::Goto("x".to_owned())), false),
            (step(Vec::new(), Action::Unsure), false),
            (maybe(Action::Unsure), false),
            (maybe(Action::Drop), true),
            (maybe(Action::Continue), true),
            // A condition that is false for certain is enough.
            (
                step(vec![Condition::Maybe, from_bridge(true)], Action::Accept),
                true,
            ),
        ] {
            let text = format!("{unsure:?}");
            let fate = fate(true, &[("f", vec![unsure])]);
            assert_eq!(fate.is_some(), certain, "{text}");
        }
    }

    #[test]
    fn chains_lead_to_others_and_come_back() {
        let jump = |conditions| step(conditions, Action::Jump("x".to_owned()));
        let of = |first: Step, other: Action| {
            fate(
                true,
                &[("f", vec![first]), ("x", vec![step(Vec::new(), other)])],
            )
        };
        assert_eq!(of(jump(Vec::new()), Action::Accept), None);
        assert_eq!(
            of(jump(Vec::new()), Action::Drop).as_deref(),
            Some("g: Drop")
        );
        assert!(of(jump(Vec::new()), Action::Return).is_some());
        assert_eq!(of(jump(vec![Condition::Maybe]), Action::Accept), None);
        let policy = of(jump(vec![Condition::Maybe]), Action::Drop);
        assert_eq!(
            policy.as_deref(),
            Some("g: policy drop, and no rule accepts it")
        );
        let goto = step(Vec::new(), Action::Goto("x".to_owned()));
        assert_eq!(of(goto, Action::Drop).as_deref(), Some("g: Drop"));
        // A circle, which no kernel takes, and a chain that is not there.
        let circle = step(Vec::new(), Action::Jump("f".to_owned()));
        assert_eq!(fate(true, &[("f", vec![circle])]), None);
        assert_eq!(fate(true, &[("f", vec![jump(Vec::new())])]), None);
    }
}
