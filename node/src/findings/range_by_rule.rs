//! A rule of the routing policy that leads packets for pods astray.

use ipnet::IpNet;
use net::route::{Entry, Kind as RouteKind};
use net::rule::{Action, Rule};

use crate::case::Case;
use crate::finding::{Finding, Kind};
use crate::routes::words;
use crate::way::MAIN;

pub const KIND: Kind = Kind {
    id: "range-by-rule",
    means: "A rule of the routing policy (`ip rule`) that is asked before the table main drops packets for \
            pods, or leads them to a table in which a route leads elsewhere. Rules with a condition beside \
            their networks (a mark, a link, a port, a user, `not`) are not judged.",
    mend: "delete the rule, or correct the table",
    needs_plan: false,
    look,
};

/// A range, and which routes to it are right.
struct Goal<'a> {
    range: IpNet,
    whose: String,
    is_right: Box<dyn Fn(&Entry) -> bool + 'a>,
}

fn look(case: &Case) -> Vec<Finding> {
    let mut found = Vec::new();
    for goal in goals(case) {
        let rules = case
            .node
            .policy
            .iter()
            .filter(|rule| is_of(rule, goal.range));
        // Behind the table main little is left to decide.
        for rule in rules.take_while(|rule| !is_main(rule)) {
            found.extend(finding(case, rule, &goal));
        }
    }
    found
}

/// The node's own ranges, and those of the plan's other nodes.
fn goals<'a>(case: &Case<'a>) -> Vec<Goal<'a>> {
    let node = case.node;
    let own = case.own_ranges().into_iter().map(|(range, bridge)| Goal {
        range,
        whose: "this node".to_owned(),
        is_right: Box::new(move |entry| {
            node.name_of(entry.route.index) == bridge && entry.route.gateway.is_none()
        }),
    });
    let peers = case.site.into_iter().flat_map(|site| &site.peers);
    let theirs = peers.flat_map(|peer| {
        peer.ranges.iter().map(move |range| Goal {
            range: *range,
            whose: peer.name.clone(),
            is_right: Box::new(move |entry| {
                let gateway = entry.route.gateway;
                gateway.is_some_and(|gateway| peer.addresses.contains(&gateway))
            }),
        })
    });
    own.chain(theirs).collect()
}

fn is_of(rule: &Rule, range: IpNet) -> bool {
    let to = rule.destination;
    !rule.conditional && (to.contains(&range) || range.contains(&to))
}

fn is_main(rule: &Rule) -> bool {
    let everybody = rule.source.prefix_len() == 0 && rule.destination.prefix_len() == 0;
    everybody && rule.action == Action::Table(MAIN)
}

fn finding(case: &Case, rule: &Rule, goal: &Goal) -> Option<Finding> {
    let part = match goal.range.contains(&rule.destination) {
        true => rule.destination,
        false => goal.range,
    };
    let (what, entry) = match rule.action {
        Action::Blackhole | Action::Unreachable | Action::Prohibit => ("dropped by", None),
        Action::Table(table) => ("led elsewhere by", Some(astray(case, table, part, goal)?)),
        Action::Else => return None,
    };
    let from = match rule.source.prefix_len() {
        0 => String::new(),
        _ => format!(" from {}", rule.source),
    };
    let breaks = format!(
        "packets{from} to the pods of {} ({part}) are {what} a rule",
        goal.whose
    );
    let finding = Finding::error(&KIND, breaks).by(format!("rule: {rule}"));
    let finding = match entry {
        Some(entry) => finding.by(words(case.node, entry)),
        None => finding,
    };
    let family = if part.addr().is_ipv4() { "" } else { " -6" };
    Some(finding.mended_by(format!("ip{family} rule del {rule}")))
}

