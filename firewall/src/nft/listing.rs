//! What the kernel holds of a table.

use std::collections::HashSet;
use std::io;

use netlink_packet_core::{
    NLA_TYPE_MASK, NlaBuffer, NlasIterator, Parseable, parse_string, parse_u64_be,
};
use netlink_packet_netfilter::nftables::{
    ChainAttribute, DataAttribute, Expressions, Hook as HookAttribute, HookNumber, Immediate,
    NfTablesMessage, SetElementAttribute, TableAttribute, TableFlags, VerdictAttribute,
};

use super::message::comment;
use super::table::{Element, Entry, Hook, HookKind, Place, Table, TableName};
use super::tag::Tag;
use super::wire::{Object, Socket};

/// A table as it was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// Whether it is there.
    pub exists: bool,
    /// Whether no packet comes through any of its chains (`NFT_TABLE_F_DORMANT`).
    pub dormant: bool,
    /// Those of its chains that were asked for.
    pub chains: Vec<FoundChain>,
    /// Names of those of its sets that were asked for.
    pub sets: Vec<&'static str>,
    /// Its rules, those of a chain in their order.
    pub rules: Vec<FoundRule>,
    /// The elements of its sets.
    pub entries: Vec<Entry>,
}

/// A chain as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundChain {
    /// Its name.
    pub name: String,
    /// Where packets enter it.
    pub hook: Option<Hook>,
    /// Empty where it has none.
    pub comment: String,
}

/// A rule as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundRule {
    /// Name of its chain.
    pub chain: String,
    /// Its number.
    pub handle: u64,
    /// What it does.
    pub expressions: Vec<Expressions>,
    /// Whose it is; empty where it has no comment.
    pub comment: String,
}

impl FoundRule {
    /// The chain that it leads to.
    pub fn target(&self) -> Option<&str> {
        fn of_verdict(attribute: &Immediate) -> Option<&str> {
            let Immediate::Data(DataAttribute::Verdict(parts)) = attribute else {
                return None;
            };
            parts.iter().find_map(|part| match part {
                VerdictAttribute::Chain(name) => Some(name.as_str()),
                _ => None,
            })
        }
        let mut expressions = self.expressions.iter();
        expressions.find_map(|expression| match expression {
            Expressions::Immediate(attributes) => attributes.iter().find_map(of_verdict),
            _ => None,
        })
    }
}

/// Whether no packet comes through any chain of a table.
pub fn is_dormant(table: &Object) -> bool {
    let Some(NfTablesMessage::NewTable(message)) = table.decode() else {
        return false;
    };
    let mut attributes = message.attributes.iter();
    attributes.any(|attribute| {
        matches!(attribute, TableAttribute::Flags(flags) if flags.contains(TableFlags::Dormant))
    })
}

impl Listing {
    /// Reads all of the table that is of interest.
    ///
    /// # Errors
    /// The kernel's; that something is not there is none.
    pub fn read(socket: &mut Socket, table: &Table) -> io::Result<Listing> {
        let mut listing = Listing::without_entries(socket, table)?;
        for set in listing.sets.clone() {
            listing.entries.extend(entries(socket, table.name, set)?);
        }
        Ok(listing)
    }

    /// As [`Listing::read`], but of the elements only those with the keys of these, whosever they
    /// are: no walk over all others.
    ///
    /// # Errors
    /// The kernel's; that something is not there is none.
    pub fn read_keys_of(
        socket: &mut Socket,
        table: &Table,
        elements: &[Element],
    ) -> io::Result<Listing> {
        let mut listing = Listing::without_entries(socket, table)?;
        if listing.exists {
            for element in elements {
                let found = socket.get(&table.name.get_element(&element.entry))?;
                let found = found
                    .iter()
                    .flat_map(|found| read_elements(&found.attributes));
                listing.entries.extend(found);
            }
        }
        Ok(listing)
    }

