//! Rules of the nft variant of iptables, as the kernel holds them, put into the lines that
//! `iptables -S` prints for them.
//!
//! What is put into a line counts as that line: so a rule has one only where all of its bytes are
//! understood for certain. Constants are those of linux/netfilter/nf_tables.h and nf_tables_compat.h.

mod extension;

use std::net::IpAddr;

use ipnet::IpNet;

use crate::hostport::Protocol;
use crate::rule::{Family, Rule, address_match};

/// `NFT_REG_1` to `NFT_REG_4`. Smaller ones, which overlap these, the programs do not use.
const REGISTERS: usize = 4;

/// The line of a rule by its list of expressions (`NFTA_RULE_EXPRESSIONS`); `None` where it is not
/// known for certain.
pub fn rule(family: Family, chain: &str, list: &[u8]) -> Option<Rule> {
    let mut reader = Reader {
        family,
        registers: Default::default(),
        source: None,
        destination: None,
        protocol: None,
        matches: String::new(),
        action: None,
    };
    for (name, data) in expressions(list)? {
        reader.take(name, data)?;
    }
    Some(Rule::new(chain, reader.spec()?))
}

/// The chain that a rule leads to, whatever else it asks and does.
pub fn target(list: &[u8]) -> Option<&str> {
    let mut expressions = expressions(list)?.into_iter();
    expressions.find_map(|(name, data)| match verdict(data) {
        Some((JUMP | GOTO, chain)) if name == "immediate" => chain,
        _ => None,
    })
}

/// `NFT_JUMP` and `NFT_GOTO`.
const JUMP: i32 = -3;
const GOTO: i32 = -4;

/// What a register holds.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Loaded {
    what: What,
    /// In bytes.
    length: usize,
    mask: Option<Vec<u8>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Source,
    Destination,
    Protocol,
    Port,
    Mark,
}

/// A line in the making.
struct Reader {
    family: Family,
    registers: [Option<Loaded>; REGISTERS],
    source: Option<String>,
    destination: Option<String>,
    protocol: Option<Protocol>,
    matches: String,
    action: Option<String>,
}

impl Reader {
    /// Takes one expression; `None` where it is not understood.
    fn take(&mut self, name: &str, data: &[u8]) -> Option<()> {
        if self.action.is_some() {
            return None;
        }
        match name {
            "counter" => Some(()),
            "meta" => self.meta(data),
            "payload" => self.payload(data),
            "bitwise" => self.bitwise(data),
            "cmp" => self.compare(data),
            "match" => {
                self.matches += &extension::condition(data)?;
                Some(())
            }
            "target" => {
                self.action = Some(extension::target(self.family, data)?);
                Some(())
            }
            "immediate" => {
                self.action = Some(match verdict(data)? {
                    (0, None) => "-j DROP".to_owned(),
                    (1, None) => "-j ACCEPT".to_owned(),
                    (-5, None) => "-j RETURN".to_owned(),
                    (JUMP, Some(chain)) => format!("-j {chain}"),
                    (GOTO, Some(chain)) => format!("-g {chain}"),
                    _ => return None,
                });
                Some(())
            }
            _ => None,
        }
    }

    fn meta(&mut self, data: &[u8]) -> Option<()> {
        let [register, key] = only(data, [1, 2])?;
        let (what, length) = match number(key)? {
            3 => (What::Mark, 4),
            16 => (What::Protocol, 1),
            _ => return None,
        };
        self.load(register, what, length)
    }

    fn payload(&mut self, data: &[u8]) -> Option<()> {
        const NETWORK: u32 = 1;
        const TRANSPORT: u32 = 2;
        let [register, base, offset, length] = only(data, [1, 2, 3, 4])?;
        let (base, offset, length) = (number(base)?, number(offset)?, number(length)?);
        let what = match (self.family, base, offset, length) {
            (Family::V4, NETWORK, 12, 1..=4) | (Family::V6, NETWORK, 8, 1..=16) => What::Source,
            (Family::V4, NETWORK, 16, 1..=4) | (Family::V6, NETWORK, 24, 1..=16) => {
                What::Destination
            }
            // Older programs ask the header itself.
            (Family::V4, NETWORK, 9, 1) | (Family::V6, NETWORK, 6, 1) => What::Protocol,
            (_, TRANSPORT, 2, 2) => What::Port,
            _ => return None,
        };
        self.load(register, what, usize::try_from(length).ok()?)
    }

