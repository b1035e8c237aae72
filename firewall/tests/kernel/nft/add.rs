//! What ADD makes.

use firewall::Backend::{self, Nftables};
use firewall::hostport::{self, Mapping, Mark, Protocol};
use firewall::{Error, Family, Owner, masquerade};

use super::ruleset::{expect, lines_with, nft, put, ruleset};
use super::{
    COMMENT, HASH, add_other_pod, add_pod, check_other_pod, check_pod, delete_pod, in_namespace,
};
use crate::common::{
    hide_tools, in_bare_namespace, is_ordinary_user, mapping, nets, owner, ports, rules_with,
};

#[test]
fn nft_prints_what_was_meant() {
    in_namespace(|| {
        add_pod("cont1");
        let lines: Vec<_> = ruleset()
            .iter()
            .filter(|line| line.contains(" ip cni_lite_"))
            .map(|line| line.replace(COMMENT, "C").replace(" ip cni_lite_", " "))
            .collect();
        let expected = [
            "add table masquerade",
            "add table hostport",
            "add chain masquerade postrouting { type nat hook postrouting priority srcnat; policy accept; }",
            "add chain masquerade outside_10.1.2.0/24",
            "add chain hostport conditions",
            "add chain hostport duplicates",
            "add chain hostport hostports",
            "add chain hostport prerouting { type nat hook prerouting priority dstnat; policy accept; }",
            "add chain hostport output { type nat hook output priority -100; policy accept; }",
            "add chain hostport from_10.1.2.0/24_0x2000",
            "add chain hostport masquerade_0x2000 { type nat hook postrouting priority srcnat; policy accept; }",
            "add set masquerade attachments { type ifname; }",
            "add map masquerade pods { type ipv4_addr : verdict; }",
            "add set hostport attachments { type ifname; }",
            "add map hostport address_sources { type ipv4_addr . inet_proto . inet_service : verdict; }",
            "add map hostport address_ports { type ipv4_addr . inet_proto . inet_service : ipv4_addr . inet_service; }",
            "add map hostport sources { type inet_proto . inet_service : verdict; }",
            "add map hostport ports { type inet_proto . inet_service : ipv4_addr . inet_service; }",
            "add element hostport address_ports { 192.168.77.1 . udp . 53 comment \"C\" : 10.1.2.2 . 80 }",
            "add element hostport address_sources { 192.168.77.1 . udp . 53 comment \"C\" : jump from_10.1.2.0/24_0x2000 }",
            "add element hostport attachments { \"a28e751a81da1c6\" comment \"C\" }",
            "add element hostport ports { tcp . 8080 comment \"C\" : 10.1.2.2 . 80 }",
            "add element hostport sources { tcp . 8080 comment \"C\" : jump from_10.1.2.0/24_0x2000 }",
            "add element masquerade attachments { \"a28e751a81da1c6\" comment \"C\" }",
            "add element masquerade pods { 10.1.2.2 comment \"C\" : jump outside_10.1.2.0/24 }",
            "add rule masquerade postrouting ip daddr != 224.0.0.0/4 ip saddr vmap @pods",
            "add rule masquerade outside_10.1.2.0/24 ip daddr != 10.1.2.0/24 masquerade",
            "add rule hostport hostports jump conditions",
            "add rule hostport hostports ip daddr . meta l4proto . th dport vmap @address_sources",
            "add rule hostport hostports dnat ip to ip daddr . meta l4proto . th dport map @address_ports",
            "add rule hostport hostports meta l4proto . th dport vmap @sources",
            "add rule hostport hostports dnat ip to meta l4proto . th dport map @ports",
            "add rule hostport hostports jump duplicates",
            "add rule hostport prerouting fib daddr type local jump hostports",
            "add rule hostport output fib daddr type local jump hostports",
            "add rule hostport from_10.1.2.0/24_0x2000 ip saddr 10.1.2.0/24 meta mark set meta mark | 0x00002000",
            "add rule hostport from_10.1.2.0/24_0x2000 ip saddr 127.0.0.1 meta mark set meta mark | 0x00002000",
            "add rule hostport masquerade_0x2000 meta mark & 0x00002000 == 0x00002000 masquerade",
        ];
        assert_eq!(lines, expected);
        let v6 = lines_with(&["element ip6"])
            .join("\n")
            .replace(COMMENT, "C");
        for line in [
            " pods { fd00::2 comment \"C\" : jump outside_fd00__/64 }",
            " ports { tcp . 8080 comment \"C\" : fd00::2 . 80 }",
            " sources { tcp . 8080 comment \"C\" : jump from_fd00__/64_0x2000 }",
        ] {
            assert!(v6.contains(line), "{line}: {v6}");
        }
        assert!(!v6.contains("udp"), "{v6}");
        check_pod("cont1").unwrap();
        // The helper's own test: nothing gets lost on its way.
        let whole = ruleset();
        put(&whole);
        expect(&whole, "");
        check_pod("cont1").unwrap();
    });
}

