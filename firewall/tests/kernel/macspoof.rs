//! Filters of source MACs in the kernel, seen with the eyes of `nft`.

use firewall::{Error, Owner, macspoof};

use crate::common::{in_bare_namespace, owner};
use crate::nft::ruleset::{expect, nft, put, ruleset};

const MAC: [u8; 6] = [2, 0, 0x5e, 0x10, 0, 1];
const OTHER_MAC: [u8; 6] = [2, 0, 0x5e, 0x10, 0, 2];
const BASE: &str = "add table bridge nat
    add chain bridge nat PREROUTING { type filter hook prerouting priority -300; }";

/// What a reference plugin makes for `id`, as `nft` prints it.
fn by_reference(id: &str, port: &str, mac: &str) -> Vec<String> {
    let nat = "bridge nat";
    let chain = format!("cni-br-iface-{id}");
    let comment = format!("comment \"macspoofchk-{id}\"");
    vec![
        format!("add chain {nat} {chain}"),
        format!("add chain {nat} {chain}-mac"),
        format!("add rule {nat} PREROUTING iifname \"{port}\" jump {chain} {comment}"),
        format!("add rule {nat} {chain} jump {chain}-mac {comment}"),
        format!("add rule {nat} {chain}-mac ether saddr {mac} return {comment}"),
        format!("add rule {nat} {chain}-mac drop {comment}"),
    ]
}

/// Runs `body` where bridges have nf_tables and `nft` can look at them.
fn in_namespace(body: fn()) {
    if lab::find_tool("nft").is_none() {
        return lab::skip("nft is not installed");
    }
    in_bare_namespace(body);
}

/// Inside a namespace: whether the kernel can do it at all.
fn can() -> bool {
    match macspoof::preflight() {
        Err(Error::Unsupported(why)) => {
            lab::skip(&why);
            false
        }
        other => {
            other.unwrap();
            true
        }
    }
}

fn of<'a>(network: &'a str, container_id: &'a str, ifname: &'a str) -> Owner<'a> {
    Owner {
        network,
        container_id,
        ifname,
    }
}

fn add(owner: Owner, port: &str) {
    macspoof::add(owner, port, MAC).unwrap();
    macspoof::check(owner, port, MAC).unwrap();
}

#[test]
fn a_filter_is_the_reference_s_to_the_letter() {
    in_namespace(|| {
        if !can() {
            return;
        }
        expect(&[], "a look changes nothing");
        add(owner("cont1"), "veth0");
        let mut expected = by_reference("cont1-eth0", "veth0", "02:00:5e:10:00:01");
        expected.extend([
            "add table bridge nat".to_owned(),
            "add chain bridge nat PREROUTING { type filter hook prerouting priority dstnat; policy accept; }"
                .to_owned(),
        ]);
        expected.sort();
        let mut found = ruleset();
        found.sort();
        assert_eq!(found, expected);
        let listed = crate::common::run("nft", &["list", "table", "bridge", "nat"], "");
        let comment =
            "comment \"d23676b4f2d9fe04-f37378035343678b, net: mynet, if: eth0, id: cont1\"";
        assert_eq!(listed.matches(comment).count(), 2, "{listed}");
        macspoof::delete(owner("cont1"), true).unwrap();
        expected.retain(|line| !line.contains("cni-br-iface"));
        expect(&expected, "deleted");
    });
}

#[test]
fn an_add_replaces_what_is_there() {
    in_namespace(|| {
        if !can() {
            return;
        }
        add(owner("other"), "veth1");
        add(owner("cont1"), "veth0");
        let before = ruleset();
        let same = |case: &str, prepared: &dyn Fn()| {
            prepared();
            add(owner("cont1"), "veth0");
            let (mut now, mut before) = (ruleset(), before.clone());
            now.sort();
            before.sort();
            assert_eq!(now, before, "{case}");
        };
        same("again", &|| ());
        same("another port and MAC", &|| {
            macspoof::add(owner("cont1"), "veth7", OTHER_MAC).unwrap();
        });
        same("the reference's", &|| {
            macspoof::delete(owner("cont1"), true).unwrap();
            nft(&by_reference("cont1-eth0", "vethabcd", "02:00:5e:10:00:09").join("\n"));
        });
        same("chains alone", &|| {
            macspoof::delete(owner("cont1"), true).unwrap();
            nft("add chain bridge nat cni-br-iface-cont1-eth0-mac");
        });
        macspoof::check(owner("other"), "veth1", MAC).unwrap();
    });
}