    fn load(&mut self, register: &[u8], what: What, length: usize) -> Option<()> {
        *self.register(register)? = Some(Loaded {
            what,
            length,
            mask: None,
        });
        Some(())
    }

    fn register(&mut self, number_of_it: &[u8]) -> Option<&mut Option<Loaded>> {
        let index = usize::try_from(number(number_of_it)?).ok()?;
        self.registers.get_mut(index.checked_sub(1)?)
    }

    /// A mask, and nothing else: `NFT_BITWISE_MASK_XOR`, which older kernels do not name.
    fn bitwise(&mut self, data: &[u8]) -> Option<()> {
        let [from, to, length, mask, xor] = match only(data, [1, 2, 3, 4, 5]) {
            Some(parts) => parts,
            None => {
                let [from, to, length, mask, xor, operation] = only(data, [1, 2, 3, 4, 5, 6])?;
                (number(operation)? == 0).then_some([from, to, length, mask, xor])?
            }
        };
        let loaded = self.register(from)?.clone()?;
        let (mask, xor) = (value(mask)?, value(xor)?);
        let whole = [
            usize::try_from(number(length)?).ok()?,
            mask.len(),
            xor.len(),
        ];
        let is_mask = whole == [loaded.length; 3] && xor.iter().all(|byte| *byte == 0);
        if !is_mask || loaded.mask.is_some() {
            return None;
        }
        *self.register(to)? = Some(Loaded {
            mask: Some(mask.to_vec()),
            ..loaded
        });
        Some(())
    }

    fn compare(&mut self, data: &[u8]) -> Option<()> {
        let [register, operator, compared] = only(data, [1, 2, 3])?;
        let loaded = self.register(register)?.clone()?;
        let value = value(compared).filter(|value| value.len() == loaded.length)?;
        let is_equal = match number(operator)? {
            0 => true,
            1 => false,
            _ => return None,
        };
        let mask = loaded.mask.as_deref();
        match (loaded.what, is_equal) {
            (What::Source, _) => {
                let text = self.address("-s", value, mask, is_equal)?;
                set(&mut self.source, text)
            }
            (What::Destination, _) => {
                let text = self.address("-d", value, mask, is_equal)?;
                set(&mut self.destination, text)
            }
            (What::Protocol, true) if mask.is_none() => {
                let [protocol] = *value else { return None };
                set(&mut self.protocol, Protocol::of_number(protocol)?)
            }
            (What::Port, true) if mask.is_none() => {
                let port = u16::from_be_bytes(value.try_into().ok()?);
                // Of sctp the programs ask by its match.
                let protocol = self.protocol.filter(|it| *it != Protocol::Sctp)?;
                self.matches += &extension::port(protocol, port);
                Some(())
            }
            (What::Mark, true) => {
                let all = u32::MAX.to_ne_bytes();
                let of = |bytes: &[u8]| bytes.try_into().map(u32::from_ne_bytes).ok();
                self.matches += &extension::mark(of(value)?, of(mask.unwrap_or(&all))?);
                Some(())
            }
            _ => None,
        }
    }

    /// Some bytes of an address: the whole with or without a mask, or as many as the prefix has.
    fn address(
        &self,
        option: &str,
        value: &[u8],
        mask: Option<&[u8]>,
        is_equal: bool,
    ) -> Option<String> {
        let prefix = match mask {
            Some(mask) => prefix(mask)?,
            None => u8::try_from(value.len().checked_mul(8)?).ok()?,
        };
        let mut whole = [0; 16];
        whole.get_mut(..value.len())?.copy_from_slice(value);
        let address = match self.family {
            Family::V4 => IpAddr::from(*whole.first_chunk::<4>()?),
            Family::V6 => whole.into(),
        };
        let net = IpNet::new(address, prefix).ok()?;
        // With other bits than the mask's no packet fits; without any it is no condition.
        if net.trunc() != net || prefix == 0 {
            return None;
        }
        let not = if is_equal { "" } else { "! " };
        Some(format!("{not}{}", address_match(option, &net)))
    }