    fn without_entries(socket: &mut Socket, table: &Table) -> io::Result<Listing> {
        let name = table.name;
        let Some(found) = socket.get(&name.get())? else {
            return Ok(Listing::default());
        };
        let mut listing = Listing {
            exists: true,
            dormant: is_dormant(&found),
            rules: rules(socket, name)?,
            ..Listing::default()
        };
        for chain in &table.chains {
            listing
                .chains
                .extend(self::chain(socket, name, &chain.name)?);
        }
        for set in &table.sets {
            if socket.get(&name.get_set(set.name))?.is_some() {
                listing.sets.push(set.name);
            }
        }
        Ok(listing)
    }

    /// The places of all elements that are of others.
    pub fn places_of_others(&self, tag: &Tag) -> HashSet<Place<'_>> {
        let others = self.entries.iter();
        let others = others.filter(|entry| !tag.owns(&entry.comment));
        others.map(Entry::place).collect()
    }

    /// A chain, if it is there and was asked for.
    pub fn chain(&self, name: &str) -> Option<&FoundChain> {
        self.chains.iter().find(|chain| chain.name == name)
    }

    /// The rules of a chain, in their order.
    pub fn rules_in<'a>(&'a self, chain: &'a str) -> impl Iterator<Item = &'a FoundRule> {
        self.rules.iter().filter(move |rule| rule.chain == chain)
    }
}

/// The rules of a table; none where it is not there.
///
/// # Errors
/// The kernel's.
pub fn rules(socket: &mut Socket, table: TableName) -> io::Result<Vec<FoundRule>> {
    let found = socket.dump(&table.get_rules())?;
    Ok(found.iter().filter_map(read_rule).collect())
}

/// The rules of a chain, in their order; none where it is not there. The kernel looks at no other's.
///
/// # Errors
/// The kernel's.
pub fn rules_in(socket: &mut Socket, table: TableName, chain: &str) -> io::Result<Vec<FoundRule>> {
    let found = socket.dump(&table.get_rules_in(chain))?;
    Ok(found.iter().filter_map(read_rule).collect())
}

/// A chain; `None` where it is not there.
///
/// # Errors
/// The kernel's.
pub fn chain(socket: &mut Socket, table: TableName, name: &str) -> io::Result<Option<FoundChain>> {
    let found = socket.get(&table.get_chain(name))?;
    Ok(found.and_then(|found| read_chain(&found, table.name)))
}

/// All chains of a table; none where it is not there. The kernel can only be asked for those of all
/// tables of the family.
///
/// # Errors
/// The kernel's.
pub fn chains(socket: &mut Socket, table: TableName) -> io::Result<Vec<FoundChain>> {
    let all = socket.dump(&table.get_chains_of_family())?;
    let of_table = all.iter().filter_map(|found| read_chain(found, table.name));
    Ok(of_table.collect())
}

/// The elements of a set; none where it is not there. The kernel may list one twice while others
/// are added.
fn entries(socket: &mut Socket, table: TableName, set: &str) -> io::Result<Vec<Entry>> {
    let mut entries: Vec<Entry> = Vec::new();
    let found = socket.dump(&table.get_elements(set))?;
    entries.extend(
        found
            .iter()
            .flat_map(|found| read_elements(&found.attributes)),
    );
    entries.sort_by(|one, other| one.key.cmp(&other.key));
    entries.dedup_by(|one, other| one.key == other.key);
    Ok(entries)
}