#[test]
fn thirty_two_first_adds_make_each_shared_object_once() {
    in_namespace(|| {
        let ids: Vec<_> = (0..32_u16).map(|i| (format!("pod{i}"), i)).collect();
        std::thread::scope(|scope| {
            for (id, number) in &ids {
                scope.spawn(|| add_other_pod(id, *number));
            }
        });
        let lines = ruleset();
        for (objects, count) in [("add table", 4), ("add chain", 18), ("add rule", 25)] {
            let found = lines.iter().filter(|line| line.starts_with(objects));
            assert_eq!(found.count(), count, "{objects}");
        }
        // Of each family: known twice, an address; two ports, each with its sources.
        let elements = lines.iter().filter(|line| line.starts_with("add element"));
        assert_eq!(elements.count(), 32 * 2 * (2 + 1 + 2 + 2));
        std::thread::scope(|scope| {
            for (id, number) in &ids {
                scope.spawn(|| {
                    check_other_pod(id, *number).unwrap();
                    delete_pod(id);
                });
            }
        });
        assert_eq!(lines_with(&["add element"]), [""; 0]);
        assert_eq!(lines_with(&["add rule"]).len(), 25);
    });
}

#[test]
fn a_second_add_replaces_the_first() {
    in_namespace(|| {
        add_other_pod("other", 7);
        let before = ruleset();
        add_pod("cont1");
        let addresses = nets(&["10.1.2.99/24"]);
        let mappings = [mapping(9090, Protocol::Tcp, "")];
        let ports = ports(&mappings, &addresses);
        masquerade::add(Nftables, owner("cont1"), &addresses).unwrap();
        hostport::add(Nftables, owner("cont1"), &ports).unwrap();
        masquerade::check(Nftables, owner("cont1"), &addresses).unwrap();
        hostport::check(Nftables, owner("cont1"), &ports).unwrap();
        // It has no address of the other family any more.
        assert_eq!(lines_with(&[HASH]).len(), 5);
        assert_eq!(lines_with(&["8080", "10.1.2.2 ", "fd00::2 "]), [""; 0]);
        // Nor has it one of this, after a third.
        let v6 = nets(&["fd00::9/64"]);
        masquerade::add(Nftables, owner("cont1"), &v6).unwrap();
        assert_eq!(lines_with(&["10.1.2.99 comment"]), [""; 0]);
        delete_pod("cont1");
        expect(&before, "");
        check_other_pod("other", 7).unwrap();
    });
}

#[test]
fn the_next_add_repairs_what_is_shared() {
    in_namespace(|| {
        add_other_pod("other", 7);
        let whole = ruleset();
        for line in whole.iter().filter(|line| line.starts_with("add rule")) {
            let mut without = whole.clone();
            without.retain(|other| other != line);
            put(&without);
            add_pod("cont1");
            check_pod("cont1").unwrap();
            check_other_pod("other", 7).unwrap();
            delete_pod("cont1");
            expect(&whole, line);
        }
        // As firewalld's reload may do.
        put(&[]);
        assert!(matches!(
            check_other_pod("other", 7),
            Err(Error::Missing(_))
        ));
        add_pod("cont1");
        check_pod("cont1").unwrap();
        assert!(matches!(
            check_other_pod("other", 7),
            Err(Error::Missing(_))
        ));
        add_other_pod("other", 7);
        check_other_pod("other", 7).unwrap();
    });
}

#[test]
fn foreign_rules_in_front_are_put_behind() {
    in_namespace(|| {
        add_other_pod("other", 7);
        let whole = ruleset();
        nft("insert rule ip cni_lite_hostport hostports return");
        assert!(matches!(
            check_other_pod("other", 7),
            Err(Error::Missing(_))
        ));
        add_pod("cont1");
        delete_pod("cont1");
        expect(&whole, "");
        nft("add rule ip cni_lite_hostport hostports return");
        check_other_pod("other", 7).unwrap();
    });
}

