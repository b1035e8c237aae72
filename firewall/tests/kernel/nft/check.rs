//! What CHECK notices.

use firewall::Backend::Nftables;
use firewall::{Error, hostport};

use super::ruleset::{nft, put, ruleset};
use super::{COMMENT, HASH, add_other_pod, add_pod, check_other_pod, check_pod, in_namespace};
use crate::common::{owner, ports};

/// What an error should say of a command's rule or element.
fn shown(command: &str) -> String {
    if let Some(rule) = command.strip_prefix("add rule ") {
        // Family, table and chain.
        return rule.splitn(4, ' ').nth(3).unwrap().to_owned();
    }
    let (_, element) = command.split_once(" { ").unwrap();
    element
        .trim_end_matches(" }")
        .replace(&format!(" comment \"{COMMENT}\""), "")
}

#[test]
fn check_notices_each_rule_and_element_that_is_gone() {
    in_namespace(|| {
        add_other_pod("other", 7);
        add_pod("cont1");
        let whole = ruleset();
        let ours = |line: &&String| {
            line.starts_with("add rule") || line.starts_with("add element") && line.contains(HASH)
        };
        let lines: Vec<_> = whole.iter().filter(ours).collect();
        assert_eq!(lines.len(), 25 + 8 + 4);
        for line in lines {
            let mut without = whole.clone();
            without.retain(|other| other != line);
            put(&without);
            match check_pod("cont1") {
                Err(Error::Missing(text)) => {
                    assert!(text.contains(&shown(line)), "{line}: {text}");
                    assert!(text.contains("cni_lite_"), "{text}");
                }
                other => panic!("{line}: {other:?}"),
            }
        }
        put(&whole);
        check_pod("cont1").unwrap();
        check_other_pod("other", 7).unwrap();
    });
}

#[test]
fn check_notices_a_chain_set_or_table_that_is_gone_or_another() {
    in_namespace(|| {
        add_pod("cont1");
        let whole = ruleset();
        let noticed = |without: &[String], what: &str| {
            put(without);
            match check_pod("cont1") {
                Err(Error::Missing(text)) => assert!(text.contains(what), "{what}: {text}"),
                other => panic!("{what}: {other:?}"),
            }
        };
        for family in ["ip", "ip6"] {
            for (table, object) in [
                ("hostport", "prerouting"),
                ("hostport", "output"),
                ("hostport", "masquerade_0x2000"),
                ("masquerade", "postrouting"),
                ("hostport", "attachments"),
                ("masquerade", "attachments"),
            ] {
                let place = format!(" {family} cni_lite_{table} {object}");
                let mut without = whole.clone();
                without.retain(|line| !line.contains(&place));
                assert!(without.len() < whole.len(), "{place}");
                noticed(&without, object);
            }
            for table in ["hostport", "masquerade"] {
                let place = format!(" {family} cni_lite_{table}");
                let mut without = whole.clone();
                without.retain(|line| !line.contains(&place));
                noticed(&without, &format!("table{place} not found"));
            }
        }
        for table in whole.iter().filter(|line| line.starts_with("add table")) {
            let asleep = format!("{table} {{ flags dormant; }}");
            let changed: Vec<_> = whole
                .iter()
                .map(|line| line.replace(table, &asleep))
                .collect();
            noticed(&changed, "dormant");
        }
        for (hook, other) in [
            (
                "hook prerouting priority dstnat",
                "hook prerouting priority -99",
            ),
            ("hook output priority -100", "hook output priority -99"),
        ] {
            let changed: Vec<_> = whole.iter().map(|line| line.replace(hook, other)).collect();
            assert_ne!(changed, whole);
            noticed(&changed, "another hook");
        }
    });
}

#[test]
fn check_notices_what_leads_elsewhere_or_is_another_pod_s() {
    in_namespace(|| {
        add_pod("cont1");
        let whole = ruleset();
        for (ours, others) in [
            (": 10.1.2.2 . 80", ": 10.1.2.3 . 80"),
            (": 10.1.2.2 . 80", ": 10.1.2.2 . 81"),
            ("!= 10.1.2.0/24 masquerade", "!= 10.1.2.0/25 masquerade"),
            ("saddr 10.1.2.0/24 meta", "saddr 10.1.0.0/16 meta"),
            (": jump from_10.1.2.0/24_0x2000", ": drop"),
            (HASH, "0000000000000000-0000000000000000"),
            ("fib daddr type local jump", "jump"),
            ("meta mark | 0x00002000", "meta mark | 0x00004000"),
            ("!= 224.0.0.0/4", "224.0.0.0/4"),
        ] {
            let changed: Vec<_> = whole
                .iter()
                .map(|line| line.replace(ours, others))
                .collect();
            assert_ne!(changed, whole);
            put(&changed);
            let missing = check_pod("cont1");
            assert!(
                matches!(missing, Err(Error::Missing(_))),
                "{ours}: {missing:?}"
            );
        }
        put(&whole);
        nft(
            "add element ip cni_lite_hostport ports { udp . 1 comment \"mine\" : 10.0.0.1 . 1 }\n\
             add rule ip cni_lite_hostport duplicates tcp dport 1 accept",
        );
        check_pod("cont1").unwrap();
        let (addresses, mappings) = crate::pod();
        let fewer = ports(&mappings[..1], &addresses);
        hostport::check(Nftables, owner("cont1"), &fewer).unwrap();
    });
}