/// A route of a table that takes packets to a part of the range, or all of them, elsewhere. The local
/// table's own addresses are another matter.
fn astray<'a>(case: &Case<'a>, table: u32, part: IpNet, goal: &Goal) -> Option<&'a Entry> {
    if table == MAIN || table == crate::way::LOCAL {
        return None;
    }
    let node = case.node;
    let inside = node
        .routes_of(table)
        .filter(|entry| part.contains(&entry.route.dst) && entry.route.dst != part);
    let mut asked = inside.chain(node.way_in(table, part));
    asked.find(|entry| {
        let wrong = entry.kind != RouteKind::Unicast || !(goal.is_right)(entry);
        wrong && entry.kind != RouteKind::Throw
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::tests::{Fixture, ids};
    use crate::fixture::{net, route};

    fn rule(priority: u32, from: &str, to: &str, action: Action) -> Rule {
        Rule {
            priority,
            source: net(from),
            destination: net(to),
            conditional: false,
            action,
        }
    }

    /// A node with one rule before the standard ones, and a route in table 100.
    fn with(rule: Rule, dst: &str, via: Option<&str>, index: u32) -> Fixture {
        let mut fixture = Fixture::healthy();
        let mut entry = route(dst, via, index);
        entry.route.table = Some(100);
        fixture.node.routes.push(entry);
        let place = fixture
            .node
            .policy
            .iter()
            .position(|other| other.priority > rule.priority);
        fixture.node.policy.insert(place.unwrap_or_default(), rule);
        fixture
    }

    const ALL: &str = "0.0.0.0/0";

    #[test]
    fn a_table_that_leads_elsewhere() {
        for (from, to, dst, via, index, counts) in [
            (ALL, "10.1.1.0/24", "0.0.0.0/0", Some("192.0.2.1"), 2, true),
            (
                ALL,
                "10.1.1.2/32",
                "10.1.0.0/16",
                Some("192.0.2.1"),
                2,
                true,
            ),
            (ALL, ALL, "10.1.1.64/26", Some("192.0.2.1"), 2, true),
            (
                "10.1.1.0/24",
                "10.1.2.0/24",
                "0.0.0.0/0",
                Some("192.0.2.1"),
                2,
                true,
            ),
            // It leads where it should, knows nothing of the range, or is about something else.
            (ALL, "10.1.1.0/24", "10.1.1.0/24", None, 3, false),
            (
                ALL,
                "10.1.2.0/24",
                "0.0.0.0/0",
                Some("192.0.2.12"),
                2,
                false,
            ),
            (
                ALL,
                "10.1.1.0/24",
                "172.16.0.0/12",
                Some("192.0.2.1"),
                2,
                false,
            ),
            (
                ALL,
                "192.168.0.0/16",
                "0.0.0.0/0",
                Some("192.0.2.1"),
                2,
                false,
            ),
        ] {
            let fixture = with(rule(100, from, to, Action::Table(100)), dst, via, index);
            let found = fixture.look();
            assert_eq!(!found.is_empty(), counts, "{from} {to} {dst}: {found:?}");
            assert!(
                found.iter().all(|finding| finding.id == KIND.id),
                "{found:?}"
            );
        }
    }

    #[test]
    fn the_rule_is_named_and_deleted() {
        let lost = rule(100, ALL, "10.1.1.0/24", Action::Table(100));
        let found = with(lost, "0.0.0.0/0", Some("192.0.2.1"), 2).look();
        assert_eq!(
            found[0].mend,
            ["ip rule del priority 100 to 10.1.1.0/24 table 100"]
        );
        assert_eq!(
            found[0].evidence[1],
            "default via 192.0.2.1 dev eth0 table 100 proto static"
        );
        let mut fixture = Fixture::healthy();
        let dropped = rule(9, "::/0", "fd00:0:0:2::/64", Action::Blackhole);
        fixture.node.policy.insert(0, dropped);
        let found = fixture.look();
        assert_eq!(ids(&found), [KIND.id]);
        assert_eq!(
            found[0].breaks,
            "packets to the pods of c (fd00:0:0:2::/64) are dropped by a rule"
        );
        assert_eq!(
            found[0].mend,
            ["ip -6 rule del priority 9 to fd00:0:0:2::/64 blackhole"]
        );
    }

    #[test]
    fn behind_main_or_on_a_condition_it_is_not_found() {
        let late = rule(40000, ALL, "10.1.1.0/24", Action::Blackhole);
        let mut fixture = Fixture::healthy();
        fixture.node.policy.push(late);
        assert_eq!(ids(&fixture.look()), [""; 0]);
        let mut marked = rule(5, ALL, "10.1.1.0/24", Action::Blackhole);
        marked.conditional = true;
        fixture.node.policy.insert(0, marked);
        assert_eq!(ids(&fixture.look()), [""; 0]);
    }
}