#[test]
fn delete_cleans_whatever_is_left_and_nothing_else() {
    in_namespace(|| {
        // Nothing there at all.
        macspoof::delete(owner("cont1"), true).unwrap();
        if !can() {
            return;
        }
        add(owner("other"), "veth1");
        nft("add rule bridge nat PREROUTING ether type arp accept comment \"cont1-eth0\"");
        let before = ruleset();
        let reference = by_reference("cont1-eth0", "vethabcd", "02:00:5e:10:00:09");
        let whole = reference.join("\n");
        let chains = reference[..2].join("\n");
        let without_jump = "add rule bridge nat PREROUTING iifname \"gone\" drop comment \"macspoofchk-cont1-eth0\"";
        let without_comment =
            format!("{chains}\nadd rule bridge nat PREROUTING jump cni-br-iface-cont1-eth0");
        for (case, made) in [
            ("the reference's", whole.clone()),
            (
                "twice added by the reference",
                format!("{whole}\n{}", reference[2..].join("\n")),
            ),
            ("chains alone", chains.clone()),
            ("one chain", reference[1].clone()),
            ("a rule alone", without_jump.to_owned()),
            ("a rule whose comment is lost", without_comment),
        ] {
            nft(&made);
            macspoof::delete(owner("cont1"), false).unwrap();
            expect(&before, case);
        }
        // Too long for the reference's names.
        let id = "c".repeat(250);
        let others = [owner(&id), of("other", "other", "eth0")];
        for other in others {
            add(other, "veth9");
            macspoof::delete(other, true).unwrap();
            expect(&before, "a hash");
        }
        macspoof::check(owner("other"), "veth1", MAC).unwrap();
    });
}

#[test]
fn no_two_attachments_share_a_filter() {
    in_namespace(|| {
        if !can() {
            return;
        }
        let all = [
            of("n", "a", "b"),
            of("m", "a", "b"),
            of("n", "a-b", "mac"),
            of("n", "a", "b-mac"),
            of("n", "a-b-mac", "mac"),
        ];
        for reversed in [false, true] {
            let mut all: Vec<_> = all.iter().zip(0..).collect();
            if reversed {
                all.reverse();
            }
            for (owner, number) in &all {
                add(**owner, &format!("veth{number}"));
            }
            while let Some((owner, number)) = all.pop() {
                for (owner, number) in &all {
                    macspoof::check(**owner, &format!("veth{number}"), MAC).unwrap();
                }
                macspoof::check(*owner, &format!("veth{number}"), MAC).unwrap();
                macspoof::delete(*owner, true).unwrap();
            }
            let left = ruleset();
            assert_eq!(left.len(), 2, "{left:?}");
        }
    });
}

/// That CHECK of `cont1` notices a ruleset that was changed, and says so much.
#[track_caller]
fn noticed(case: &str, changed: &[String], says: &str) {
    put(changed);
    match macspoof::check(owner("cont1"), "veth0", MAC) {
        Err(Error::Missing(text)) => assert!(text.contains(says), "{case}: {text}"),
        other => panic!("{case}: {other:?}"),
    }
}

