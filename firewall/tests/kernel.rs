//! Rules in the kernel, with both variants of iptables.

// The helpers of a test fail as it does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::*;
use firewall::hostport::{self, Mark, Protocol};
use firewall::{Error, Family, Owner, masquerade};

const DN: &str = "CNI-DN-c729ec77c46fa9b53d651";
const MASQ: &str = "CNI-c729ec77c46fa9b53d651af8";
const COMMENT: &str = r#"--comment "name: \"mynet\" id: \"cont1\"""#;
const DNAT_COMMENT: &str = r#"--comment "dnat name: \"mynet\" id: \"cont1\"""#;

/// All that a test needs of a pod with both kinds of rules.
fn add_pod(id: &str) {
    let addresses = nets(&["10.1.2.2/24", "fd00::2/64"]);
    let mappings = [
        mapping(8080, Protocol::Tcp, ""),
        mapping(53, Protocol::Udp, "192.168.77.1"),
    ];
    masquerade::add(owner(id), &addresses).unwrap();
    hostport::add(owner(id), &ports(&mappings, &addresses)).unwrap();
}

fn check_pod(id: &str) -> firewall::Result<()> {
    let addresses = nets(&["10.1.2.2/24", "fd00::2/64"]);
    let mappings = [
        mapping(8080, Protocol::Tcp, ""),
        mapping(53, Protocol::Udp, "192.168.77.1"),
    ];
    masquerade::check(owner(id), &addresses)?;
    hostport::check(owner(id), &ports(&mappings, &addresses))
}

fn delete_pod(id: &str) {
    masquerade::delete(owner(id), true).unwrap();
    hostport::delete(owner(id), &[], true).unwrap();
}

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
            masquerade::add(owner, &addresses).unwrap();
            masquerade::check(owner, &addresses).unwrap();
            hostport::add(owner, &ports(&mappings, &addresses)).unwrap();
            hostport::check(owner, &ports(&mappings, &addresses)).unwrap();
            masquerade::delete(owner, true).unwrap();
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
fn four_deletes_of_one_pod_at_once_all_succeed() {
    in_namespace(|| {
        add_pod("cont1");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| delete_pod("cont1"));
            }
        });
        assert_eq!(rules_with("iptables", &[DN, MASQ]), [""; 0]);
        delete_pod("cont1");
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
        masquerade::add(owner("cont1"), &addresses).unwrap();
        hostport::add(owner("cont1"), &ports).unwrap();
        masquerade::check(owner("cont1"), &addresses).unwrap();
        hostport::check(owner("cont1"), &ports).unwrap();
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
fn check_notices_each_line_that_is_gone() {
    in_namespace(|| {
        add_pod("other");
        add_pod("cont1");
        for program in ["iptables", "ip6tables"] {
            let whole = save(program);
            let ours = |line: &&String| {
                let names_ours = line.contains(DN) || line.contains(MASQ);
                let shared = line.contains("HOSTPORT") && !line.contains("CNI-DN-");
                line.starts_with("-A") && (names_ours || shared)
            };
            let lines: Vec<_> = whole.iter().filter(ours).collect();
            assert!(lines.len() >= 10, "{lines:?}");
            for line in lines {
                let without: Vec<_> = whole.iter().filter(|l| *l != line).cloned().collect();
                put(program, &without);
                match check_pod("cont1") {
                    Err(Error::Missing(text)) => assert!(text.contains(line.as_str()), "{text}"),
                    other => panic!("{line}: {other:?}"),
                }
                // An ADD of another pod repairs what is shared, and hurts nothing.
                put(program, &whole);
                check_pod("cont1").unwrap();
            }
        }
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
            hostport::add(owner(id), &ports).unwrap();
            hostport::check(owner(id), &ports).unwrap();
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
            match hostport::add(owner("cont1"), &ports) {
                Err(Error::Refused { stderr, .. }) => assert!(stderr.contains("no-such-option")),
                other => panic!("{other:?}"),
            }
            assert_eq!([save("iptables"), save("ip6tables")], before);
        }
    });
}

