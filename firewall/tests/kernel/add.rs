//! What ADD makes.

use firewall::Backend::Iptables;
use firewall::hostport::{self, Mark, Protocol};
use firewall::{Error, Owner, masquerade};

use crate::common::{
    count_runs, in_namespace, is_ordinary_user, mapping, nets, owner, ports, put, rules_with, run,
    runs, save, script, tools,
};
use crate::{COMMENT, DN, DNAT_COMMENT, MASQ, add_pod, check_pod, delete_pod};

#[test]
fn what_is_sent_prints_byte_for_byte() {
    in_namespace(|| {
        add_pod("cont1");
        let lines: Vec<_> = save("iptables")
            .iter()
            .filter(|line| line.starts_with("-A"))
            .map(|line| line.replace(DN, "DN").replace(MASQ, "MASQ"))
            .map(|line| line.replace(DNAT_COMMENT, "DC").replace(COMMENT, "C"))
            .collect();
        let mut expected = vec![
            "-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT",
            "-A OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT",
            "-A POSTROUTING -m comment --comment \"CNI portfwd requiring masquerade\" \
             -j CNI-HOSTPORT-MASQ",
            "-A POSTROUTING -s 10.1.2.2/32 -m comment C -j MASQ",
            "-A MASQ -d 10.1.2.0/24 -m comment C -j ACCEPT",
            "-A MASQ ! -d 224.0.0.0/4 -m comment C -j MASQUERADE",
            "-A DN -s 10.1.2.0/24 -p tcp -m tcp --dport 8080 -j CNI-HOSTPORT-SETMARK",
            "-A DN -s 127.0.0.1/32 -p tcp -m tcp --dport 8080 -j CNI-HOSTPORT-SETMARK",
            "-A DN -p tcp -m tcp --dport 8080 -j DNAT --to-destination 10.1.2.2:80",
            "-A DN -s 10.1.2.0/24 -d 192.168.77.1/32 -p udp -m udp --dport 53 \
             -j CNI-HOSTPORT-SETMARK",
            "-A DN -s 127.0.0.1/32 -d 192.168.77.1/32 -p udp -m udp --dport 53 \
             -j CNI-HOSTPORT-SETMARK",
            "-A DN -d 192.168.77.1/32 -p udp -m udp --dport 53 \
             -j DNAT --to-destination 10.1.2.2:80",
            "-A CNI-HOSTPORT-DNAT -p tcp -m comment DC -m multiport --dports 8080 -j DN",
            "-A CNI-HOSTPORT-DNAT -p udp -m comment DC -m multiport --dports 53 -j DN",
            "-A CNI-HOSTPORT-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE",
            "-A CNI-HOSTPORT-SETMARK -m comment --comment \"CNI portfwd masquerade mark\" \
             -j MARK --set-xmark 0x2000/0x2000",
        ];
        // The variants list chains in different orders; within a chain the order counts.
        let by_chain = |lines: &mut Vec<&str>| {
            lines.sort_by_key(|line| line.split(' ').nth(1).map(str::to_owned));
        };
        let mut lines: Vec<_> = lines.iter().map(String::as_str).collect();
        by_chain(&mut lines);
        by_chain(&mut expected);
        assert_eq!(lines, expected);
        let v6 = rules_with("ip6tables", &["--to-destination"]);
        assert_eq!(
            v6,
            [format!(
                "-A {DN} -p tcp -m tcp --dport 8080 -j DNAT --to-destination [fd00::2]:80"
            )]
        );
        check_pod("cont1").unwrap();
    });
}

#[test]
fn odd_names_print_byte_for_byte() {
    in_namespace(|| {
        let addresses = nets(&["10.1.2.2/24"]);
        let mappings = [mapping(8080, Protocol::Sctp, "")];
        for network in ["n".repeat(300), "a\"b\\c'd\n\u{1}".to_owned()] {
            let owner = Owner {
                network: &network,
                container_id: "id",
                ifname: "net1",
            };
            masquerade::add(Iptables, owner, &addresses).unwrap();
            masquerade::check(Iptables, owner, &addresses).unwrap();
            hostport::add(Iptables, owner, &ports(&mappings, &addresses)).unwrap();
            hostport::check(Iptables, owner, &ports(&mappings, &addresses)).unwrap();
            masquerade::delete(owner, &[], true).unwrap();
            assert_eq!(hostport::delete(owner, &[], true).unwrap().len(), 1);
        }
        assert_eq!(
            rules_with("iptables", &["CNI-DN-", "ACCEPT -", "name"]),
            [""; 0]
        );
    });
}

