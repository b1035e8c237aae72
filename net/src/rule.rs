//! The rules by which the kernel chooses a routing table.

use std::fmt;
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleFlags, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::{Netlink, Result};

/// A rule of the routing policy, as `ip rule` shows it. It is about one family, that of its networks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The lower one is asked first.
    pub priority: u32,
    /// Of whom packets must be; /0 for everybody.
    pub source: IpNet,
    /// To whom they must be.
    pub destination: IpNet,
    /// More must be true of a packet (a mark, a link, a port, a user), or one of these must not.
    pub conditional: bool,
    /// What is done with it.
    pub action: Action,
}

/// What a rule does: `FR_ACT_*` of linux/fib_rules.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// A table is asked.
    Table(u32),
    /// It is dropped without a word.
    Blackhole,
    /// It is dropped, and its sender is told.
    Unreachable,
    /// It is dropped, and its sender is told that someone wants it so.
    Prohibit,
    /// Other rules are asked.
    Else,
}

impl Rule {
    pub(crate) fn read(message: &RuleMessage) -> Rule {
        let header = &message.header;
        let everything = match header.family {
            AddressFamily::Inet6 => IpNet::V6(Ipv6Net::default()),
            _ => IpNet::V4(Ipv4Net::default()),
        };
        let net = |ip: &IpAddr, length| IpNet::new(*ip, length).unwrap_or(everything);
        let mut table = u32::from(header.table);
        let mut rule = Rule {
            priority: 0,
            source: everything,
            destination: everything,
            conditional: header.tos != 0 || header.flags.contains(RuleFlags::Invert),
            action: Action::Else,
        };
        for attribute in &message.attributes {
            match attribute {
                RuleAttribute::Source(ip) => rule.source = net(ip, header.src_len),
                RuleAttribute::Destination(ip) => rule.destination = net(ip, header.dst_len),
                RuleAttribute::Priority(priority) => rule.priority = *priority,
                RuleAttribute::Table(number) => table = *number,
                RuleAttribute::Protocol(_)
                | RuleAttribute::Realm(_)
                | RuleAttribute::SuppressPrefixLen(_)
                | RuleAttribute::SuppressIfGroup(_)
                | RuleAttribute::L3MDev(false)
                | RuleAttribute::Goto(_) => {}
                _ => rule.conditional = true,
            }
        }
        rule.action = match header.action {
            RuleAction::ToTable => Action::Table(table),
            RuleAction::Blackhole => Action::Blackhole,
            RuleAction::Unreachable => Action::Unreachable,
            RuleAction::Prohibit => Action::Prohibit,
            _ => Action::Else,
        };
        rule
    }
}

/// As `ip rule add` and `ip rule del` take it, conditions other than networks left out.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "priority {}", self.priority)?;
        for (word, net) in [("from", self.source), ("to", self.destination)] {
            if net.prefix_len() != 0 {
                write!(f, " {word} {net}")?;
            }
        }
        match self.action {
            Action::Table(table) => write!(f, " table {table}"),
            Action::Blackhole => f.write_str(" blackhole"),
            Action::Unreachable => f.write_str(" unreachable"),
            Action::Prohibit => f.write_str(" prohibit"),
            Action::Else => Ok(()),
        }
    }
}

impl Netlink {
    /// All rules of both families, those of IPv4 first, each family's in the order in which they are
    /// asked. Equivalent to `ip rule`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn rules(&self) -> Result<Vec<Rule>> {
        let mut all = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut message = RuleMessage::default();
            message.header.family = family;
            let message = RouteNetlinkMessage::GetRule(message);
            let doing = format_args!("list routing rules");
            let mut found = self.dump(message, doing, |answer| match answer {
                // A kernel without the family answers with all others'.
                RouteNetlinkMessage::NewRule(rule) if rule.header.family == family => {
                    Some(Rule::read(&rule))
                }
                _ => None,
            })?;
            found.sort_by_key(|rule| rule.priority);
            all.extend(found);
        }
        Ok(all)
    }
}
