//! The rules of a node as a value: what they let pass, which host ports there are, and what
//! attachments that are no more have left. Nothing is changed, and no table comes into being by
//! being looked at.

mod exit;
pub(crate) mod expression;
mod lines;
pub(crate) mod native;
mod packet;
mod ports;
mod read;
mod shell;

pub use exit::Exit;
pub use packet::{Dropped, Gate, Packet};
pub(crate) use ports::everything;
pub use ports::{Forwarding, shadowed};
pub use shell::quote;

use crate::garbage::Garbage;
use crate::nft;
use crate::rule::{Family, Listing};
use crate::{Owner, hostport, masquerade};

/// What the rules of a node were at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct View {
    /// Where forwarded packets come in, of every table and either family: each of them can drop.
    pub gates: Vec<Gate>,
    /// Host ports, those of one backend in the order in which they are asked.
    pub ports: Vec<Forwarding>,
    /// Where all comes in that leaves the node: each of them can give it another source.
    exits: Vec<Gate>,
    /// Something translates the addresses of Services (the chains or the table of kube-proxy).
    pub services: bool,
    /// What could not be read, and why.
    pub unread: Vec<String>,
    /// The tables `nat` of iptables.
    nat: Vec<(Family, Listing)>,
    /// The comments of what attachments have in our own tables of nftables.
    comments: Vec<String>,
}

/// What an attachment that is no more has left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// The chain or the element.
    pub what: String,
    /// Whose it is, as its comment says.
    pub comment: String,
}

/// The first comment of a chain's rules, or of those that lead to it.
fn comment_of(listing: &Listing, chain: &str) -> String {
    let rules = listing.rules_in(chain).chain(listing.rules_to(chain));
    let mut comments = rules.filter_map(|rule| rule.value_of("--comment"));
    comments.next().unwrap_or_default()
}

impl View {
    /// Reads what the calling thread's namespace has.
    pub fn read() -> View {
        read::view()
    }

    /// What is of the network and of none of the `valid` attachments, each chain and comment once.
    pub fn garbage(&self, network: &str, valid: &[Owner]) -> Vec<Leftover> {
        let kinds = hostport::KINDS.into_iter().chain([masquerade::KIND]);
        let kinds: Vec<Garbage> = kinds
            .map(|kind| Garbage::new(kind, network, valid))
            .collect();
        let mut found: Vec<Leftover> = Vec::new();
        for (family, listing) in &self.nat {
            let chains = kinds.iter().flat_map(|kind| kind.chains(listing));
            found.extend(chains.map(|chain| Leftover {
                comment: comment_of(listing, &chain),
                what: format!("{family} iptables chain {chain}"),
            }));
        }
        let dead = nft::Dead::new(network, valid);
        let comments = self.comments.iter().filter(|comment| dead.owns(comment));
        found.extend(comments.map(|comment| Leftover {
            what: format!("nftables, with the comment {comment:?}"),
            comment: comment.clone(),
        }));
        found
    }
}

/// Values for the tests of others.
impl View {
    /// What a family's table of iptables decides, as `iptables -S` prints it; of the table `nat` its
    /// host ports and chains.
    #[must_use]
    pub fn with_table(mut self, family: Family, program: &str, table: &str, text: &str) -> View {
        self.add_table(family, program, table, text);
        self
    }
}