#[test]
fn thirty_two_first_adds_make_each_shared_object_once() {
    in_namespace(|| {
        let ids: Vec<_> = (0..32).map(|i| format!("pod{i}")).collect();
        std::thread::scope(|scope| {
            for id in &ids {
                scope.spawn(|| add_pod(id));
            }
        });
        for program in ["iptables", "ip6tables"] {
            let rules = save(program);
            let count = |text: &str| rules.iter().filter(|line| line.contains(text)).count();
            assert_eq!(count("--dst-type LOCAL -j CNI-HOSTPORT-DNAT"), 2);
            assert_eq!(count("-j CNI-HOSTPORT-MASQ"), 1);
            assert_eq!(count("-j MARK"), 1);
            assert_eq!(count("--mark 0x2000/0x2000"), 1);
            assert_eq!(count("-A CNI-HOSTPORT-DNAT"), 64);
            assert_eq!(count("-A POSTROUTING -s"), 32);
            let postrouting = rules.iter().find(|line| line.starts_with("-A POSTROUTING"));
            assert!(postrouting.unwrap().ends_with("-j CNI-HOSTPORT-MASQ"));
        }
        std::thread::scope(|scope| {
            for id in &ids {
                scope.spawn(|| {
                    check_pod(id).unwrap();
                    delete_pod(id);
                });
            }
        });
        for program in ["iptables", "ip6tables"] {
            assert_eq!(
                rules_with(program, &["CNI-DN-", "-s 10.1.2.2", "name"]),
                [""; 0]
            );
        }
    });
}

#[test]
fn a_second_add_replaces_the_first() {
    in_namespace(|| {
        add_pod("other");
        let before = [save("iptables"), save("ip6tables")];
        add_pod("cont1");
        let addresses = nets(&["10.9.0.9/16"]);
        let mappings = [mapping(9090, Protocol::Tcp, "")];
        let ports = ports(&mappings, &addresses);
        masquerade::add(Iptables, owner("cont1"), &addresses).unwrap();
        hostport::add(Iptables, owner("cont1"), &ports).unwrap();
        masquerade::check(Iptables, owner("cont1"), &addresses).unwrap();
        hostport::check(Iptables, owner("cont1"), &ports).unwrap();
        assert_eq!(
            rules_with(
                "iptables",
                &["10.1.2.2/32 -m comment --comment \"name: \\\"mynet\\\" id: \\\"cont1"]
            ),
            [""; 0]
        );
        assert_eq!(rules_with("iptables", &["-A CNI-HOSTPORT-DNAT"]).len(), 3);
        // It has no address of that family any more.
        assert_eq!(save("ip6tables"), before[1]);
        delete_pod("cont1");
        assert_eq!(save("iptables"), before[0]);
    });
}

#[test]
fn the_next_add_repairs_what_is_shared() {
    in_namespace(|| {
        add_pod("other");
        let whole = save("iptables");
        let shared = |line: &&String| line.contains("HOSTPORT") && !line.contains("CNI-DN-");
        for line in whole.iter().filter(|l| l.starts_with("-A")).filter(shared) {
            let without: Vec<_> = whole.iter().filter(|l| *l != line).cloned().collect();
            put("iptables", &without);
            add_pod("cont1");
            check_pod("cont1").unwrap();
            check_pod("other").unwrap();
            delete_pod("cont1");
            assert_eq!(save("iptables").len(), whole.len(), "{line}");
        }
    });
}

#[test]
fn another_mark_bit_gets_rules_of_its_own() {
    in_namespace(|| {
        let addresses = nets(&["10.1.2.2/24", "fd00::2/64"]);
        let mappings = [mapping(8080, Protocol::Tcp, "")];
        for (id, bit) in [("a", 13), ("b", 0), ("c", 13), ("d", 0)] {
            let mut ports = ports(&mappings, &addresses);
            ports.mark = Mark::Bit(bit);
            hostport::add(Iptables, owner(id), &ports).unwrap();
            hostport::check(Iptables, owner(id), &ports).unwrap();
            for program in ["iptables", "ip6tables"] {
                let both = if id == "a" { 2 } else { 4 };
                let marks = rules_with(program, &["0x2000/0x2000", "0x1/0x1"]);
                assert_eq!(marks.len(), both);
                assert_eq!(rules_with(program, &["-j CNI-HOSTPORT-MASQ"]).len(), 1);
                if id == "c" {
                    // The rule of the other bit must not be taken for the one that "d" needs.
                    let gone = "-D CNI-HOSTPORT-MASQ -m mark --mark 0x1/0x1 -j MASQUERADE";
                    let batch = format!("*nat\n{gone}\nCOMMIT\n");
                    run(&format!("{program}-restore"), &["--noflush"], &batch);
                }
            }
        }
    });
}

#[test]
fn a_refused_add_leaves_nothing() {
    in_namespace(|| {
        add_pod("other");
        let before = [save("iptables"), save("ip6tables")];
        let addresses = nets(&["10.1.2.3/24", "fd00::3/64"]);
        let mappings = [mapping(8080, Protocol::Tcp, "")];
        let bogus = ["--no-such-option".to_owned()];
        let mut v4 = ports(&mappings, &addresses);
        v4.conditions_v4 = &bogus;
        let mut v6 = ports(&mappings, &addresses);
        v6.conditions_v6 = &bogus;
        for ports in [v4, v6] {
            match hostport::add(Iptables, owner("cont1"), &ports) {
                Err(Error::Refused { stderr, .. }) => assert!(stderr.contains("no-such-option")),
                other => panic!("{other:?}"),
            }
            assert_eq!([save("iptables"), save("ip6tables")], before);
        }
    });
}

