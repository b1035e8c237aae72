//! What CHECK and DEL do of iptables' rules without iptables, where it is of the nft variant; and that
//! CHECK sees no less by that.

use std::io::Write as _;
use std::process::{Command, Stdio};

use firewall::Backend::Iptables;
use firewall::hostport::{self, HostPorts, Mapping, Mark, Protocol};
use firewall::{Error, Owner, masquerade};
use ipnet::IpNet;

use crate::common::{
    count_runs, hide_tools, in_namespace, mapping, nets, owner, ports, put, rules_with, run, runs,
    save, tools, variants,
};
use crate::{DN, MASQ, add_pod, check_pod, delete_pod, pod};

/// Ports of every kind, more than one rule can name.
fn many_mappings() -> Vec<Mapping> {
    let protocols = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
    let hosts = ["", "0.0.0.0", "192.168.77.1", "fd00:77::1"];
    let mappings = (1..=40).map(|port| {
        let protocol = protocols[usize::from(port) % 3];
        mapping(port * 1600, protocol, hosts[usize::from(port) % 4])
    });
    mappings.collect()
}

/// Adds, checks and deletes; the last two without a program.
fn comes_and_goes(owner: Owner, addresses: &[IpNet], ports: &HostPorts) {
    let before = [save("iptables"), save("ip6tables")];
    masquerade::add(Iptables, owner, addresses).unwrap();
    hostport::add(Iptables, owner, ports).unwrap();
    let so_far = runs();
    masquerade::check(Iptables, owner, addresses).unwrap();
    hostport::check(Iptables, owner, ports).unwrap();
    assert_eq!(runs(), so_far, "CHECK: {owner:?} {ports:?}");
    masquerade::delete(owner, &[], true).unwrap();
    let removed = hostport::delete(owner, &[], true).unwrap();
    assert_eq!(runs(), so_far, "DEL: {owner:?} {ports:?}");
    assert!(!removed.is_empty());
    let after = [save("iptables"), save("ip6tables")];
    for (before, after) in before.iter().zip(&after) {
        let of_pods = |line: &&String| line.contains("name: ") || line.contains("CNI-DN-");
        let left: Vec<_> = after.iter().filter(of_pods).collect();
        assert_eq!(left, before.iter().filter(of_pods).collect::<Vec<_>>());
    }
}

#[test]
fn every_kind_of_rule_is_read_and_removed_without_a_program() {
    in_namespace(|| {
        if variants().0 == "legacy" {
            return;
        }
        add_pod("other");
        for program in ["iptables", "ip6tables"] {
            run(program, &["-t", "nat", "-N", "KUBE-MARK-MASQ"], "");
        }
        count_runs();
        let mappings = many_mappings();
        let odd = "o\"d\\d'n\u{e9} -j".to_owned();
        for network in ["mynet", &"n".repeat(300), &odd] {
            for addresses in [
                &["10.1.2.2/24", "fd00::2/64"][..],
                &["10.1.2.2/22", "fd00::2/61", "10.9.0.1/32", "fd00:9::1/128"],
                &["10.1.2.2/9", "fd00::2/127", "10.8.0.1/0", "fd00:8::1/0"],
            ] {
                let addresses = nets(addresses);
                let marks = [Mark::Bit(13), Mark::Bit(0), Mark::Bit(31)];
                let marks = marks.into_iter().chain([Mark::Chain("KUBE-MARK-MASQ")]);
                for (mark, masq_all) in marks.zip([false, true, false, true]) {
                    for snat in [true, false] {
                        let owner = Owner {
                            network,
                            container_id: "id",
                            ifname: "net1",
                        };
                        let ports = HostPorts {
                            mark,
                            snat,
                            masq_all,
                            ..ports(&mappings, &addresses)
                        };
                        comes_and_goes(owner, &addresses, &ports);
                    }
                }
            }
        }
        check_pod("other").unwrap();
    });
}