#[test]
fn check_notices_each_rule_that_is_gone_or_changed() {
    in_namespace(|| {
        if !can() {
            return;
        }
        add(owner("other"), "veth1");
        add(owner("cont1"), "veth0");
        let whole = ruleset();
        let ours = |line: &&String| {
            line.starts_with("add rule") && line.contains("macspoofchk-cont1-eth0")
        };
        let rules: Vec<_> = whole.iter().filter(ours).collect();
        assert_eq!(rules.len(), 4);
        for rule in rules {
            let words = rule.splitn(6, ' ').nth(5).unwrap();
            let words = words.split(" comment").next().unwrap();
            let mut without = whole.clone();
            without.retain(|line| line != rule);
            noticed(rule, &without, words);
            let other = rule.replace("macspoofchk-cont1", "x");
            let changed = whole.iter().map(|line| line.replace(rule, &other));
            noticed("another comment", &changed.collect::<Vec<_>>(), words);
        }
        put(&whole);
        macspoof::check(owner("cont1"), "veth0", MAC).unwrap();
        nft("insert rule bridge nat cni-br-iface-cont1-eth0 accept");
        let words = "rule [jump cni-br-iface-cont1-eth0-mac]";
        noticed("a rule in front", &ruleset(), words);
        put(&whole);
        nft("add rule bridge nat cni-br-iface-cont1-eth0 counter
             insert rule bridge nat PREROUTING ether type arp counter");
        macspoof::check(owner("cont1"), "veth0", MAC).unwrap();
        assert!(macspoof::check(owner("cont1"), "veth0", OTHER_MAC).is_err());
    });
}

#[test]
fn check_notices_chains_and_a_table_that_are_gone_or_others() {
    in_namespace(|| {
        if !can() {
            return;
        }
        add(owner("cont1"), "veth0");
        let whole = ruleset();
        for (gone, says) in [
            (
                "cni-br-iface-cont1-eth0",
                "chain cni-br-iface-cont1-eth0 not found",
            ),
            ("PREROUTING", "chain PREROUTING not found"),
            ("", "table bridge nat not found"),
        ] {
            let mut without = whole.clone();
            without.retain(|line| !line.contains(gone));
            noticed(gone, &without, says);
        }
        for (from, to, says) in [
            (
                "00:01 return",
                "00:02 return",
                "rule [ether saddr 02:00:5e:10:00:01 return]",
            ),
            (
                "iifname \"veth0\"",
                "iifname \"veth7\"",
                "rule [iifname \"veth0\" jump",
            ),
            ("-mac drop", "-mac accept", "rule [drop]"),
            ("priority dstnat", "priority -200", "another hook"),
            (
                "table bridge nat",
                "table bridge nat { flags dormant; }",
                "dormant",
            ),
        ] {
            let changed = whole.iter().map(|line| line.replace(from, to));
            noticed(to, &changed.collect::<Vec<_>>(), says);
        }
    });
}

#[test]
fn gc_takes_what_is_dead_and_what_no_link_is_left_of() {
    in_namespace(|| {
        if !can() {
            return;
        }
        let is_link = |name: &str| name.starts_with("here");
        for kept in [
            of("mynet", "alive", "eth0"),
            of("mynet", "alive", "net-1"),
            of("mynet1", "dead", "net1"),
            of("myne", "dead", "eth0"),
        ] {
            add(kept, "veth1");
        }
        let valid = [owner("alive"), of("mynet", "alive", "net-1"), owner("old")];
        let by_reference = |id, port| by_reference(id, port, "02:00:5e:10:00:09").join("\n");
        // Of the reference: one that is used, one that is valid, one that nobody speaks of.
        nft(&by_reference("used-eth0", "here0"));
        nft(&by_reference("old-eth0", "gone0"));
        nft("add chain bridge nat cni-br-iface-nobody-eth0");
        nft("add rule bridge nat PREROUTING iifname \"gone1\" drop comment \"another's\"");
        // One of two that were left by a second ADD is used.
        nft(&by_reference("twice-eth0", "gone2"));
        nft(
            "add rule bridge nat PREROUTING iifname \"here2\" jump cni-br-iface-twice-eth0 comment \"macspoofchk-twice-eth0\"",
        );
        // A chain of another table by such a name.
        nft("add table bridge other; add chain bridge other cni-br-iface-x-eth0");
        let before = ruleset();
        for dead in [
            of("mynet", "dead", "eth0"),
            of("mynet", "alive", "net1"),
            of("mynet", "dead-alive-eth0", "mac"),
        ] {
            // Also where its link is still there.
            add(dead, "here7");
        }
        nft(&by_reference("leak-eth0", "gone3"));
        nft(&by_reference("leak-eth1", "gone4"));
        nft(
            "add rule bridge nat PREROUTING iifname \"gone5\" drop comment \"macspoofchk-alone-eth0\"",
        );
        macspoof::gc("mynet", &valid, is_link).unwrap();
        expect(&before, "");
        macspoof::gc("mynet", &valid, is_link).unwrap();
        expect(&before, "again");
        macspoof::gc("unknown", &[], is_link).unwrap();
        let mut without = before.clone();
        without.retain(|line| !line.contains("old-eth0"));
        expect(&without, "a network that has none");
    });
}

#[test]
fn a_chain_in_the_place_of_the_shared_one_is_refused() {
    in_namespace(|| {
        if !can() {
            return;
        }
        nft(&BASE.replace("-300", "-200"));
        let before = ruleset();
        for refused in [
            macspoof::preflight(),
            macspoof::add(owner("cont1"), "veth0", MAC),
        ] {
            let Err(Error::Unsupported(text)) = refused else {
                panic!("{refused:?}");
            };
            assert_eq!(
                text,
                "chain PREROUTING of table bridge nat has another hook"
            );
        }
        expect(&before, "refused");
        macspoof::delete(owner("cont1"), true).unwrap();
        macspoof::gc("mynet", &[], |_| false).unwrap();
        expect(&before, "cleaned");
        nft("flush ruleset");
        nft(BASE);
        macspoof::preflight().unwrap();
        nft("flush ruleset\nadd table bridge nat");
        macspoof::preflight().unwrap();
        expect(
            &["add table bridge nat".to_owned()],
            "a look changes nothing",
        );
    });
}

#[test]
fn a_filter_that_another_rule_leads_to_is_said_to_be_there() {
    in_namespace(|| {
        if !can() {
            return;
        }
        add(owner("cont1"), "veth0");
        nft("add chain bridge nat mine; add rule bridge nat mine jump cni-br-iface-cont1-eth0");
        let refused = macspoof::delete(owner("cont1"), false).unwrap_err();
        assert!(refused.to_string().contains("busy"), "{refused}");
        nft("flush chain bridge nat mine");
        macspoof::delete(owner("cont1"), false).unwrap();
    });
}

#[test]
fn many_at_once_on_a_node_that_had_none() {
    in_namespace(|| {
        if !can() {
            return;
        }
        let pods: Vec<_> = (0..32).map(|number| format!("pod{number}")).collect();
        let at_once = |work: fn(&str)| {
            std::thread::scope(|scope| {
                for id in &pods {
                    scope.spawn(move || work(id));
                }
            });
        };
        at_once(|id| macspoof::add(owner(id), "veth0", MAC).unwrap());
        at_once(|id| macspoof::check(owner(id), "veth0", MAC).unwrap());
        assert_eq!(ruleset().len(), 2 + 6 * pods.len());
        at_once(|id| macspoof::delete(owner(id), true).unwrap());
        assert_eq!(ruleset().len(), 2);
    });
}