/// `None` for one of another table.
pub fn read_chain(object: &Object, table: &str) -> Option<FoundChain> {
    let Some(NfTablesMessage::NewChain(message)) = object.decode() else {
        return None;
    };
    let mut chain = FoundChain {
        name: String::new(),
        hook: None,
        comment: String::new(),
    };
    let (mut is_there, mut hook, mut kind) = (false, None, None);
    for attribute in message.attributes {
        match attribute {
            ChainAttribute::Table(name) => is_there = name == table,
            ChainAttribute::Name(name) => chain.name = name,
            ChainAttribute::Hook(attributes) => hook = Some(attributes),
            ChainAttribute::Type(name) => kind = HookKind::of_name(&name),
            ChainAttribute::UserData(bytes) => chain.comment = comment(&bytes),
            _ => {}
        }
    }
    chain.hook = hook.and_then(|attributes| read_hook(kind?, &attributes));
    is_there.then_some(chain)
}

fn read_hook(kind: HookKind, attributes: &[HookAttribute]) -> Option<Hook> {
    let number = attributes.iter().find_map(|attribute| match attribute {
        HookAttribute::Number(HookNumber::Inet(number)) => Some(*number),
        _ => None,
    });
    let priority = attributes.iter().find_map(|attribute| match attribute {
        HookAttribute::Priority(priority) => Some(priority.cast_signed()),
        _ => None,
    });
    Some(Hook {
        kind,
        number: number?,
        priority: priority?,
    })
}

/// A rule by its attributes (`NFTA_RULE_*` of linux/netfilter/nf_tables.h).
pub fn read_rule(object: &Object) -> Option<FoundRule> {
    const CHAIN: u16 = 2;
    const HANDLE: u16 = 3;
    const EXPRESSIONS: u16 = 4;
    const USER_DATA: u16 = 7;
    let mut rule = FoundRule {
        chain: String::new(),
        handle: 0,
        expressions: Vec::new(),
        comment: String::new(),
    };
    for attribute in each(&object.attributes) {
        let value = attribute.value();
        match attribute.kind() & NLA_TYPE_MASK {
            CHAIN => rule.chain = parse_string(value).ok()?,
            HANDLE => rule.handle = parse_u64_be(value).ok()?,
            USER_DATA => rule.comment = comment(value),
            // One that nobody can read is none of ours.
            EXPRESSIONS => rule.expressions = read_expressions(value).unwrap_or_default(),
            _ => {}
        }
    }
    Some(rule)
}

/// A list of expressions; `None` where one cannot be read.
pub fn read_expressions(list: &[u8]) -> Option<Vec<Expressions>> {
    const NAME: u16 = 1;
    const DATA: u16 = 2;
    let read = |expression: NlaBuffer<&[u8]>| {
        let (mut name, mut data) = (String::new(), None);
        for attribute in each(expression.value()) {
            match attribute.kind() & NLA_TYPE_MASK {
                NAME => name = parse_string(attribute.value()).ok()?,
                DATA => data = Some(attribute),
                _ => {}
            }
        }
        read_expression(name, data.as_ref().map_or(&[], NlaBuffer::value))
    };
    each(list).map(read).collect()
}

fn read_expression(name: String, data: &[u8]) -> Option<Expressions> {
    // `NFTA_BITWISE_MASK`, `_XOR` and `_DATA`; `NFTA_CMP_DATA`; `NFTA_IMMEDIATE_DATA`.
    let values: &[u16] = match name.as_str() {
        "bitwise" => &[4, 5, 7],
        "cmp" => &[3],
        "immediate" => &[2],
        _ => &[],
    };
    let is_value = |kind: u16| values.contains(&(kind & NLA_TYPE_MASK));
    if !each(data).all(|attribute| !is_value(attribute.kind()) || is_whole(&attribute)) {
        return None;
    }
    Some(match name.as_str() {
        "bitwise" => Expressions::Bitwise(all(data)?),
        "cmp" => Expressions::Cmp(all(data)?),
        "immediate" => Expressions::Immediate(all(data)?),
        "lookup" => Expressions::Lookup(all(data)?),
        "meta" => Expressions::Meta(all(data)?),
        "payload" => Expressions::Payload(all(data)?),
        _ => Expressions::Other {
            expression_type: name,
            attributes: all(data)?,
        },
    })
}

