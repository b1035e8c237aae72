//! A rule of nf_tables, which loads a part of the packet, masks it, and compares.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Subnets, Ipv6Subnets};

use super::native::{attributes, number_of, text};
use super::packet::{Action, Condition, Name, Test};
use crate::rule::Family;

/// The elements of sets; `None` for one whose elements cannot be told.
pub type Sets = BTreeMap<String, Option<Vec<Member>>>;

/// An element of a set, or of a map of verdicts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its key; of a range the first one.
    pub key: Vec<u8>,
    /// The last one, where it is a range.
    pub last: Option<Vec<u8>>,
    /// What is done, where the key leads to a verdict.
    pub action: Option<Action>,
}

/// What a rule asks and does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// All must be true.
    pub conditions: Vec<Condition>,
    /// What is done then.
    pub action: Action,
}

/// What was loaded last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loaded {
    Input,
    Output,
    InputIndex,
    OutputIndex,
    Source(Family),
    Destination(Family),
    Family,
    State,
    Mark,
    Else,
}

/// The bit of a connection's first packet: `NF_CT_STATE_BIT(IP_CT_NEW)` of
/// linux/netfilter/nf_conntrack_common.h.
const STATE_NEW: u32 = 8;

/// The expressions of a rule: name and attributes of each.
fn expressions(list: &[u8]) -> impl Iterator<Item = (String, &[u8])> {
    const NAME: u16 = 1;
    const DATA: u16 = 2;
    attributes(list).map(|(_, expression)| {
        let (mut name, mut data): (String, &[u8]) = (String::new(), &[]);
        for (kind, value) in attributes(expression) {
            match kind {
                NAME => name = text(value),
                DATA => data = value,
                _ => {}
            }
        }
        (name, data)
    })
}

/// The names of the sets that a rule asks.
pub fn sets(list: &[u8]) -> Vec<String> {
    let lookups = expressions(list).filter(|(name, _)| name == "lookup");
    lookups
        .filter_map(|(_, data)| get(data, lookup::SET).map(text))
        .collect()
}

/// Attributes of `lookup` (`NFTA_LOOKUP_*`).
mod lookup {
    pub const SET: u16 = 1;
    pub const TARGET: u16 = 3;
    pub const FLAGS: u16 = 5;
}

/// Reads a rule's expressions.
pub fn read(list: &[u8], sets: &Sets) -> Reading {
    let mut reader = Reader {
        sets,
        loaded: Loaded::Else,
        mask: None,
        conditions: Vec::new(),
    };
    for (name, data) in expressions(list) {
        if let Some(action) = reader.take(&name, data) {
            return Reading {
                conditions: reader.conditions,
                action,
            };
        }
    }
    Reading {
        conditions: reader.conditions,
        action: Action::Continue,
    }
}

struct Reader<'a> {
    sets: &'a Sets,
    loaded: Loaded,
    mask: Option<Vec<u8>>,
    conditions: Vec<Condition>,
}

