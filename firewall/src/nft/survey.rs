//! What attachments have in the tables of nftables, whoever made them, looked at for a person.

use std::io;

use ipnet::IpNet;
use netlink_packet_netfilter::nftables::{DataAttribute, VerdictAttribute};

use super::hostport::{self, ADDRESS_PORTS, CONDITIONS, DUPLICATES, PORTS};
use super::listing::{self, FoundRule, Listing};
use super::table::Entry;
use super::wire::Socket;
use super::{foreign, macspoof, masquerade, port_tables, read};
use crate::Backend;
use crate::rule::Family;
use crate::view::Forwarding;

/// What was found.
#[derive(Debug, Default)]
pub struct Survey {
    /// Host ports, in the order in which they are asked.
    pub ports: Vec<Forwarding>,
    /// Comments of elements and rules, by which they are an attachment's.
    pub comments: Vec<String>,
}

/// Reads our own tables and filters, and of the reference plugins' the host ports.
///
/// # Errors
/// The kernel's.
pub fn survey(socket: &mut Socket) -> io::Result<Survey> {
    let mut survey = Survey::default();
    for table in port_tables() {
        let listing = Listing::read(socket, &table)?;
        survey.ports.extend(ports(&listing));
        survey.note(listing);
    }
    for table in Family::ALL.map(|family| masquerade::table(family, &[])) {
        survey.note(Listing::read(socket, &table)?);
    }
    survey.comments.extend(macspoof::comments(socket)?);
    for table in foreign::HOSTPORT {
        let rules = listing::rules(socket, table)?;
        survey
            .ports
            .extend(rules.iter().filter_map(|rule| of_rule(rule, false)));
    }
    survey.comments.sort();
    survey.comments.dedup();
    Ok(survey)
}

impl Survey {
    fn note(&mut self, listing: Listing) {
        let entries = listing.entries.into_iter().map(|entry| entry.comment);
        let comments = entries.chain(listing.rules.into_iter().map(|rule| rule.comment));
        self.comments
            .extend(comments.filter(|comment| !comment.is_empty()));
    }
}

/// Rules with conditions come first, then ports of one address, ports of any, and those that
/// another attachment had before.
fn ports(listing: &Listing) -> Vec<Forwarding> {
    let entries = |set: &'static str| {
        let entries = listing.entries.iter().filter(move |entry| entry.set == set);
        entries.filter_map(|entry| of_entry(listing, entry))
    };
    let rules = |chain, conditional| {
        let rules = listing.rules_in(chain);
        rules.filter_map(move |rule| of_rule(rule, conditional))
    };
    let ports = rules(CONDITIONS, true).chain(entries(ADDRESS_PORTS));
    let ports = ports.chain(entries(PORTS));
    ports.chain(rules(DUPLICATES, false)).collect()
}

fn of_entry(listing: &Listing, entry: &Entry) -> Option<Forwarding> {
    let (mapping, target) = read::entry(entry)?;
    Some(Forwarding {
        mapping,
        target,
        comment: entry.comment.clone(),
        backend: Backend::Nftables,
        conditional: false,
        masquerades: marked(listing, entry, Family::of(&target.into())),
    })
}

/// From where connections to a port are marked for masquerade, by the element of the same key.
fn marked(listing: &Listing, port: &Entry, family: Family) -> Vec<IpNet> {
    let set = hostport::sources_of(&port.set);
    let mut entries = listing.entries.iter();
    let same = entries.find(|entry| Some(entry.set.as_str()) == set && entry.key == port.key);
    let chain = same.and_then(|entry| match entry.value.as_ref()? {
        DataAttribute::Verdict(parts) => parts.iter().find_map(|part| match part {
            VerdictAttribute::Chain(name) => Some(name),
            _ => None,
        }),
        _ => None,
    });
    let chain = chain.map(|name| hostport::marked_by(name, family));
    chain.unwrap_or_default()
}

fn of_rule(rule: &FoundRule, conditional: bool) -> Option<Forwarding> {
    let (mapping, target) = read::rule(&rule.expressions)?;
    Some(Forwarding {
        mapping,
        target,
        comment: rule.comment.clone(),
        backend: Backend::Nftables,
        conditional,
        masquerades: Vec::new(),
    })
}