#[test]
fn another_mark_bit_gets_chains_of_its_own() {
    in_namespace(|| {
        let addresses = nets(&["10.1.2.2/24", "fd00::2/64"]);
        for (id, bit, port) in [("a", 13, 1), ("b", 0, 2), ("c", 30, 3), ("d", 0, 4)] {
            let mappings = [mapping(port, Protocol::Tcp, "")];
            let mut ports = ports(&mappings, &addresses);
            ports.mark = Mark::Bit(bit);
            hostport::add(Nftables, owner(id), &ports).unwrap();
            hostport::check(Nftables, owner(id), &ports).unwrap();
        }
        for mark in ["0x00002000", "0x00000001", "0x40000000"] {
            assert_eq!(lines_with(&[&format!("meta mark | {mark}")]).len(), 3);
            assert_eq!(lines_with(&[&format!("== {mark} masquerade")]).len(), 2);
        }
        let without = Mapping {
            host_port: 5,
            ..mapping(5, Protocol::Tcp, "")
        };
        let mut plain = ports(std::slice::from_ref(&without), &addresses);
        plain.snat = false;
        hostport::add(Nftables, owner("e"), &plain).unwrap();
        hostport::check(Nftables, owner("e"), &plain).unwrap();
        assert_eq!(lines_with(&["sources { tcp . 5 "]), [""; 0]);
        let mut all = ports(std::slice::from_ref(&without), &addresses);
        all.masq_all = true;
        hostport::add(Nftables, owner("e"), &all).unwrap();
        hostport::check(Nftables, owner("e"), &all).unwrap();
        assert_eq!(lines_with(&[": jump from_anywhere_0x2000"]).len(), 2);
    });
}

#[test]
fn conditions_are_of_one_pod_alone() {
    in_namespace(|| {
        let words = |texts: &[&str]| {
            texts
                .iter()
                .map(|text| (*text).to_owned())
                .collect::<Vec<_>>()
        };
        let mappings = [mapping(8080, Protocol::Tcp, "")];
        let [one, two, third] =
            ["10.1.2.2/24", "10.1.2.3/24", "10.1.2.4/24"].map(|net| nets(&[net]));
        let first_words = words(&["ip saddr != 192.0.2.0/24", "iifname eth0"]);
        let second_words = words(&["ip", "saddr", "192.0.2.7"]);
        let mut first = ports(&mappings, &one);
        first.conditions_v4 = &first_words;
        let mut second = ports(&mappings, &two);
        second.conditions_v4 = &second_words;
        let third = ports(&mappings, &third);
        for (id, ports) in [("a", &first), ("b", &second), ("c", &third)] {
            hostport::add(Nftables, owner(id), ports).unwrap();
        }
        for (id, ports) in [("a", &first), ("b", &second), ("c", &third)] {
            hostport::check(Nftables, owner(id), ports).unwrap();
        }
        let rules: Vec<_> = lines_with(&["add rule ip cni_lite_hostport conditions"])
            .iter()
            .map(|line| line.split(" conditions ").nth(1).unwrap().to_owned())
            .map(|line| line.split(" comment ").next().unwrap().to_owned())
            .collect();
        let (not, only) = (
            "ip saddr != 192.0.2.0/24 iifname \"eth0\"",
            "ip saddr 192.0.2.7",
        );
        let expected = [
            format!("{not} tcp dport 8080 jump from_10.1.2.0/24_0x2000"),
            format!("{not} tcp dport 8080 dnat to 10.1.2.2:80"),
            format!("{only} tcp dport 8080 jump from_10.1.2.0/24_0x2000"),
            format!("{only} tcp dport 8080 dnat to 10.1.2.3:80"),
        ];
        assert_eq!(rules, expected);
        // Another address, and other conditions: neither the old rules nor others' are confused.
        second.conditions_v4 = &first_words;
        assert!(hostport::check(Nftables, owner("b"), &second).is_err());
        hostport::add(Nftables, owner("b"), &second).unwrap();
        hostport::check(Nftables, owner("b"), &second).unwrap();
        assert_eq!(lines_with(&[only]), [""; 0]);
        let removed = hostport::delete(owner("a"), &[], true).unwrap();
        assert_eq!(removed, [(Family::V4, mappings[0])]);
        hostport::check(Nftables, owner("b"), &second).unwrap();
        hostport::check(Nftables, owner("c"), &third).unwrap();
    });
}

