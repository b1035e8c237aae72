//! What is read of rules, whoever made them.

use firewall::Backend::{Iptables, Nftables};
use firewall::hostport::{self, Protocol};
use firewall::view::{Exit, Packet, View, shadowed};
use firewall::{Backend, Owner, masquerade};

use crate::common::{
    in_bare_namespace, in_namespace, mapping, nets, owner, ports, run, tools, variants,
};
use crate::{add_pod, pod};

/// A pod's packet to another node's pod.
fn out(ipv6: bool) -> Packet {
    let (source, destination) = match ipv6 {
        false => ("10.1.2.2", "10.1.3.2"),
        true => ("fd00::2", "fd00:3::2"),
    };
    Packet {
        input: "cni0".to_owned(),
        output: "eth0".to_owned(),
        source: source.parse().unwrap(),
        destination: destination.parse().unwrap(),
    }
}

/// Runs a command as an administrator would.
fn sh(command: &str) -> String {
    let line = format!("PATH=$PATH:/usr/sbin:/sbin; {command}");
    run("sh", &["-ec", &line], "")
}

/// Who drops a packet of a family, and what mends that.
fn dropped(view: &View, ipv6: bool) -> Vec<(String, Vec<String>)> {
    let range = nets(&[if ipv6 { "fd00::/64" } else { "10.1.2.0/24" }])[0];
    let packet = out(ipv6);
    let drops = view
        .gates
        .iter()
        .filter_map(|gate| gate.drops(&packet, range));
    drops.map(|dropped| (dropped.by, dropped.mend)).collect()
}

#[test]
fn an_empty_node_is_read_and_stays_empty() {
    in_namespace(|| {
        let view = View::read();
        assert_eq!(view, View::default());
        for file in ["ip_tables_names", "ip6_tables_names"] {
            let tables = std::fs::read_to_string(format!("/proc/thread-self/net/{file}"));
            assert_eq!(tables.unwrap_or_default(), "");
        }
        if lab::find_tool("nft").is_some() {
            assert_eq!(sh("nft list ruleset"), "");
        }
    });
}