#[test]
fn a_foreign_mark_chain_must_be_there_first() {
    in_namespace(|| {
        let addresses = nets(&["10.1.2.2/24"]);
        let mappings = [mapping(8080, Protocol::Tcp, "")];
        let mut ports = ports(&mappings, &addresses);
        ports.mark = Mark::Chain("KUBE-MARK-MASQ");
        match hostport::preflight(Iptables, &ports) {
            Err(Error::Missing(text)) => assert!(text.contains("KUBE-MARK-MASQ"), "{text}"),
            other => panic!("{other:?}"),
        }
        run("iptables", &["-t", "nat", "-N", "KUBE-MARK-MASQ"], "");
        hostport::preflight(Iptables, &ports).unwrap();
        hostport::add(Iptables, owner("cont1"), &ports).unwrap();
        hostport::check(Iptables, owner("cont1"), &ports).unwrap();
        assert_eq!(rules_with("iptables", &["-j KUBE-MARK-MASQ"]).len(), 2);
        assert_eq!(rules_with("iptables", &["CNI-HOSTPORT-SETMARK"]), [""; 0]);
    });
}

#[test]
fn a_resource_problem_is_tried_again() {
    in_namespace(|| {
        let restore = tools().join("iptables-restore");
        let real = tools().join("real").join("iptables-restore");
        std::fs::create_dir(real.parent().unwrap()).unwrap();
        std::fs::rename(&restore, &real).unwrap();
        // Fails three times: the first batch, and twice what comes after it.
        let count = tools().join("count");
        let script_text = format!(
            "[ $(wc -l < {}) -gt 3 ] || exit 4\nexec {} \"$@\"",
            count.display(),
            real.display()
        );
        script(&restore, &script_text);
        let addresses = nets(&["10.1.2.2/24"]);
        masquerade::add(Iptables, owner("cont1"), &addresses).unwrap();
        assert_eq!(runs(), 4);
        masquerade::check(Iptables, owner("cont1"), &addresses).unwrap();
    });
}

/// All that is to be done goes to a program in one batch.
#[test]
fn the_number_of_processes_does_not_grow_with_the_ports() {
    in_namespace(|| {
        count_runs();
        let addresses = nets(&["10.1.2.2/24", "fd00::2/64"]);
        let runs_of = |count: u16| {
            let mappings: Vec<_> = (1..=count)
                .map(|port| mapping(port, Protocol::Tcp, ""))
                .collect();
            let ports = ports(&mappings, &addresses);
            let before = runs();
            hostport::add(Iptables, owner("cont1"), &ports).unwrap();
            let added = runs();
            hostport::check(Iptables, owner("cont1"), &ports).unwrap();
            let checked = runs();
            let removed = hostport::delete(owner("cont1"), &[], true).unwrap();
            assert_eq!(removed.len(), usize::from(count) * 2);
            [added - before, checked - added, runs() - checked]
        };
        // What is shared comes with the first.
        runs_of(1);
        // The kernel takes only small batches from an ordinary user.
        let many = if is_ordinary_user() { 100 } else { 1000 };
        assert_eq!(runs_of(many), runs_of(1));
    });
}

const BUILT_IN: [&str; 3] = ["PREROUTING", "OUTPUT", "POSTROUTING"];

/// A rule of somebody else's, of that number, at the end of each built-in chain or out of it.
fn foreign(change: &str, number: u8) {
    let number = number.to_string();
    for chain in BUILT_IN {
        let words = format!("-t nat {change} {chain} -p tcp --dport {number} -j RETURN");
        run("iptables", &words.split(' ').collect::<Vec<_>>(), "");
    }
}

#[test]
fn rules_of_others_keep_their_places() {
    in_namespace(|| {
        let others = || rules_with("iptables", &["-j RETURN"]);
        let expected = |last: u8| -> Vec<_> {
            let rules = BUILT_IN.iter().flat_map(|chain| {
                (1..=last).map(move |n| format!("-A {chain} -p tcp -m tcp --dport {n} -j RETURN"))
            });
            rules.collect()
        };
        // In front of what is shared, behind it, and behind what is a pod's.
        foreign("-A", 1);
        add_pod("other");
        foreign("-A", 2);
        let before = save("iptables");
        add_pod("cont1");
        foreign("-A", 3);
        assert_eq!(others(), expected(3));
        delete_pod("cont1");
        assert_eq!(others(), expected(3));
        foreign("-D", 3);
        assert_eq!(save("iptables"), before);
        // Nor does a repair move them.
        for chain in ["PREROUTING", "OUTPUT"] {
            let jump =
                format!("-t nat -D {chain} -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT");
            run("iptables", &jump.split(' ').collect::<Vec<_>>(), "");
            add_pod("cont1");
            delete_pod("cont1");
            check_pod("other").unwrap();
            assert_eq!(others(), expected(2), "{chain}");
        }
    });
}