#[test]
fn a_port_that_another_pod_has_comes_into_effect_after_it() {
    in_namespace(|| {
        let (addresses, mappings) = crate::pod();
        let ports = ports(&mappings, &addresses);
        let check = |id| hostport::check(Nftables, owner(id), &ports);
        for id in ["first", "second", "second"] {
            hostport::add(Nftables, owner(id), &ports).unwrap();
        }
        check("first").unwrap();
        check("second").unwrap();
        let dnat = |line: &&String| line.contains("dnat to") && line.contains(" duplicates ");
        let whole = ruleset();
        assert_eq!(whole.iter().filter(dnat).count(), 3);
        let udp = "duplicates ip daddr 192.168.77.1 udp dport 53 dnat to 10.1.2.2:80";
        assert_eq!(lines_with(&[udp]).len(), 1);
        // Each rule of the second is needed. ("add chain" has nothing behind the name.)
        for line in whole.iter().filter(|line| line.contains(" duplicates ")) {
            let mut without = whole.clone();
            without.retain(|other| other != line);
            put(&without);
            assert!(matches!(check("second"), Err(Error::Missing(_))), "{line}");
        }
        put(&whole);
        hostport::delete(owner("first"), &[], true).unwrap();
        check("second").unwrap();
        let mut removed = hostport::delete(owner("second"), &[], true).unwrap();
        removed.sort_by_key(|(family, mapping)| (*family != Family::V4, mapping.host_port));
        let expected = [
            (Family::V4, mappings[1]),
            (Family::V4, mappings[0]),
            (Family::V6, mappings[0]),
        ];
        assert_eq!(removed, expected);
        assert_eq!(lines_with(&["add element", "dport 8080"]), [""; 0]);
    });
}

#[test]
fn an_address_belongs_to_who_had_it_last() {
    in_namespace(|| {
        // Never deleted, and its network was another one.
        masquerade::add(Nftables, owner("gone"), &nets(&["10.1.2.2/8"])).unwrap();
        let addresses = nets(&["10.1.2.2/24"]);
        masquerade::add(Nftables, owner("cont1"), &addresses).unwrap();
        masquerade::check(Nftables, owner("cont1"), &addresses).unwrap();
        masquerade::delete(owner("gone"), &[], true).unwrap();
        masquerade::check(Nftables, owner("cont1"), &addresses).unwrap();
        assert_eq!(lines_with(&["jump outside_10.0.0.0/8"]), [""; 0]);
    });
}

#[test]
fn networks_of_all_shapes() {
    in_namespace(|| {
        for addresses in [
            nets(&["10.2.0.1/0", "10.1.2.2/24", "10.1.2.3/24", "fd00::2/0"]),
            nets(&["10.1.2.2/32", "fd00::2/128"]),
            nets(&["10.1.2.2/24", "10.1.2.2/16", "fd00::2/64", "fd01::2/64"]),
            nets(&["127.1.2.3/8"]),
        ] {
            let mappings = [mapping(8080, Protocol::Sctp, "0.0.0.0")];
            let ports = ports(&mappings, &addresses);
            masquerade::add(Nftables, owner("cont1"), &addresses).unwrap();
            masquerade::check(Nftables, owner("cont1"), &addresses).unwrap();
            hostport::add(Nftables, owner("cont1"), &ports).unwrap();
            hostport::check(Nftables, owner("cont1"), &ports).unwrap();
        }
    });
}

#[test]
fn odd_names_are_found_again() {
    in_namespace(|| {
        let addresses = nets(&["10.1.2.2/24"]);
        let mappings = [
            mapping(8080, Protocol::Sctp, ""),
            mapping(8080, Protocol::Sctp, ""),
        ];
        let long = "ü".repeat(300);
        for (network, id) in [
            ("n", long.as_str()),
            (&long, "id"),
            ("a\"b\\c'd\n\u{1}", "x\""),
        ] {
            let owner = Owner {
                network,
                container_id: id,
                ifname: "net1",
            };
            masquerade::add(Nftables, owner, &addresses).unwrap();
            masquerade::check(Nftables, owner, &addresses).unwrap();
            hostport::add(Nftables, owner, &ports(&mappings, &addresses)).unwrap();
            hostport::check(Nftables, owner, &ports(&mappings, &addresses)).unwrap();
            masquerade::delete(owner, &[], true).unwrap();
            assert_eq!(hostport::delete(owner, &[], true).unwrap().len(), 1);
            assert_eq!(lines_with(&["add element"]), [""; 0]);
        }
    });
}

