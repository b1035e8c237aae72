use std::process::Command;

use net::Netlink;
use net::rule::{Action, Rule};

use crate::namespaces;

#[test]
fn rules_as_ip_makes_them() {
    let Some((node, _)) = namespaces() else {
        return;
    };
    let netlink = Netlink::in_netns(&node).expect("socket");
    let everywhere = "0.0.0.0/0".parse().expect("network");
    let added = |before: &[Rule]| -> Vec<Rule> {
        let after = netlink.rules().expect("rules");
        let mut new = after.into_iter().filter(|rule| !before.contains(rule));
        new.by_ref().collect()
    };
    let standard = netlink.rules().expect("rules");
    let of_ipv4: Vec<_> = standard
        .iter()
        .filter(|rule| rule.source == everywhere)
        .map(|rule| (rule.priority, rule.action, rule.conditional))
        .collect();
    assert_eq!(
        of_ipv4,
        [
            (0, Action::Table(255), false),
            (32766, Action::Table(254), false),
            (32767, Action::Table(253), false)
        ]
    );
    let rules = [
        "priority 50 from 10.1.0.0/16 to 10.2.0.0/24 table 1000",
        "priority 60 to 10.3.0.0/24 blackhole",
        "priority 70 from 10.4.0.0/24 prohibit",
    ];
    for (words, expected) in rules
        .map(|words| (words.to_owned(), (words.to_owned(), false)))
        .into_iter()
        .chain([
            (
                "priority 80 fwmark 1 table 9".to_owned(),
                ("priority 80 table 9".to_owned(), true),
            ),
            (
                "priority 90 not to 10.5.0.0/24 table 9".to_owned(),
                ("priority 90 to 10.5.0.0/24 table 9".to_owned(), true),
            ),
            (
                "priority 95 iif lo unreachable".to_owned(),
                ("priority 95 unreachable".to_owned(), true),
            ),
        ])
    {
        let before = netlink.rules().expect("rules");
        let run = node.enter(|| {
            let mut ip = Command::new("ip");
            ip.args(["rule", "add"]).args(words.split(' ')).status()
        });
        assert!(run.expect("enter").expect("ip").success(), "{words}");
        let told: Vec<_> = added(&before)
            .iter()
            .map(|rule| (rule.to_string(), rule.conditional))
            .collect();
        assert_eq!(told, [expected], "{words}");
    }
}