#[test]
fn conditions_are_obeyed_and_checked() {
    in_namespace(|| {
        let addresses = nets(&["10.1.2.2/24"]);
        let mappings = [mapping(8080, Protocol::Tcp, "")];
        let conditions = ["!", "-s", "192.0.2.0/24"].map(str::to_owned);
        let mut ports = ports(&mappings, &addresses);
        ports.conditions_v4 = &conditions;
        hostport::add(owner("cont1"), &ports).unwrap();
        let entry = rules_with("iptables", &["-A CNI-HOSTPORT-DNAT"]);
        assert_eq!(
            entry,
            [format!(
                "-A CNI-HOSTPORT-DNAT ! -s 192.0.2.0/24 -p tcp -m comment {DNAT_COMMENT} \
                 -m multiport --dports 8080 -j {DN}"
            )]
        );
        hostport::check(owner("cont1"), &ports).unwrap();
        let whole = save("iptables");
        for changed in ["", "192.0.3.0/24"] {
            let mut lines = whole.clone();
            lines.retain(|line| *line != entry[0]);
            if !changed.is_empty() {
                let other = entry[0].replace("192.0.2.0/24", changed);
                lines.insert(lines.len() - 1, other);
            }
            put("iptables", &lines);
            let missing = hostport::check(owner("cont1"), &ports);
            assert!(matches!(missing, Err(Error::Missing(_))), "{missing:?}");
        }
        hostport::add(owner("cont1"), &ports).unwrap();
        assert_eq!(rules_with("iptables", &["-A CNI-HOSTPORT-DNAT"]), entry);
    });
}

#[test]
fn a_foreign_mark_chain_must_be_there_first() {
    in_namespace(|| {
        let addresses = nets(&["10.1.2.2/24"]);
        let mappings = [mapping(8080, Protocol::Tcp, "")];
        let mut ports = ports(&mappings, &addresses);
        ports.mark = Mark::Chain("KUBE-MARK-MASQ");
        match hostport::preflight(&ports) {
            Err(Error::Missing(text)) => assert!(text.contains("KUBE-MARK-MASQ"), "{text}"),
            other => panic!("{other:?}"),
        }
        run("iptables", &["-t", "nat", "-N", "KUBE-MARK-MASQ"], "");
        hostport::preflight(&ports).unwrap();
        hostport::add(owner("cont1"), &ports).unwrap();
        hostport::check(owner("cont1"), &ports).unwrap();
        assert_eq!(rules_with("iptables", &["-j KUBE-MARK-MASQ"]).len(), 2);
        assert_eq!(rules_with("iptables", &["CNI-HOSTPORT-SETMARK"]), [""; 0]);
    });
}

#[test]
fn delete_returns_what_was_forwarded() {
    in_namespace(|| {
        add_pod("cont1");
        let mut found = hostport::delete(owner("cont1"), &[], false).unwrap();
        found.sort_by_key(|(family, mapping)| (*family != Family::V4, mapping.host_port));
        assert_eq!(
            found,
            [
                (Family::V4, mapping(53, Protocol::Udp, "192.168.77.1")),
                (Family::V4, mapping(8080, Protocol::Tcp, "")),
                (Family::V6, mapping(8080, Protocol::Tcp, "")),
            ]
        );
        assert_eq!(hostport::delete(owner("cont1"), &[], false).unwrap(), []);
    });
}

#[test]
fn delete_finds_the_other_variants_rules_too() {
    in_namespace(|| {
        if is_ordinary_user() {
            return lab::skip("the kernel tells an ordinary user nothing of legacy tables");
        }
        let (_, other) = variants();
        let Some(restore) = lab::find_tool(&format!("iptables-{other}-restore")) else {
            return lab::skip(&format!("iptables-{other} is not installed"));
        };
        add_pod("cont1");
        let dump = save("iptables").join("\n") + "\n";
        run(restore.to_str().unwrap(), &["-w", "5"], &dump);
        delete_pod("cont1");
        let other_save = restore.with_file_name(format!("iptables-{other}-save"));
        let left = run(other_save.to_str().unwrap(), &["-t", "nat"], "");
        assert!(!left.contains(DN) && !left.contains(MASQ), "{left}");
        assert!(left.contains("CNI-HOSTPORT-DNAT"));
        assert_eq!(rules_with("iptables", &[DN, MASQ]), [""; 0]);
    });
}

