//! What to send for what is wanted, given what is there: pure.

use std::collections::HashMap;

use super::expr;
use super::listing::{FoundChain, FoundRule, Listing};
use super::table::{Chain, Element, Entry, Rule, Table, TableName};
use super::tag::Tag;
use super::wire::Message;

/// What one attachment should have in one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Want {
    /// The table and all that attachments share in it.
    pub table: Table,
    /// The attachment's elements.
    pub elements: Vec<Element>,
    /// The attachment's rules, those of a chain in their order.
    pub rules: Vec<Rule>,
}

/// The batch of a new attachment in a table that has all that is shared; refused where a key is
/// taken, at least the attachment's own.
pub fn additions(want: &Want, tag: &Tag) -> Vec<Message> {
    let entries: Vec<_> = want.elements.iter().map(|element| &element.entry).collect();
    let rules = want.rules.iter();
    let mut batch = want.table.name.create_elements(&entries);
    batch.extend(rules.map(|rule| {
        let name = want.table.name;
        name.add_rule(rule.chain, &rule.part, &tag.comment)
    }));
    batch
}

/// The batch for a table as listed: makes what is missing of what is shared, and puts the
/// attachment's in place of all that is `stale`, elements and rules.
pub fn repair(
    want: &Want,
    listing: &Listing,
    tag: &Tag,
    stale: impl Fn(&Entry) -> bool,
) -> Vec<Message> {
    let mut batch = shared(&want.table, listing);
    batch.extend(removal(&want.table, listing, stale, |comment| {
        tag.owns(comment)
    }));
    batch.extend(additions(want, tag));
    batch
}

/// Makes what is missing of what all attachments share. A chain that is there already is not sent
/// again, which would cost 10 ms when the socket is closed.
fn shared(table: &Table, listing: &Listing) -> Vec<Message> {
    let name = table.name;
    let mut batch = Vec::new();
    if !listing.exists {
        batch.push(name.add());
    }
    for (set, id) in table.sets.iter().zip(1..) {
        if !listing.sets.contains(&set.name) {
            batch.push(name.add_set(table.family, set, id));
        }
    }
    for chain in &table.chains {
        if listing.chain(&chain.name).is_none() {
            batch.push(name.add_chain(chain));
        }
    }
    for chain in &table.chains {
        if has_shared_rules(chain, &listing.rules) {
            continue;
        }
        if listing.rules_in(&chain.name).next().is_some() {
            batch.push(name.flush_chain(&chain.name));
        }
        let rules = chain.rules.iter();
        batch.extend(rules.map(|part| name.add_rule(&chain.name, part, "")));
    }
    batch
}

/// Whether all shared rules of a table are there.
pub fn is_complete(table: &Table, rules: &[FoundRule]) -> bool {
    table
        .chains
        .iter()
        .all(|chain| has_shared_rules(chain, rules))
}

/// Whether a chain begins with its shared rules; those of others may follow.
fn has_shared_rules(chain: &Chain, rules: &[FoundRule]) -> bool {
    let mut found = rules.iter().filter(|rule| rule.chain == chain.name);
    chain.rules.iter().all(|part| {
        let rule = found.next();
        rule.is_some_and(|rule| expr::are(&rule.expressions, &part.expressions))
    })
}

/// Removes the elements that are `stale`, and the rules whose comments `is_ours`.
pub fn removal(
    table: &Table,
    listing: &Listing,
    stale: impl Fn(&Entry) -> bool,
    is_ours: impl Fn(&str) -> bool,
) -> Vec<Message> {
    let entries: Vec<_> = listing.entries.iter().filter(|e| stale(e)).collect();
    let rules = listing.rules.iter().filter(|rule| is_ours(&rule.comment));
    let mut batch = table.name.delete_elements(&entries);
    batch.extend(rules.map(|rule| table.name.delete_rule(&rule.chain, rule.handle)));
    batch
}

/// The first thing that is not as it should be. Others' elements are fine, and rules of others
/// behind the shared ones.
pub fn missing(want: &Want, listing: &Listing, tag: &Tag) -> Option<String> {
    let table = want.table.name;
    if !listing.exists {
        return Some(format!("table {table} not found"));
    }
    if listing.dormant {
        return Some(format!("table {table} is dormant"));
    }
    let sets = want.table.sets.iter();
    if let Some(set) = sets
        .map(|set| set.name)
        .find(|set| !listing.sets.contains(set))
    {
        return Some(format!("set {set} not found in table {table}"));
    }
    for chain in &want.table.chains {
        let found = listing.chain(&chain.name);
        if let Some(text) = missing_chain(chain, found, table) {
            return Some(text);
        }
        let rules = listing.rules_in(&chain.name);
        if let Some(text) = missing_rule(&chain.rules, rules) {
            return Some(not_found(&text, &chain.name, table));
        }
    }
    let entries = listing.entries.iter();
    let there: HashMap<_, _> = entries.map(|entry| (entry.place(), entry)).collect();
    let gone = |element: &&Element| {
        let entry = &element.entry;
        there.get(&entry.place()) != Some(&entry)
    };
    if let Some(element) = want.elements.iter().find(gone) {
        return Some(format!(
            "element [{}] of set {} not found in table {table}",
            element.text, element.entry.set
        ));
    }
    want.rules
        .chunk_by(|one, next| one.chain == next.chain)
        .find_map(|rules| {
            let chain = rules.first()?.chain;
            let parts: Vec<_> = rules.iter().map(|rule| rule.part.clone()).collect();
            let own = listing
                .rules_in(chain)
                .filter(|rule| tag.owns(&rule.comment));
            missing_rule(&parts, own).map(|text| not_found(&text, chain, table))
        })
}

/// What is wrong with a chain, its rules left aside.
pub fn missing_chain(
    chain: &Chain,
    found: Option<&FoundChain>,
    table: TableName,
) -> Option<String> {
    let name = &chain.name;
    match found {
        None => Some(format!("chain {name} not found in table {table}")),
        Some(found) if found.hook != chain.hook => {
            Some(format!("chain {name} of table {table} has another hook"))
        }
        Some(_) => None,
    }
}

/// The words of the first rule that is not in its place.
pub fn missing_rule<'a>(
    parts: &[expr::Part],
    mut found: impl Iterator<Item = &'a FoundRule>,
) -> Option<String> {
    let gone = |part: &&expr::Part| {
        let rule = found.next();
        rule.is_none_or(|rule| !expr::are(&rule.expressions, &part.expressions))
    };
    parts.iter().find(gone).map(|part| part.text.clone())
}

/// What CHECK says of a rule that is gone.
pub fn not_found(text: &str, chain: &str, table: TableName) -> String {
    format!("rule [{text}] in chain {chain} not found in table {table}")
}

#[cfg(test)]
mod tests;