#[test]
fn the_forward_chain_of_either_variant_and_family() {
    in_namespace(|| {
        for (ipv6, program) in [(false, "iptables"), (true, "ip6tables")] {
            run(program, &["-P", "FORWARD", "DROP"], "");
            let drops = dropped(&View::read(), ipv6);
            assert_eq!(drops.len(), 1, "{drops:?}");
            let (by, mend) = &drops[0];
            assert!(
                by.ends_with("table filter: policy drop, and no rule accepts it"),
                "{by}"
            );
            let (variant, _) = variants();
            let named = by.starts_with(&format!("{program}-{variant}, "));
            assert!(named || by.starts_with(&format!("{program}, ")), "{by}");
            for command in mend {
                sh(command);
            }
            assert_eq!(dropped(&View::read(), ipv6), []);

            let rule = [
                "-I",
                "FORWARD",
                "-i",
                "cni+",
                "-m",
                "comment",
                "--comment",
                "a \"b\"",
                "-j",
                "REJECT",
            ];
            run(program, &rule, "");
            let drops = dropped(&View::read(), ipv6);
            assert_eq!(drops.len(), 1, "{drops:?}");
            assert!(
                drops[0]
                    .0
                    .contains(r#"-A FORWARD -i cni+ -m comment --comment "a \"b\"" -j REJECT"#)
            );
            sh(&drops[0].1[0]);
            assert_eq!(dropped(&View::read(), ipv6), []);
        }
        assert_eq!(View::read().unread, [""; 0]);
    });
}

#[test]
fn chains_that_are_asked_before_the_way_is_known() {
    in_namespace(|| {
        for (ipv6, program) in [(false, "iptables"), (true, "ip6tables")] {
            for table in ["raw", "mangle"] {
                sh(&format!(
                    "{program} -t {table} -A PREROUTING -i cni0 -j DROP"
                ));
                let view = View::read();
                assert_eq!(view.unread, [""; 0]);
                let drops = dropped(&view, ipv6);
                assert_eq!(drops.len(), 1, "{table}: {drops:?}");
                assert!(drops[0].0.contains("-A PREROUTING -i cni0 -j DROP"));
                sh(&drops[0].1[0]);
                assert_eq!(dropped(&View::read(), ipv6), []);
            }
        }
        if lab::find_tool("nft").is_none() {
            return lab::skip("nft is not installed");
        }
        sh("nft add table ip t
            nft add set ip t s '{ type ipv4_addr; flags interval; }'
            nft add element ip t s '{ 10.1.0.0/16 }'
            nft add chain ip t c '{ type filter hook prerouting priority -300; }'
            nft add rule ip t c ip saddr @s drop");
        let drops = dropped(&View::read(), false);
        assert_eq!(drops.len(), 1, "{drops:?}");
        sh(&drops[0].1[0]);
        assert_eq!(dropped(&View::read(), false), []);
    });
}

/// Rules in a chain `c` of a table `inet t`, and whether they drop a pod's packet of IPv4 and IPv6.
const RULESETS: [(&str, [bool; 2]); 32] = [
    ("policy drop", [true, true]),
    ("policy accept", [false, false]),
    ("policy drop; iifname cni0 accept", [false, false]),
    ("policy drop; iifname \"cni*\" accept", [false, false]),
    ("policy drop; iifname != cni0 accept", [true, true]),
    ("policy drop; oifname { eth0, eth1 } accept", [false, false]),
    (
        "policy drop; oifname != { eth0, eth1 } accept",
        [true, true],
    ),
    ("policy drop; ip saddr 10.1.2.0/24 accept", [false, true]),
    ("policy drop; ip saddr 10.1.2.0/23 accept", [false, true]),
    ("policy drop; ip daddr 10.1.2.0/24 accept", [true, true]),
    ("policy drop; ip6 daddr fd00:3::/64 accept", [true, false]),
    (
        "policy drop; ip saddr { 10.1.2.2, 10.1.2.9 } accept",
        [false, true],
    ),
    ("policy drop; meta nfproto ipv4 accept", [false, true]),
    (
        "policy drop; ct state established,related accept",
        [true, true],
    ),
    ("policy drop; ct state new accept", [false, false]),
    (
        "policy drop; ct state { established, related } accept",
        [true, true],
    ),
    (
        "policy drop; ct state vmap { established : accept, invalid : drop }",
        [true, true],
    ),
    (
        "policy drop; ct state vmap { established : accept, new : jump other }",
        [true, true],
    ),
    (
        "policy drop; ip saddr vmap { 10.1.2.2 : accept }",
        [false, true],
    ),
    (
        "policy accept; ip saddr { 10.1.0.0/16, 192.0.2.0/24 } drop",
        [true, false],
    ),
    (
        "policy accept; ip saddr { 10.1.2.3-10.1.2.9, 10.1.1.0/24 } drop",
        [false, false],
    ),
    (
        "policy accept; ip saddr != { 10.1.2.0-10.1.2.9 } drop",
        [false, false],
    ),
    (
        "policy drop; ip saddr { 10.0.0.0/8, 224.0.0.0/3 } accept",
        [false, true],
    ),
    (
        "policy accept; ip6 daddr { fd00:3::/64, fd00:9::/64 } drop",
        [false, true],
    ),
    (
        "policy accept; ip saddr vmap { 10.1.0.0/16 : drop, 10.2.0.0/16 : accept }",
        [true, false],
    ),
    ("policy drop; tcp dport 80 accept", [false, false]),
    ("policy drop; meta mark 1 accept", [false, false]),
    (
        "policy drop; counter log limit rate 1/second accept",
        [false, false],
    ),
    (
        "policy accept; ip saddr 10.1.2.0/24 counter drop",
        [true, false],
    ),
    ("policy accept; iifname cni0 reject", [true, true]),
    ("policy accept; jump other", [false, true]),
    ("policy drop; goto other", [true, true]),
];

#[test]
fn rules_of_nftables_whoever_made_them() {
    in_bare_namespace(|| {
        if lab::find_tool("nft").is_none() {
            return lab::skip("nft is not installed");
        }
        for (rules, expected) in RULESETS {
            let text = format!(
                "table inet t {{
                    chain other {{
                        iif lo accept
                        meta nfproto ipv6 drop
                        return
                    }}
                    chain c {{
                        type filter hook forward priority 5
                        {}
                    }}
                }}",
                rules.replace("; ", "\n")
            );
            run("nft", &["-f", "-"], &text);
            let view = View::read();
            let drops = [false, true].map(|ipv6| dropped(&view, ipv6));
            let found = [0, 1].map(|family: usize| !drops[family].is_empty());
            assert_eq!(found, expected, "{rules}: {drops:?}");
            assert_eq!(view.unread, [""; 0]);
            // Behind a rule that is gone the policy may be found.
            for _ in 0..4 {
                let view = View::read();
                let mut drops = [false, true]
                    .into_iter()
                    .flat_map(|ipv6| dropped(&view, ipv6));
                let Some((by, mend)) = drops.next() else {
                    break;
                };
                assert!(by.starts_with("nftables, table inet t, chain c: "), "{by}");
                mend.iter().for_each(|command| drop(sh(command)));
            }
            let view = View::read();
            assert_eq!(
                [false, true].map(|ipv6| dropped(&view, ipv6)),
                [[], []],
                "{rules}"
            );
            run("nft", &["delete", "table", "inet", "t"], "");
        }
    });
}