/// What a rule would be with something else in it, where the program takes that.
fn changes(line: &str) -> Vec<String> {
    let replaced = [
        ("--dport 8080", "--dport 8081"),
        ("--dport 8080", "--sport 8080"),
        ("--dport 8080", "--dport 8080:8081"),
        ("--dport 8080", "! --dport 8080"),
        ("--dports 8080", "--dports 8081"),
        ("--dports 8080", "--dports 8080,8081"),
        ("--dports 8080", "--dports 8080:8081"),
        ("--dports 8080", "--sports 8080"),
        ("--dports 8080", "--ports 8080"),
        ("--dports 8080", "! --dports 8080"),
        ("-p tcp -m tcp", "-p udp -m udp"),
        ("-p tcp -m comment", "-p udp -m comment"),
        ("2:80", "2:81"),
        ("2:80", "3:80"),
        ("2]:80", "3]:80"),
        ("2]:80", "2]:81"),
        (":80", ":80-81"),
        (":80", ":80 --random"),
        (":80", ":80 --persistent"),
        ("-j ACCEPT", "-j RETURN"),
        ("! -d", "-d"),
        ("-s 10", "! -s 10"),
        ("-s fd", "! -s fd"),
        ("/24 ", "/25 "),
        ("/64 ", "/65 "),
        ("2/32", "3/32"),
        ("2/128", "3/128"),
        ("-d 192.168.77.1/32 ", ""),
        ("-s 127.0.0.1/32 ", ""),
        ("LOCAL", "UNICAST"),
        ("--dst-type", "--src-type"),
        ("--dst-type", "! --dst-type"),
        ("LOCAL", "LOCAL --limit-iface-in"),
        ("--mark 0x2000/0x2000", "--mark 0x2000/0x6000"),
        ("--mark 0x2000/0x2000", "! --mark 0x2000/0x2000"),
        ("xmark 0x2000/0x2000", "xmark 0x2000/0x6000"),
        ("xmark 0x2000/0x2000", "xmark 0x0/0x2000"),
        ("-j MASQUERADE", "-j MASQUERADE --random"),
        ("-j MASQUERADE", "-j ACCEPT"),
        ("-j CNI", "-g CNI"),
        ("-j CNI", "-i lo -j CNI"),
        ("-j", "-m conntrack --ctstate NEW -j"),
        ("-j", "-m limit --limit 1/s -j"),
        ("-j", "-m mark --mark 0x1 -j"),
        ("cont1", "cont2"),
        (" CNI portfwd", " CNI  portfwd"),
    ];
    let changed = replaced.iter().map(|(from, to)| line.replace(from, to));
    changed.filter(|changed| changed != line).collect()
}

/// Where one of the pod's lines, or of those that all share, is.
fn ours(lines: &[String]) -> Vec<usize> {
    let is_ours = |line: &String| {
        let shared = line.contains("HOSTPORT") && !line.contains("CNI-DN-");
        line.starts_with("-A") && (line.contains(DN) || line.contains(MASQ) || shared)
    };
    (0..lines.len()).filter(|at| is_ours(&lines[*at])).collect()
}

fn is_missed(what: &str) {
    let checked = check_pod("cont1");
    let is_missing = matches!(checked, Err(Error::Missing(_)));
    assert!(is_missing, "{what}: {checked:?}");
}

#[test]
fn check_notices_each_line_that_is_another() {
    in_namespace(|| {
        add_pod("cont1");
        let mut tried = 0;
        for program in ["iptables", "ip6tables"] {
            let whole = save(program);
            for at in ours(&whole) {
                for changed in changes(&whole[at]) {
                    let mut lines = whole.clone();
                    lines[at].clone_from(&changed);
                    // Neither the program nor the kernel takes all of them.
                    if takes(program, &lines) {
                        is_missed(&format!("{program}: {changed}"));
                        tried += 1;
                    }
                }
            }
            put(program, &whole);
            check_pod("cont1").unwrap();
        }
        assert!(tried > 200, "{tried}");
    });
}

/// Puts a table in place of what there is, if it is taken.
fn takes(program: &str, lines: &[String]) -> bool {
    let mut command = Command::new(format!("{program}-restore"));
    let command = command.args(["-w", "5"]).stdin(Stdio::piped());
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let text = lines.join("\n") + "\n";
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(text.as_bytes()).unwrap();
    drop(stdin);
    child.wait().unwrap().success()
}