#[test]
fn a_refused_add_leaves_nothing() {
    in_namespace(|| {
        // The second family cannot be done: its map has other keys.
        nft("add table ip6 cni_lite_hostport\n\
             add map ip6 cni_lite_hostport ports { type ipv6_addr : ipv6_addr; }");
        let before = ruleset();
        let (addresses, mappings) = crate::pod();
        let ports = ports(&mappings, &addresses);
        match hostport::add(Nftables, owner("cont1"), &ports) {
            Err(Error::Io { command, .. }) => assert_eq!(command, "nftables: add"),
            other => panic!("{other:?}"),
        }
        expect(&before, "");
    });
}

#[test]
fn what_cannot_be_done_is_refused_before() {
    in_bare_namespace(|| {
        let addresses = nets(&["10.1.2.2/24"]);
        let mappings = [mapping(8080, Protocol::Tcp, "")];
        let mut chain = ports(&mappings, &addresses);
        chain.mark = Mark::Chain("KUBE-MARK-MASQ");
        let words = ["tcp sport 1".to_owned()];
        let mut condition = ports(&mappings, &addresses);
        condition.conditions_v6 = &words;
        for (ports, text) in [(chain, "KUBE-MARK-MASQ"), (condition, "tcp")] {
            match hostport::preflight(Nftables, &ports) {
                Err(Error::Unsupported(said)) => assert!(said.contains(text), "{said}"),
                other => panic!("{other:?}"),
            }
        }
        hostport::preflight(Nftables, &ports(&mappings, &addresses)).unwrap();
        masquerade::ready(Nftables)
            .unwrap()
            .expect(&addresses)
            .unwrap();
    });
}

#[test]
fn a_thousand_ports_are_one_transaction() {
    in_namespace(|| {
        if is_ordinary_user() {
            return lab::skip("an ordinary user's batches have less than half a megabyte");
        }
        let addresses = nets(&["10.1.2.2/24", "fd00::2/64"]);
        let mappings: Vec<_> = (1..=1000)
            .map(|port| mapping(port, Protocol::Tcp, if port % 2 == 0 { "" } else { "::" }))
            .chain((1..=1000).map(|port| mapping(port, Protocol::Udp, "192.0.2.1")))
            .collect();
        let ports = ports(&mappings, &addresses);
        for _ in 0..2 {
            hostport::add(Nftables, owner("cont1"), &ports).unwrap();
            hostport::check(Nftables, owner("cont1"), &ports).unwrap();
        }
        let removed = hostport::delete(owner("cont1"), &[], true).unwrap();
        assert_eq!(removed.len(), 1000 + 500 + 1000);
        assert_eq!(lines_with(&["add element"]), [""; 0]);
    });
}

#[test]
fn a_node_without_iptables_chooses_nftables() {
    in_bare_namespace(|| {
        hide_tools();
        assert_eq!(Backend::of_node(), Nftables);
        // Who may not even ask the kernel misses the programs by name.
        if nix::unistd::setuid(nix::unistd::Uid::from_raw(65534)).is_ok() {
            assert_eq!(Backend::of_node(), Backend::Iptables);
        }
    });
}

#[test]
fn a_node_with_iptables_chooses_it() {
    crate::common::in_namespace(|| assert_eq!(Backend::of_node(), Backend::Iptables));
}

#[test]
fn an_add_by_the_other_backend_replaces() {
    let Some(_) = lab::find_tool("nft") else {
        return lab::skip("nft is not installed");
    };
    crate::common::in_namespace(|| {
        let nft = lab::find_tool("nft").unwrap().display().to_string();
        let of_nftables = || crate::common::run(&nft, &["list", "ruleset"], "").contains(HASH);
        let of_iptables = || {
            let chains = [crate::DN, crate::MASQ];
            ["iptables", "ip6tables"].map(|tool| !rules_with(tool, &chains).is_empty())
        };
        crate::add_pod("other");
        add_other_pod("another", 7);
        crate::add_pod("cont1");
        assert_eq!((of_iptables(), of_nftables()), ([true; 2], false));
        add_pod("cont1");
        assert_eq!((of_iptables(), of_nftables()), ([false; 2], true));
        check_pod("cont1").unwrap();
        crate::add_pod("cont1");
        assert_eq!((of_iptables(), of_nftables()), ([true; 2], false));
        crate::check_pod("cont1").unwrap();
        crate::check_pod("other").unwrap();
        check_other_pod("another", 7).unwrap();
        add_pod("cont1");
        delete_pod("cont1");
        assert_eq!((of_iptables(), of_nftables()), ([false; 2], false));
        crate::check_pod("other").unwrap();
        check_other_pod("another", 7).unwrap();
    });
}