    /// What follows the chain.
    fn spec(self) -> Option<String> {
        let protocol = self.protocol.map(|protocol| format!("-p {protocol} "));
        let parts = [self.source, self.destination, protocol];
        let conditions: String = parts.into_iter().flatten().collect();
        Some(conditions + &self.matches + &self.action?)
    }
}

/// Refuses what is asked twice.
fn set<T>(place: &mut Option<T>, value: T) -> Option<()> {
    place.replace(value).is_none().then_some(())
}

/// How many bits of a mask are set, all in front.
fn prefix(mask: &[u8]) -> Option<u8> {
    let ones: u32 = mask.iter().map(|byte| byte.count_ones()).sum();
    let mut expected = ones;
    for byte in mask {
        let here = expected.min(8);
        (byte.leading_ones() == here && byte.count_ones() == here).then_some(())?;
        expected = expected.saturating_sub(here);
    }
    u8::try_from(ones).ok()
}

/// The expressions of a list: name and data of each (`NFTA_LIST_ELEM`, `NFTA_EXPR_*`).
fn expressions(list: &[u8]) -> Option<Vec<(&str, &[u8])>> {
    let read = |(kind, expression): (u16, _)| {
        let [name, data] = only(expression, [1, 2])?;
        (kind == 1).then_some((text(name)?, data))
    };
    attributes(list)?.into_iter().map(read).collect()
}

/// The verdict that an `immediate` loads: its code, and the chain that it leads to
/// (`NFTA_IMMEDIATE_*`, `NFTA_DATA_VERDICT`, `NFTA_VERDICT_*`; `NFT_REG_VERDICT` is 0).
fn verdict(data: &[u8]) -> Option<(i32, Option<&str>)> {
    let [register, data] = only(data, [1, 2])?;
    let [verdict] = only(data, [2])?;
    let (code, chain) = match only(verdict, [1]) {
        Some([code]) => (code, None),
        None => {
            let [code, chain] = only(verdict, [1, 2])?;
            (code, Some(text(chain)?))
        }
    };
    let code = number(code)?.cast_signed();
    (number(register)? == 0).then_some((code, chain))
}

/// The values of these attributes, each of which is there once, and no other.
fn only<const N: usize>(bytes: &[u8], kinds: [u16; N]) -> Option<[&[u8]; N]> {
    let found = attributes(bytes)?;
    let mut values = [&[][..]; N];
    for (value, kind) in values.iter_mut().zip(kinds) {
        *value = found.iter().find(|(found, _)| *found == kind)?.1;
    }
    (found.len() == N).then_some(values)
}

/// The attributes of a list; `None` where the bytes are not such a list to their end.
pub fn attributes(bytes: &[u8]) -> Option<Vec<(u16, &[u8])>> {
    /// `NLA_TYPE_MASK` of linux/netlink.h.
    const KIND: u16 = 0x3fff;
    let mut rest = bytes;
    let mut found = Vec::new();
    while let [a, b, c, d, ..] = *rest {
        let length = usize::from(u16::from_ne_bytes([a, b]));
        let kind = u16::from_ne_bytes([c, d]) & KIND;
        found.push((kind, rest.get(4..length)?));
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    rest.is_empty().then_some(found)
}

/// A text that ends with a zero.
pub fn text(bytes: &[u8]) -> Option<&str> {
    let text = std::ffi::CStr::from_bytes_with_nul(bytes).ok()?;
    text.to_str().ok()
}

fn number(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().map(u32::from_be_bytes).ok()
}

/// `NFTA_DATA_VALUE`.
fn value(data: &[u8]) -> Option<&[u8]> {
    only(data, [1]).map(|[value]| value)
}

#[cfg(test)]
mod tests;