#[test]
fn a_table_that_iptables_cannot_print_is_read_all_the_same() {
    in_namespace(|| {
        if variants().0 == "legacy" || lab::find_tool("nft").is_none() {
            return lab::skip("it takes nft, and a variant of iptables that sees what nft makes");
        }
        let text = "table ip filter {
                chain FORWARD {
                    type filter hook forward priority 0; policy accept
                    meta mark and 3 == 1 accept
                    ip saddr 10.1.2.0/24 drop
                }
                chain mine {
                    type filter hook forward priority 7
                    ip daddr 10.1.3.0/24 drop
                }
            }";
        sh(&format!("echo '{text}' | nft -f -"));
        let drops = dropped(&View::read(), false);
        let of_mine = drops.iter().filter(|(by, _)| by.contains("chain mine"));
        assert_eq!(of_mine.count(), 1, "{drops:?}");
    });
}

#[test]
fn without_a_program_what_it_alone_can_tell_is_unread() {
    in_namespace(|| {
        run("iptables", &["-P", "FORWARD", "DROP"], "");
        std::fs::remove_dir_all(tools()).unwrap();
        for folder in ["/usr/sbin", "/sbin"] {
            let (tmpfs, none) = (Some("tmpfs"), None::<&str>);
            nix::mount::mount(tmpfs, folder, tmpfs, nix::mount::MsFlags::empty(), none).unwrap();
        }
        let view = View::read();
        match variants().0 {
            "nft" => assert_eq!(dropped(&view, false).len(), 1),
            _ => assert!(
                view.unread[0].starts_with("IPv4 table filter of iptables: "),
                "{view:?}"
            ),
        }
    });
}

fn host_ports(backend: Backend, id: &str, address: &str, host_ip: &str) {
    let addresses = nets(&[address]);
    let mappings = [
        mapping(8080, Protocol::Tcp, host_ip),
        mapping(53, Protocol::Udp, ""),
    ];
    hostport::add(backend, owner(id), &ports(&mappings, &addresses)).unwrap();
}

#[test]
fn a_second_pod_s_port_is_behind_the_first_one_s() {
    in_namespace(|| {
        for backend in [Iptables, Nftables] {
            host_ports(backend, "first", "10.1.2.2/24", "");
            host_ports(backend, "second", "10.1.2.3/24", "192.0.2.1");
            host_ports(backend, "third", "fd00::4/64", "");
            let view = View::read();
            assert_eq!(view.unread, [""; 0]);
            let of = view.ports.iter().filter(|port| port.backend == backend);
            assert_eq!(of.count(), 6);
            let pairs = shadowed(&view.ports);
            let pairs: Vec<_> = pairs
                .iter()
                .filter(|(early, _)| early.backend == backend)
                .map(|(early, late)| {
                    (
                        early.mapping.host_port,
                        early.target.to_string(),
                        late.target.to_string(),
                    )
                })
                .collect();
            let udp = (53, "10.1.2.2".to_owned(), "10.1.2.3".to_owned());
            // A map of nftables asks for one address first.
            let tcp = (8080, udp.1.clone(), udp.2.clone());
            match backend {
                Iptables => assert_eq!(pairs, [tcp, udp]),
                Nftables => assert_eq!(pairs, [udp]),
            }
            let mut ports = view.ports.iter();
            let first = ports.find(|port| port.target.to_string() == "10.1.2.2");
            let comment = &first.unwrap().comment;
            assert!(
                comment.contains("mynet") && comment.contains("first"),
                "{comment}"
            );
        }
    });
}