/// Attributes of one kind of object.
fn all<T: for<'a> Parseable<NlaBuffer<&'a [u8]>>>(attributes: &[u8]) -> Option<Vec<T>> {
    let mut found = Vec::new();
    for attribute in NlasIterator::new(attributes) {
        found.push(T::parse(&attribute.ok()?).ok()?);
    }
    Some(found)
}

/// The elements in the attributes of one message (`NFTA_SET_ELEM_LIST_*` of
/// linux/netfilter/nf_tables.h).
pub fn read_elements(attributes: &[u8]) -> Vec<Entry> {
    const SET: u16 = 2;
    const ELEMENTS: u16 = 3;
    let mut set = String::new();
    let mut entries = Vec::new();
    for attribute in each(attributes) {
        match attribute.kind() & NLA_TYPE_MASK {
            SET => set = parse_string(attribute.value()).unwrap_or_default(),
            ELEMENTS => {
                let elements = each(attribute.value());
                entries.extend(elements.filter_map(|element| read_element(&set, element.value())));
            }
            _ => {}
        }
    }
    entries
}

/// Whether an attribute holds another one as a whole: the library reads values (`NFTA_DATA_*`) without
/// looking at their length.
fn is_whole(attribute: &NlaBuffer<&[u8]>) -> bool {
    NlaBuffer::new_checked(attribute.value()).is_ok()
}

fn each(attributes: &[u8]) -> impl Iterator<Item = NlaBuffer<&[u8]>> {
    NlasIterator::new(attributes).map_while(Result::ok)
}

/// `None` where there is no key, as in the element for all others.
fn read_element(set: &str, attributes: &[u8]) -> Option<Entry> {
    let mut key = None;
    let mut entry = Entry {
        set: set.to_owned(),
        key: Vec::new(),
        value: None,
        comment: String::new(),
    };
    // `NFTA_SET_ELEM_KEY`, `_DATA` and `_USERDATA`.
    for (kind, attribute) in each(attributes).map(|attribute| (attribute.kind(), attribute)) {
        match kind & NLA_TYPE_MASK {
            1 | 2 if !is_whole(&attribute) => return None,
            1 | 2 | 6 => {}
            _ => continue,
        }
        match SetElementAttribute::parse(&attribute).ok()? {
            SetElementAttribute::Key(DataAttribute::Value(bytes)) => key = Some(bytes),
            SetElementAttribute::Data(value) => entry.value = Some(value),
            SetElementAttribute::UserData(bytes) => entry.comment = comment(&bytes),
            _ => {}
        }
    }
    Some(Entry { key: key?, ..entry })
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::{NetlinkDeserializable, NetlinkHeader};

    use super::*;

    #[test]
    fn only_chains_of_the_table_are_read() {
        let chain = |kind: u16, table: u8, name: u8| {
            let mut header = NetlinkHeader::default();
            header.message_type = kind;
            // nfgenmsg, NFTA_CHAIN_TABLE, NFTA_CHAIN_NAME, NFTA_CHAIN_USERDATA
            let mut body = vec![2, 0, 0, 0];
            for (kind, value) in [
                (1_u16, &[table, b'a', b't', 0][..]),
                (3, &[name, b'a', b't', 0][..]),
                (12, &[0, 2, b'x', 0][..]),
            ] {
                body.extend(8_u16.to_ne_bytes());
                body.extend(kind.to_ne_bytes());
                body.extend(value);
            }
            read_chain(&Object::deserialize(&header, &body).unwrap(), "nat")
        };
        let cat = FoundChain {
            name: "cat".to_owned(),
            hook: None,
            comment: "x".to_owned(),
        };
        assert_eq!(chain(0xa03, b'n', b'c'), Some(cat));
        assert_eq!(chain(0xa03, b'r', b'c'), None);
        assert_eq!(chain(0xa00, b'n', b'c'), None);
    }
}