#[test]
fn delete_removes_what_the_reference_left() {
    in_namespace(|| {
        // Its first releases' chain beside the one of today.
        let legacy = "*nat\n:CNI-HOSTPORT-SNAT - [0:0]\n:CNI-SN-c729ec77c46fa9b53d651 - [0:0]\n\
             -A POSTROUTING -j CNI-HOSTPORT-SNAT\n\
             -A CNI-HOSTPORT-SNAT -m comment --comment x -j CNI-SN-c729ec77c46fa9b53d651\n\
             -A CNI-SN-c729ec77c46fa9b53d651 -s 127.0.0.1/32 -j MASQUERADE\nCOMMIT\n";
        run("iptables-restore", &["--noflush"], legacy);
        hostport::delete(owner("cont1"), &[], false).unwrap();
        assert_eq!(rules_with("iptables", &["CNI-SN-"]), [""; 0]);
        assert_eq!(rules_with("iptables", &["CNI-HOSTPORT-SNAT"]).len(), 2);

        // The reference has one chain for all interfaces: that of our eth0.
        add_pod("cont1");
        let whole = save("iptables");
        let second = Owner {
            ifname: "net1",
            ..owner("cont1")
        };
        for unsure in [nets(&[]), nets(&["10.1.2.9/24"])] {
            assert_eq!(hostport::delete(second, &unsure, true).unwrap(), []);
            assert_eq!(save("iptables"), whole);
        }
        let sure = nets(&["10.1.2.2/24", "fd00::2/64"]);
        assert_eq!(hostport::delete(second, &sure, true).unwrap().len(), 3);
        assert_eq!(rules_with("iptables", &[DN]), [""; 0]);
    });
}

#[test]
fn two_interfaces_of_one_pod_do_not_collide() {
    in_namespace(|| {
        add_pod("cont1");
        let before = save("iptables");
        let second = Owner {
            ifname: "net1",
            ..owner("cont1")
        };
        let addresses = nets(&["10.2.0.2/24"]);
        masquerade::add(second, &addresses).unwrap();
        check_pod("cont1").unwrap();
        masquerade::check(second, &addresses).unwrap();
        for _ in 0..2 {
            masquerade::delete(second, true).unwrap();
            assert_eq!(save("iptables"), before);
        }
    });
}

#[test]
fn where_nothing_is_no_process_is_started() {
    in_namespace(|| {
        for program in ["iptables", "ip6tables"] {
            for variant in ["", "-nft", "-legacy"] {
                for suffix in ["", "-restore"] {
                    script(
                        &tools().join(format!("{program}{variant}{suffix}")),
                        "exit 1",
                    );
                }
            }
        }
        // Of an ordinary user's legacy tables nobody knows without looking.
        let expected = !is_ordinary_user();
        masquerade::delete(owner("cont1"), expected).unwrap();
        hostport::delete(owner("cont1"), &[], expected).unwrap();
        assert_eq!(runs(), 0);
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
        masquerade::add(owner("cont1"), &addresses).unwrap();
        assert_eq!(runs(), 4);
        masquerade::check(owner("cont1"), &addresses).unwrap();
    });
}

#[test]
fn a_reader_that_fails_is_no_empty_table() {
    in_namespace(|| {
        let addresses = nets(&["10.1.2.2/24"]);
        masquerade::add(owner("cont1"), &addresses).unwrap();
        script(&tools().join("iptables"), "echo broken >&2\nexit 3");
        match masquerade::check(owner("cont1"), &addresses) {
            Err(Error::Refused { status, stderr, .. }) => {
                assert_eq!((status, stderr.as_str()), (3, "broken"));
            }
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn without_any_tool_delete_names_what_is_there() {
    in_namespace(|| {
        add_pod("cont1");
        let kept = save("iptables");
        std::fs::remove_dir_all(tools()).unwrap();
        for folder in ["/usr/sbin", "/sbin"] {
            let hidden = nix::mount::mount(
                Some("tmpfs"),
                folder,
                Some("tmpfs"),
                nix::mount::MsFlags::empty(),
                None::<&str>,
            );
            hidden.unwrap();
        }
        assert!(matches!(
            masquerade::preflight(&nets(&["10.1.2.2/24"])),
            Err(Error::NoTool("iptables"))
        ));
        let error = masquerade::delete(owner("cont1"), true)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(MASQ) && error.contains("iptables not found"),
            "{error}"
        );
        assert!(error.contains("IPv4") && error.contains("IPv6"), "{error}");
        // The legacy table cannot be asked: there it counts whether rules are expected.
        let unexpected = hostport::delete(owner("none"), &[], false);
        assert_eq!(unexpected.unwrap(), []);
        assert!(!kept.is_empty());
    });
}