#[test]
fn check_notices_rules_in_front_of_the_pods_and_another_order() {
    in_namespace(|| {
        add_pod("cont1");
        let whole = save("iptables");
        for chain in [DN, MASQ] {
            let begin = format!("-A {chain} ");
            let own: Vec<_> = (0..whole.len())
                .filter(|at| whole[*at].starts_with(&begin))
                .collect();
            for at in &own {
                // The second one is one that only the program has words for.
                for foreign in ["-j RETURN", "-m limit --limit 1/sec -j RETURN"] {
                    let mut lines = whole.clone();
                    lines.insert(*at, format!("{begin}{foreign}"));
                    put("iptables", &lines);
                    is_missed(foreign);
                }
            }
            for pair in own.windows(2) {
                let mut lines = whole.clone();
                lines.swap(pair[0], pair[1]);
                put("iptables", &lines);
                is_missed(&lines[pair[0]]);
            }
            let mut lines = whole.clone();
            let last = own.last().unwrap() + 1;
            lines.insert(last, format!("{begin}-m limit --limit 1/sec -j RETURN"));
            put("iptables", &lines);
            check_pod("cont1").unwrap();
        }
    });
}

/// The program itself, where nobody looks for one.
fn hidden_program() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("xtables-nft-multi");
    std::fs::copy(tools().join("iptables"), &copy).unwrap();
    let copy = copy.to_str().unwrap().to_owned();
    (folder, copy)
}

#[test]
fn a_pods_rules_are_removed_where_there_is_no_program() {
    in_namespace(|| {
        if variants().0 == "legacy" {
            return;
        }
        add_pod("other");
        add_pod("cont1");
        let (_folder, program) = hidden_program();
        let of_cont1 = |family: &str| {
            let saved = run(&program, &[&format!("{family}-save"), "-t", "nat"], "");
            assert!(saved.contains("other"), "{saved}");
            let lines = saved
                .lines()
                .filter(|line| line.contains(DN) || line.contains(MASQ));
            lines.count()
        };
        assert!(of_cont1("iptables") > 8 && of_cont1("ip6tables") > 5);
        hide_tools();
        delete_pod("cont1");
        delete_pod("cont1");
        assert_eq!((of_cont1("iptables"), of_cont1("ip6tables")), (0, 0));
    });
}

/// Rules that only the program has words for, and those that lead to a pod's chain from elsewhere.
#[test]
fn what_the_kernel_alone_does_not_tell_is_removed_by_the_program() {
    in_namespace(|| {
        count_runs();
        add_pod("other");
        let before = save("iptables");
        for (foreign, asks) in [
            (format!("-A {DN} -m limit --limit 1/sec -j RETURN"), true),
            (format!("-A PREROUTING -p tcp -j {DN}"), true),
            // It leads from where it should, and so goes whatever it asks.
            (
                format!("-A CNI-HOSTPORT-DNAT -m limit --limit 1/sec -j {DN}"),
                false,
            ),
            // None of the pod's business.
            (
                "-A CNI-HOSTPORT-DNAT -m limit --limit 1/sec -j RETURN".to_owned(),
                false,
            ),
        ] {
            add_pod("cont1");
            let batch = format!("*nat\n{foreign}\nCOMMIT\n");
            run("iptables-restore", &["--noflush"], &batch);
            let so_far = runs();
            let (_, mappings) = pod();
            let removed = hostport::delete(owner("cont1"), &[], true).unwrap();
            assert_eq!(removed.len(), mappings.len() + 1, "{foreign}");
            if variants().0 == "nft" {
                assert_eq!(runs() > so_far, asks, "{foreign}");
            }
            delete_pod("cont1");
            assert_eq!(rules_with("iptables", &[DN, MASQ]), [""; 0], "{foreign}");
            let line = foreign.replace("-A", "-D");
            if !foreign.contains(DN) {
                run(
                    "iptables-restore",
                    &["--noflush"],
                    &format!("*nat\n{line}\nCOMMIT\n"),
                );
            }
            assert_eq!(save("iptables"), before);
        }
    });
}