impl Reader<'_> {
    /// Takes one expression; what is done, where it says that.
    fn take(&mut self, name: &str, data: &[u8]) -> Option<Action> {
        match name {
            "meta" => self.load(meta(data)),
            "payload" => self.load(payload(data)),
            "ct" => self.load(ct(data)),
            "bitwise" => match mask(data) {
                Some(mask) => self.mask = Some(mask),
                None => self.load(Loaded::Else),
            },
            "cmp" => self.compare(data),
            "lookup" if get(data, lookup::TARGET).is_some() => return Some(self.choose(data)),
            "lookup" => self.look_up(data),
            "immediate" => return verdict(data),
            "reject" => return Some(Action::Drop),
            "match" => {
                /// `NFTA_MATCH_NAME`.
                const NAME: u16 = 1;
                if get(data, NAME).map(text).as_deref() != Some("comment") {
                    self.conditions.push(Condition::Maybe);
                }
            }
            "target" => return target(data),
            "counter" | "log" | "notrack" | "last" => {}
            "masq" => return Some(Action::Translate),
            "nat" if is_source_nat(data) => return Some(Action::Translate),
            "queue" | "synproxy" | "tproxy" | "nat" | "redir" | "fwd" | "dup" => {
                return Some(Action::Unsure);
            }
            // What limits, and what loads something else.
            "limit" | "quota" | "connlimit" | "objref" | "range" | "dynset" => {
                self.load(Loaded::Else);
                self.conditions.push(Condition::Maybe);
            }
            _ => self.load(Loaded::Else),
        }
        None
    }

    fn load(&mut self, loaded: Loaded) {
        self.loaded = loaded;
        self.mask = None;
    }

    fn compare(&mut self, data: &[u8]) {
        /// `NFTA_CMP_OP` and `NFTA_CMP_DATA`.
        const OPERATOR: u16 = 2;
        const DATA: u16 = 3;
        let value = get(data, DATA).and_then(value);
        let test = value.and_then(|value| self.test(value));
        let not = match get(data, OPERATOR).and_then(number_of) {
            Some(0) => Some(false),
            Some(1) => Some(true),
            // Greater and less.
            _ => None,
        };
        // A bit that is set is asked for as one that differs from none.
        let turned = self.loaded == Loaded::State && self.mask.is_some();
        let zero = value.is_some_and(|value| value.iter().all(|byte| *byte == 0));
        self.conditions.push(match (test, not) {
            (None, Some(not)) if self.loaded == Loaded::Mark => Condition::Unmarked(zero != not),
            (Some(test), Some(not)) => Condition::Is {
                test,
                not: not != turned,
            },
            _ => Condition::Maybe,
        });
    }

    fn look_up(&mut self, data: &[u8]) {
        /// `NFT_LOOKUP_F_INV`.
        const NOT: u32 = 1;
        let tests = self.members(data).and_then(|members| {
            let tests = members.iter().map(|member| self.test_of(member));
            tests.collect::<Option<Vec<_>>>()
        });
        let flags = get(data, lookup::FLAGS)
            .and_then(number_of)
            .unwrap_or_default();
        self.conditions.push(match tests {
            Some(tests) if self.mask.is_none() => Condition::Is {
                test: Test::Any(tests),
                not: flags & NOT != 0,
            },
            _ => Condition::Maybe,
        });
    }

    fn members(&self, lookup: &[u8]) -> Option<&Vec<Member>> {
        let name = get(lookup, lookup::SET)?;
        self.sets.get(&text(name))?.as_ref()
    }

    /// What a map of verdicts does.
    fn choose(&self, data: &[u8]) -> Action {
        let choices = self.members(data).and_then(|members| {
            let choice = |member: &Member| Some((self.test_of(member)?, member.action.clone()?));
            members.iter().map(choice).collect()
        });
        match choices {
            Some(choices) if self.mask.is_none() => Action::Choose(choices),
            _ => Action::Unsure,
        }
    }

    /// What is asked by a look for an element. Of ranges only those of addresses are known.
    fn test_of(&self, member: &Member) -> Option<Test> {
        let Some(last) = &member.last else {
            return self.test(&member.key);
        };
        let nets: Vec<IpNet> = match (address(&member.key)?, address(last)?) {
            (IpAddr::V4(first), IpAddr::V4(last)) => {
                Ipv4Subnets::new(first, last, 0).map(IpNet::V4).collect()
            }
            (IpAddr::V6(first), IpAddr::V6(last)) => {
                Ipv6Subnets::new(first, last, 0).map(IpNet::V6).collect()
            }
            _ => return None,
        };
        let test = match self.loaded {
            Loaded::Source(_) => Test::Source,
            Loaded::Destination(_) => Test::Destination,
            _ => return None,
        };
        let plain = self.mask.is_none();
        plain.then(|| Test::Any(nets.into_iter().map(test).collect()))
    }

    /// What is asked by a comparison with a value.
    fn test(&self, value: &[u8]) -> Option<Test> {
        let plain = self.mask.is_none();
        match self.loaded {
            Loaded::Input if plain => name(value).map(Test::Input),
            Loaded::Output if plain => name(value).map(Test::Output),
            Loaded::InputIndex if plain => loopback(value).map(Test::Input),
            Loaded::OutputIndex if plain => loopback(value).map(Test::Output),
            Loaded::Source(family) => self.net(family, value).map(Test::Source),
            Loaded::Destination(family) => self.net(family, value).map(Test::Destination),
            Loaded::Family if plain => match value.first()? {
                2 => Some(Test::Family(Family::V4)),
                10 => Some(Test::Family(Family::V6)),
                _ => None,
            },
            Loaded::State => self.state(value),
            _ => None,
        }
    }

    /// Some bytes of an address: the whole, or as many as the prefix has.
    fn net(&self, family: Family, bytes: &[u8]) -> Option<IpNet> {
        let length = match &self.mask {
            Some(mask) => prefix(mask)?,
            None => u8::try_from(bytes.len().checked_mul(8)?).ok()?,
        };
        let mut whole = [0; 16];
        whole.get_mut(..bytes.len())?.copy_from_slice(bytes);
        let address: IpAddr = match family {
            Family::V4 => <[u8; 4]>::try_from(whole.get(..4)?).ok()?.into(),
            Family::V6 => whole.into(),
        };
        IpNet::new(address, length).ok()
    }

    /// With a mask, whether any of its bits is set is asked for; the value is 0 then.
    fn state(&self, value: &[u8]) -> Option<Test> {
        let number = |bytes: &[u8]| bytes.try_into().map(u32::from_ne_bytes).ok();
        let value = number(value)?;
        match &self.mask {
            Some(mask) if value == 0 => Some(Test::New(number(mask)? & STATE_NEW != 0)),
            Some(_) => None,
            None => Some(Test::New(value == STATE_NEW)),
        }
    }
}