#[test]
fn leftovers_are_what_gc_would_take() {
    in_namespace(|| {
        add_pod("cont1");
        let (addresses, mappings) = pod();
        masquerade::add(Nftables, owner("cont2"), &addresses).unwrap();
        hostport::add(Nftables, owner("cont2"), &ports(&mappings, &addresses)).unwrap();
        let view = View::read();
        let garbage = |network: &str, valid: &[Owner]| view.garbage(network, valid);
        assert_eq!(garbage("mynet", &[owner("cont1"), owner("cont2")]), []);
        assert_eq!(garbage("other", &[]), []);
        // A chain of each kind and family.
        let chains = garbage("mynet", &[owner("cont2")]);
        assert_eq!(chains.len(), 4, "{chains:?}");
        for chain in &chains {
            assert!(chain.what.contains(" iptables chain CNI-"), "{chain:?}");
            assert!(
                chain.comment.ends_with(r#"name: "mynet" id: "cont1""#),
                "{chain:?}"
            );
        }
        let elements = garbage("mynet", &[owner("cont1")]);
        assert_eq!(elements.len(), 1, "{elements:?}");
        assert!(
            elements[0]
                .comment
                .contains("net: mynet, if: eth0, id: cont2"),
            "{elements:?}"
        );
    });
}

#[test]
fn a_proxy_of_services_is_noticed() {
    in_namespace(|| {
        assert!(!View::read().services);
        run("iptables", &["-t", "nat", "-N", "KUBE-SERVICES"], "");
        assert!(View::read().services);
    });
}

#[test]
fn a_proxy_that_uses_nftables_is_noticed() {
    in_bare_namespace(|| {
        if lab::find_tool("nft").is_some() {
            assert!(!View::read().services);
            run("nft", &["add", "table", "ip", "kube-proxy"], "");
            assert!(View::read().services);
        }
    });
}

#[test]
fn what_leaves_is_masqueraded_by_the_rule_of_either_backend() {
    in_namespace(|| {
        for backend in [Iptables, Nftables] {
            let addresses = nets(&["10.1.2.2/24", "fd00::2/64"]);
            masquerade::add(backend, owner("one"), &addresses).unwrap();
            // Its mark must not make everything unsure.
            host_ports(backend, "one", "10.1.2.2/24", "");
            let view = View::read();
            for ipv6 in [false, true] {
                let mut packet = out(ipv6);
                let exit = view.exit(&packet);
                let Exit::Masqueraded(by) = &exit else {
                    panic!("{backend} {ipv6}: {exit:?}");
                };
                assert!(
                    by.contains(&backend.to_string()) || by.contains("tables"),
                    "{by}"
                );
                // Within the pod's own network nothing is.
                packet.destination = addresses[usize::from(ipv6)].network();
                let exit = view.exit(&packet);
                assert!(matches!(exit, Exit::Kept(_)), "{backend} {ipv6}: {exit:?}");
                // Another pod has no rule.
                packet.source = addresses[usize::from(ipv6)].broadcast();
                assert_eq!(view.exit(&packet), Exit::Kept(None), "{backend} {ipv6}");
            }
            masquerade::delete(owner("one"), &addresses, false).unwrap();
            hostport::delete(owner("one"), &addresses, false).unwrap();
        }
    });
}

#[test]
fn a_host_port_says_from_where_it_is_masqueraded() {
    in_namespace(|| {
        for backend in [Iptables, Nftables] {
            for (address, expected) in [
                ("10.1.2.2/24", vec!["10.1.2.0/24", "127.0.0.1/32"]),
                ("fd00::2/64", vec!["fd00::/64"]),
            ] {
                host_ports(backend, "one", address, "");
                let view = View::read();
                assert_eq!(view.ports.len(), 2);
                for port in &view.ports {
                    assert_eq!(port.masquerades, nets(&expected), "{backend} {port:?}");
                }
                hostport::delete(owner("one"), &nets(&[address]), false).unwrap();
            }
        }
    });
}
