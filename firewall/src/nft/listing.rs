//! What the kernel holds of a table.

use std::io;

use netlink_packet_netfilter::nftables::{
    ChainAttribute, DataAttribute, ExpressionAttribute, Expressions, Hook as HookAttribute,
    HookNumber, ListAttribute, NfTablesMessage, RuleAttribute, SetElementAttribute, SetElementList,
};

use super::message::{comment, value_of};
use super::table::{Entry, Hook, Table, TableName};
use super::wire::Socket;

/// A table as it was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// Whether it is there.
    pub exists: bool,
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

impl Listing {
    /// Reads all of the table that is of interest.
    ///
    /// # Errors
    /// The kernel's; that something is not there is none.
    pub fn read(socket: &mut Socket, table: &Table) -> io::Result<Listing> {
        let name = table.name;
        if socket.get(&name.get())?.is_none() {
            return Ok(Listing::default());
        }
        let mut listing = Listing {
            exists: true,
            rules: rules(socket, name)?,
            ..Listing::default()
        };
        for chain in &table.chains {
            let found = socket.get(&name.get_chain(&chain.name))?;
            listing.chains.extend(found.and_then(read_chain));
        }
        for set in &table.sets {
            if socket.get(&name.get_set(set.name))?.is_some() {
                listing.sets.push(set.name);
                listing.entries.extend(entries(socket, name, set.name)?);
            }
        }
        Ok(listing)
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
    Ok(found.into_iter().filter_map(read_rule).collect())
}

/// The elements of a set; none where it is not there. The kernel may list one twice while others
/// are added.
fn entries(socket: &mut Socket, table: TableName, set: &str) -> io::Result<Vec<Entry>> {
    let mut entries: Vec<Entry> = Vec::new();
    let found = socket.dump(&table.get_elements(set))?;
    entries.extend(found.into_iter().flat_map(read_elements));
    entries.sort_by(|one, other| (&one.key, &one.end).cmp(&(&other.key, &other.end)));
    entries.dedup_by(|one, other| (&one.key, &one.end) == (&other.key, &other.end));
    Ok(entries)
}

fn read_chain(message: NfTablesMessage) -> Option<FoundChain> {
    let NfTablesMessage::NewChain(message) = message else {
        return None;
    };
    let mut chain = FoundChain {
        name: String::new(),
        hook: None,
    };
    for attribute in message.attributes {
        match attribute {
            ChainAttribute::Name(name) => chain.name = name,
            ChainAttribute::Hook(attributes) => chain.hook = read_hook(&attributes),
            _ => {}
        }
    }
    Some(chain)
}

fn read_hook(attributes: &[HookAttribute]) -> Option<Hook> {
    let number = attributes.iter().find_map(|attribute| match attribute {
        HookAttribute::Number(HookNumber::Inet(number)) => Some(*number),
        _ => None,
    });
    let priority = attributes.iter().find_map(|attribute| match attribute {
        HookAttribute::Priority(priority) => Some(priority.cast_signed()),
        _ => None,
    });
    Some(Hook {
        number: number?,
        priority: priority?,
    })
}

fn read_rule(message: NfTablesMessage) -> Option<FoundRule> {
    let NfTablesMessage::NewRule(message) = message else {
        return None;
    };
    let mut rule = FoundRule {
        chain: String::new(),
        handle: 0,
        expressions: Vec::new(),
        comment: String::new(),
    };
    for attribute in message.attributes {
        match attribute {
            RuleAttribute::Chain(name) => rule.chain = name,
            RuleAttribute::Handle(handle) => rule.handle = handle,
            RuleAttribute::UserData(bytes) => rule.comment = comment(&bytes),
            RuleAttribute::Expressions(list) => {
                rule.expressions = list.into_iter().filter_map(read_expression).collect();
            }
            _ => {}
        }
    }
    Some(rule)
}

/// One of a list of expressions.
pub fn read_expression(element: ListAttribute<ExpressionAttribute>) -> Option<Expressions> {
    let ListAttribute::Element(attributes) = element else {
        return None;
    };
    let mut name = String::new();
    for attribute in attributes {
        match attribute {
            ExpressionAttribute::Name(found) => name = found,
            ExpressionAttribute::Data(expression) => return Some(expression),
            _ => {}
        }
    }
    // One without attributes may come without a place for them.
    Some(Expressions::Other {
        expression_type: name,
        attributes: Vec::new(),
    })
}

/// The elements of one message.
pub fn read_elements(message: NfTablesMessage) -> Vec<Entry> {
    let NfTablesMessage::NewSetElement(message) = message else {
        return Vec::new();
    };
    let mut set = String::new();
    let mut elements = Vec::new();
    for attribute in message.attributes {
        match attribute {
            SetElementList::Set(name) => set = name,
            SetElementList::Elements(list) => elements = list,
            _ => {}
        }
    }
    let entry = |element| match element {
        ListAttribute::Element(attributes) => read_element(&set, attributes),
        _ => None,
    };
    elements.into_iter().filter_map(entry).collect()
}

/// `None` where there is no key, as in the element for all others.
fn read_element(set: &str, attributes: Vec<SetElementAttribute>) -> Option<Entry> {
    let mut key = None;
    let mut entry = Entry {
        set: set.to_owned(),
        key: Vec::new(),
        end: None,
        value: None,
        comment: String::new(),
    };
    for attribute in attributes {
        match attribute {
            SetElementAttribute::Key(DataAttribute::Value(bytes)) => key = Some(bytes),
            SetElementAttribute::KeyEnd(parts) => {
                entry.end = parts.first().map(value_of);
            }
            SetElementAttribute::Data(value) => entry.value = Some(value),
            SetElementAttribute::UserData(bytes) => entry.comment = comment(&bytes),
            _ => {}
        }
    }
    Some(Entry { key: key?, ..entry })
}