/// A whole address.
fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    let v6 = <[u8; 16]>::try_from(bytes).map(IpAddr::from);
    v4.or(v6).ok()
}

/// The value of an attribute.
fn get(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes)
        .find(|(found, _)| *found == kind)
        .map(|(_, value)| value)
}

/// `NFTA_DATA_VALUE`.
fn value(data: &[u8]) -> Option<&[u8]> {
    const VALUE: u16 = 1;
    get(data, VALUE)
}

/// `NFTA_META_KEY`; one that sets something loads nothing.
fn meta(data: &[u8]) -> Loaded {
    const KEY: u16 = 2;
    match get(data, KEY).and_then(number_of) {
        Some(3) => Loaded::Mark,
        Some(4) => Loaded::InputIndex,
        Some(5) => Loaded::OutputIndex,
        Some(6) => Loaded::Input,
        Some(7) => Loaded::Output,
        Some(15) => Loaded::Family,
        _ => Loaded::Else,
    }
}

/// `NFTA_PAYLOAD_BASE`, `_OFFSET` and `_LEN`: which bytes of the network header.
fn payload(data: &[u8]) -> Loaded {
    let number = |kind| get(data, kind).and_then(number_of);
    match (number(2), number(3), number(4)) {
        (Some(1), Some(12), Some(1..=4)) => Loaded::Source(Family::V4),
        (Some(1), Some(16), Some(1..=4)) => Loaded::Destination(Family::V4),
        (Some(1), Some(8), Some(1..=16)) => Loaded::Source(Family::V6),
        (Some(1), Some(24), Some(1..=16)) => Loaded::Destination(Family::V6),
        _ => Loaded::Else,
    }
}

/// `NFTA_CT_KEY`: `NFT_CT_STATE` is 0.
fn ct(data: &[u8]) -> Loaded {
    match get(data, 2).and_then(number_of) {
        Some(0) => Loaded::State,
        _ => Loaded::Else,
    }
}

/// `NFTA_BITWISE_MASK`, where nothing else is done (`NFTA_BITWISE_XOR` is 0).
fn mask(data: &[u8]) -> Option<Vec<u8>> {
    const MASK: u16 = 4;
    const XOR: u16 = 5;
    let xor = get(data, XOR).and_then(value)?;
    let mask = get(data, MASK).and_then(value)?;
    xor.iter().all(|byte| *byte == 0).then(|| mask.to_vec())
}

/// How many bits of a mask are set, all in front.
fn prefix(mask: &[u8]) -> Option<u8> {
    let ones: u32 = mask.iter().map(|byte| byte.leading_ones()).sum();
    let set: u32 = mask.iter().map(|byte| byte.count_ones()).sum();
    let in_front = mask
        .iter()
        .zip(mask.iter().skip(1))
        .all(|(a, b)| *a == 0xff || *b == 0);
    (ones == set && in_front).then(|| u8::try_from(ones).ok())?
}

/// A whole name ends with a zero; the beginning of one does not. What is longer is a name and more.
fn name(bytes: &[u8]) -> Option<Name> {
    /// `IFNAMSIZ` of linux/if.h.
    const SIZE: usize = 16;
    (bytes.len() <= SIZE).then(|| Name {
        text: text(bytes),
        begins: bytes.last().is_some_and(|byte| *byte != 0),
    })
}

/// Of the indexes of links only the loopback's is the same everywhere.
fn loopback(index: &[u8]) -> Option<Name> {
    (index == 1_u32.to_ne_bytes()).then(|| Name {
        text: "lo".to_owned(),
        begins: false,
    })
}

/// What an `immediate` or an element does, unless it only has a value (`NFTA_IMMEDIATE_DATA`,
/// `NFTA_SET_ELEM_DATA`, `NFTA_DATA_VERDICT`, `NFTA_VERDICT_*`; the codes are `NF_*` and `NFT_*`).
pub fn verdict(data: &[u8]) -> Option<Action> {
    let verdict = get(get(data, 2)?, 2)?;
    let chain = || get(verdict, 2).map(text).unwrap_or_default();
    let code = get(verdict, 1).and_then(number_of)?.cast_signed();
    Some(match code {
        0 => Action::Drop,
        1 => Action::Accept,
        -1 => Action::Continue,
        -3 => Action::Jump(chain()),
        -4 => Action::Goto(chain()),
        -5 => Action::Return,
        _ => Action::Unsure,
    })
}

/// `NFTA_NAT_TYPE`: `NFT_NAT_SNAT` is 0.
fn is_source_nat(data: &[u8]) -> bool {
    get(data, 1).and_then(number_of) == Some(0)
}

/// A target of iptables (`NFTA_TARGET_NAME`).
fn target(data: &[u8]) -> Option<Action> {
    let name = get(data, 1).map(text).unwrap_or_default();
    match name.as_str() {
        "REJECT" => Some(Action::Drop),
        name if super::lines::GOES_ON.contains(&name) => None,
        _ => Some(Action::Unsure),
    }
}
