//! The messages that make, list and remove what is in a table.

use netlink_packet_core::{NLM_F_APPEND, NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_netfilter::nftables::{
    ChainAttribute, ChainMessage, DataAttribute, Expressions, Hook as HookAttribute, ListAttribute,
    NfTablesMessage, RuleAttribute, RuleMessage, SetAttribute, SetElementAttribute, SetElementList,
    SetElementMessage, SetFlags, SetMessage, TableAttribute, TableMessage,
};

use super::expr::Part;
use super::field::Field;
use super::table::{Chain, Entry, Set, TableName, Value};
use super::wire::Message;
use crate::rule::Family;

/// Elements in one message, whose list may have 64 KiB; one has some 250 bytes at most.
const ELEMENTS_PER_MESSAGE: usize = 128;

impl TableName {
    fn message(&self, flags: u16, body: NfTablesMessage) -> Message {
        Message {
            family: self.family,
            flags,
            body,
        }
    }

    /// `add table`.
    pub fn add(&self) -> Message {
        let attributes = vec![TableAttribute::Name(self.name.to_owned())];
        let body = NfTablesMessage::NewTable(TableMessage { attributes });
        self.message(NLM_F_CREATE, body)
    }

    /// `list table`.
    pub fn get(&self) -> Message {
        let attributes = vec![TableAttribute::Name(self.name.to_owned())];
        self.message(0, NfTablesMessage::GetTable(TableMessage { attributes }))
    }

    /// `add chain`, without its rules.
    pub fn add_chain(&self, chain: &Chain) -> Message {
        let mut attributes = vec![
            ChainAttribute::Table(self.name.to_owned()),
            ChainAttribute::Name(chain.name.clone()),
        ];
        if let Some(hook) = chain.hook {
            attributes.push(ChainAttribute::Hook(vec![
                HookAttribute::Number(hook.number.into()),
                HookAttribute::Priority(hook.priority.cast_unsigned()),
            ]));
            attributes.push(ChainAttribute::Type(hook.kind.name().to_owned()));
        }
        let body = NfTablesMessage::NewChain(ChainMessage { attributes });
        self.message(NLM_F_CREATE, body)
    }

    /// `create chain`, with a comment: refused where it is there.
    pub fn create_chain(&self, name: &str, comment: &str) -> Message {
        let attributes = vec![
            ChainAttribute::Table(self.name.to_owned()),
            ChainAttribute::Name(name.to_owned()),
            ChainAttribute::UserData(user_data(comment)),
        ];
        let body = NfTablesMessage::NewChain(ChainMessage { attributes });
        self.message(NLM_F_CREATE | NLM_F_EXCL, body)
    }

    /// `delete chain`, with its rules.
    pub fn delete_chain(&self, name: &str) -> Message {
        let attributes = vec![
            ChainAttribute::Table(self.name.to_owned()),
            ChainAttribute::Name(name.to_owned()),
        ];
        let body = NfTablesMessage::DeleteChain(ChainMessage { attributes });
        self.message(0, body)
    }

    /// `list chain`.
    pub fn get_chain(&self, name: &str) -> Message {
        let attributes = vec![
            ChainAttribute::Table(self.name.to_owned()),
            ChainAttribute::Name(name.to_owned()),
        ];
        self.message(0, NfTablesMessage::GetChain(ChainMessage { attributes }))
    }

    /// `list chains`, of all tables of the family.
    pub fn get_chains_of_family(&self) -> Message {
        let attributes = Vec::new();
        self.message(0, NfTablesMessage::GetChain(ChainMessage { attributes }))
    }

    /// `flush chain`.
    pub fn flush_chain(&self, name: &str) -> Message {
        let attributes = vec![
            RuleAttribute::Table(self.name.to_owned()),
            RuleAttribute::Chain(name.to_owned()),
        ];
        self.message(0, NfTablesMessage::DeleteRule(RuleMessage { attributes }))
    }

    /// `add rule`, behind all others of the chain. A shared rule has no comment.
    pub fn add_rule(&self, chain: &str, part: &Part, comment: &str) -> Message {
        let expressions = part.expressions.iter().cloned().map(Expressions::into);
        let mut attributes = vec![
            RuleAttribute::Table(self.name.to_owned()),
            RuleAttribute::Chain(chain.to_owned()),
            RuleAttribute::Expressions(expressions.collect()),
        ];
        if !comment.is_empty() {
            attributes.push(RuleAttribute::UserData(user_data(comment)));
        }
        let body = NfTablesMessage::NewRule(RuleMessage { attributes });
        self.message(NLM_F_CREATE | NLM_F_APPEND, body)
    }

    /// `delete rule`.
    pub fn delete_rule(&self, chain: &str, handle: u64) -> Message {
        let attributes = vec![
            RuleAttribute::Table(self.name.to_owned()),
            RuleAttribute::Chain(chain.to_owned()),
            RuleAttribute::Handle(handle),
        ];
        self.message(0, NfTablesMessage::DeleteRule(RuleMessage { attributes }))
    }

    /// The question for the rules of one chain.
    pub fn get_rules_in(&self, chain: &str) -> Message {
        let attributes = vec![
            RuleAttribute::Table(self.name.to_owned()),
            RuleAttribute::Chain(chain.to_owned()),
        ];
        self.message(0, NfTablesMessage::GetRule(RuleMessage { attributes }))
    }

    /// The question for all rules.
    pub fn get_rules(&self) -> Message {
        let attributes = vec![RuleAttribute::Table(self.name.to_owned())];
        self.message(0, NfTablesMessage::GetRule(RuleMessage { attributes }))
    }

    /// `add set` or `add map`. The number tells sets of one batch apart.
    pub fn add_set(&self, family: Family, set: &Set, id: u32) -> Message {
        let mut attributes = vec![
            SetAttribute::Table(self.name.to_owned()),
            SetAttribute::Name(set.name.to_owned()),
            SetAttribute::Flags(set.flags()),
            SetAttribute::KeyType(concatenated(&set.key, family)),
            SetAttribute::KeyLen(length(&set.key, family)),
            SetAttribute::Id(id),
        ];
        attributes.extend(set.value_type(family));
        if set.key.contains(&Field::Interface) {
            attributes.push(SetAttribute::UserData(host_byte_order()));
        }
        let body = NfTablesMessage::NewSet(SetMessage { attributes });
        self.message(NLM_F_CREATE, body)
    }

    /// `list set`, without its elements.
    pub fn get_set(&self, name: &str) -> Message {
        let attributes = vec![
            SetAttribute::Table(self.name.to_owned()),
            SetAttribute::Name(name.to_owned()),
        ];
        self.message(0, NfTablesMessage::GetSet(SetMessage { attributes }))
    }

    /// The question for all elements of a set.
    pub fn get_elements(&self, set: &str) -> Message {
        let body = NfTablesMessage::GetSetElement(self.elements(set, []));
        self.message(0, body)
    }

    /// The question for one element.
    pub fn get_element(&self, entry: &Entry) -> Message {
        let body = NfTablesMessage::GetSetElement(self.elements(&entry.set, [entry.find()]));
        self.message(0, body)
    }

    /// `create element`: refused where one with such a key is there.
    pub fn create_elements(&self, entries: &[&Entry]) -> Vec<Message> {
        self.by_set(
            entries,
            |message| {
                let body = NfTablesMessage::NewSetElement(message);
                self.message(NLM_F_CREATE | NLM_F_EXCL, body)
            },
            Entry::whole,
        )
    }

    /// `delete element`.
    pub fn delete_elements(&self, entries: &[&Entry]) -> Vec<Message> {
        self.by_set(
            entries,
            |message| self.message(0, NfTablesMessage::DeleteSetElement(message)),
            Entry::find,
        )
    }

    /// The entries of a set share messages, in sizes that fit.
    fn by_set(
        &self,
        entries: &[&Entry],
        message: impl Fn(SetElementMessage) -> Message,
        encode: impl Fn(&Entry) -> Vec<SetElementAttribute>,
    ) -> Vec<Message> {
        let mut messages = Vec::new();
        let mut entries = entries.to_vec();
        entries.sort_by_key(|entry| &entry.set);
        for of_set in entries.chunk_by(|one, next| one.set == next.set) {
            for some in of_set.chunks(ELEMENTS_PER_MESSAGE) {
                let encoded = some.iter().map(|entry| encode(entry));
                let set = some.first().map_or("", |entry| &entry.set);
                messages.push(message(self.elements(set, encoded)));
            }
        }
        messages
    }

    fn elements(
        &self,
        set: &str,
        elements: impl IntoIterator<Item = Vec<SetElementAttribute>>,
    ) -> SetElementMessage {
        let elements: Vec<_> = elements.into_iter().map(ListAttribute::Element).collect();
        let mut attributes = vec![
            SetElementList::Table(self.name.to_owned()),
            SetElementList::Set(set.to_owned()),
        ];
        if !elements.is_empty() {
            attributes.push(SetElementList::Elements(elements));
        }
        SetElementMessage { attributes }
    }
}

impl Set {
    fn flags(&self) -> SetFlags {
        match self.value {
            Value::None => SetFlags::empty(),
            Value::Verdict | Value::Target => SetFlags::Map,
        }
    }

    fn value_type(&self, family: Family) -> Vec<SetAttribute> {
        /// `NFT_DATA_VERDICT` of linux/netfilter/nf_tables.h.
        const VERDICT: u32 = 0xffff_ff00;
        const TARGET: [Field; 2] = [Field::Destination, Field::Port];
        match self.value {
            Value::None => Vec::new(),
            Value::Verdict => vec![SetAttribute::DataType(VERDICT), SetAttribute::DataLen(0)],
            Value::Target => vec![
                SetAttribute::DataType(concatenated(&TARGET, family)),
                SetAttribute::DataLen(length(&TARGET, family)),
            ],
        }
    }
}

impl Entry {
    /// What finds it.
    fn find(&self) -> Vec<SetElementAttribute> {
        let key = DataAttribute::Value(self.key.clone());
        vec![SetElementAttribute::Key(key)]
    }

    fn whole(&self) -> Vec<SetElementAttribute> {
        let mut attributes = self.find();
        attributes.extend(self.value.clone().map(SetElementAttribute::Data));
        attributes.push(SetElementAttribute::UserData(user_data(&self.comment)));
        attributes
    }
}

/// The number of a type made of others: `TYPE_BITS` (6) each.
fn concatenated(fields: &[Field], family: Family) -> u32 {
    fields
        .iter()
        .fold(0, |number, field| (number << 6) | field.kind(family).0)
}

/// Bytes of a key or value, each field padded to whole registers.
fn length(fields: &[Field], family: Family) -> u32 {
    let words = fields.iter().map(|field| field.words(family));
    words.fold(0_u32, u32::saturating_add).saturating_mul(4)
}

/// A comment as `nft` keeps it: type 0 (`NFTNL_UDATA_RULE_COMMENT`, the same for elements and
/// chains), length,
/// text, zero.
fn user_data(comment: &str) -> Vec<u8> {
    const COMMENT: u8 = 0;
    let mut text = comment.as_bytes().to_vec();
    text.push(0);
    let length = u8::try_from(text.len()).unwrap_or(u8::MAX);
    let mut bytes = vec![COMMENT, length];
    bytes.extend(text.into_iter().take(length.into()));
    bytes
}

/// What `nft` keeps with a set whose keys are texts, without which it prints them backwards: type 0
/// (`NFTNL_UDATA_SET_KEYBYTEORDER`), length, `BYTEORDER_HOST_ENDIAN` of its include/datatype.h.
fn host_byte_order() -> Vec<u8> {
    let mut bytes = vec![0, 4];
    bytes.extend(1_u32.to_ne_bytes());
    bytes
}

/// The comment in what `nft` keeps with an object; empty where there is none.
pub fn comment(user_data: &[u8]) -> String {
    let mut rest = user_data;
    while let [kind, length, after @ ..] = rest {
        let (value, next) = after.split_at(usize::from(*length).min(after.len()));
        if *kind == 0 {
            let text = String::from_utf8_lossy(value);
            return text.trim_end_matches('\0').to_owned();
        }
        rest = next;
    }
    String::new()
}

#[cfg(test)]
mod tests;
