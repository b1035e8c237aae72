//! CHECK notices whatever was taken from the NAT table, or changed in it.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use std::process::Command;

use lab::Namespace;
use serde_json::{Value, json};
use tests::{Attached, Damage, eventually, expect_none, port, port_at};

const IPV4: &str = "10-k8nd.conflist";
const DUAL: &str = "20-dual-stack.conflist";
/// Of both families: what lists a table and what restores it.
const FAMILIES: [(&str, &str); 2] = [
    ("iptables-save", "iptables-restore"),
    ("ip6tables-save", "ip6tables-restore"),
];

/// Host ports of two protocols, with and without a host address.
fn ports() -> Value {
    let bound = port_at("192.0.2.10", 8443, 443, "tcp");
    json!({ "portMappings": [port(8080, 80, "tcp"), port(5353, 53, "udp"), bound] })
}

/// More than one rule can name.
fn many_ports() -> Value {
    let many: Vec<_> = (7001..=7017).map(|at| port(at, 80, "tcp")).collect();
    json!({ "portMappings": many })
}

/// The lines of table nat, chains and rules.
fn saved(node: &Namespace, save: &str) -> Vec<String> {
    let text = node.read(save, &["-t", "nat"]).unwrap();
    let lines = text.lines().filter(|line| line.starts_with([':', '-']));
    lines.map(str::to_owned).collect()
}

fn restore(node: &Namespace, restore: &str, lines: &[String]) {
    let table = format!("*nat\n{}\nCOMMIT\n", lines.join("\n"));
    let ran = node
        .output(&mut Command::new(restore), table.as_bytes())
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}\n{table}");
}

/// What CHECK fails to notice of a table that lacks some lines; the table is whole again then.
fn unnoticed(
    attached: &Attached,
    (save, load): (&str, &str),
    lacking: impl Fn(&str) -> bool,
    says: &str,
) -> Option<String> {
    let node = &attached.node.namespace;
    let whole = saved(node, save);
    let rest: Vec<_> = whole
        .iter()
        .filter(|line| !lacking(line))
        .cloned()
        .collect();
    restore(node, load, &rest);
    let checked = attached.check();
    restore(node, load, &whole);
    match checked {
        Ok(()) => Some(format!("{save}: CHECK passes without {says}")),
        Err(said) if said.contains(says) => None,
        Err(said) => Some(format!("{save}: no {says:?} in: {said}")),
    }
}

/// That CHECK notices when any one line that ADD made is gone.
fn every_line_counts(label: &str, conflist: &str, changes: &[(&str, Value)], asked: &Value) {
    let Some(attached) = Attached::new(label, conflist, changes, asked) else {
        return;
    };
    let mut failed = Vec::new();
    let mut rules = 0;
    for family in FAMILIES {
        let whole = saved(&attached.node.namespace, family.0);
        for line in whole {
            let again = match line.split_once(' ') {
                Some(("-A", rest)) => {
                    rules += 1;
                    let chain = rest.split(' ').next().unwrap();
                    unnoticed(&attached, family, |other| other == line, chain)
                }
                Some((chain, _)) if chain.starts_with(":CNI-") => {
                    let chain = &chain[1..];
                    let of_it = |other: &str| other.split([' ', ':']).any(|word| word == chain);
                    unnoticed(&attached, family, of_it, chain)
                }
                _ => None,
            };
            failed.extend(again);
        }
    }
    // Masquerade and at least a port of one family.
    assert!(rules >= 7, "{label}: {rules} rules");
    expect_none(failed);
    attached.check().unwrap();
}

#[test]
fn every_line_of_an_ipv4_pod() {
    every_line_counts("lines", IPV4, &[], &ports());
}

#[test]
fn every_line_of_a_dual_stack_pod() {
    every_line_counts("lines6", DUAL, &[], &ports());
}

#[test]
fn every_line_of_more_ports_than_fit_into_a_rule() {
    every_line_counts("many", IPV4, &[], &many_ports());
}

#[test]
fn every_line_of_other_ways_to_masquerade() {
    let ways = [
        ("snatoff", IPV4, json!({ "snat": false })),
        ("masqall", IPV4, json!({ "masqAll": true })),
        ("markbit", IPV4, json!({ "markMasqBit": 31 })),
        (
            "conditions",
            DUAL,
            json!({
                "conditionsV4": ["!", "-s", "198.51.100.0/24"],
                "conditionsV6": ["-i", "eth0"],
            }),
        ),
    ];
    for (label, conflist, way) in ways {
        every_line_counts(label, conflist, &[("portmap", way)], &ports());
    }
}

#[test]
fn a_changed_rule() {
    let Some(attached) = Attached::new("changed", IPV4, &[], &ports()) else {
        return;
    };
    let node = &attached.node.namespace;
    let dnat = "--to-destination 10.244.0.2:80";
    // What is replaced by what in the table, and who notices.
    let table = [
        (dnat, "--to-destination 10.244.0.3:80", "portmap"),
        (dnat, "--to-destination 10.244.0.2:81", "portmap"),
        (
            "-p tcp -m tcp --dport 8080 -j DNAT",
            "-p tcp -m tcp --dport 8081 -j DNAT",
            "portmap",
        ),
        ("--dports 8080,8443", "--dports 8443", "portmap"),
        ("-d 192.0.2.10/32", "-d 192.0.2.11/32", "portmap"),
        (
            "--set-xmark 0x2000/0x2000",
            "--set-xmark 0x4000/0x4000",
            "portmap",
        ),
        ("--mark 0x2000/0x2000", "--mark 0x4000/0x4000", "portmap"),
        (
            "-s 127.0.0.1/32 -p udp",
            "-s 127.0.0.2/32 -p udp",
            "portmap",
        ),
        (
            "-A PREROUTING -m addrtype --dst-type LOCAL",
            "-A PREROUTING",
            "portmap",
        ),
        (
            "-A OUTPUT -m addrtype --dst-type LOCAL",
            "-A OUTPUT -p tcp",
            "portmap",
        ),
        (
            "requiring masquerade\" -j CNI-HOSTPORT-MASQ",
            "requiring masquerade\" -j ACCEPT",
            "portmap",
        ),
        ("-s 10.244.0.2/32", "-s 10.244.0.3/32", "bridge"),
        (
            "-d 10.244.0.0/24 -m comment",
            "-d 10.244.0.0/16 -m comment",
            "bridge",
        ),
        (r#"\"" -j MASQUERADE"#, r#"\"" -j ACCEPT"#, "bridge"),
        ("! -d 224.0.0.0/4", "! -d 10.0.0.0/8", "bridge"),
    ];
    let whole = saved(node, "iptables-save").join("\n");
    let mut failed = Vec::new();
    for (from, to, plugin) in table {
        let changed = whole.replacen(from, to, 1);
        assert_ne!(changed, whole, "{from:?} is not in the table:\n{whole}");
        restore(node, "iptables-restore", &[changed]);
        let noticed = attached.noticed_by(plugin, "");
        failed.extend(
            noticed
                .err()
                .map(|error| format!("{from:?} to {to:?}: {error}")),
        );
        restore(node, "iptables-restore", std::slice::from_ref(&whole));
    }
    expect_none(failed);
    attached.check().unwrap();
}

#[test]
fn the_order_of_an_attachment_s_rules() {
    let Some(attached) = Attached::new("order", IPV4, &[], &ports()) else {
        return;
    };
    let node = &attached.node.namespace;
    let whole = saved(node, "iptables-save");
    let chain = |prefix: &str| {
        let in_it = |line: &&String| line.starts_with(&format!("-A {prefix}"));
        whole
            .iter()
            .find(in_it)
            .unwrap()
            .split(' ')
            .nth(1)
            .unwrap()
            .to_owned()
    };
    let masquerade = whole
        .iter()
        .find(|line| line.contains("-s 10.244.0.2/32 "))
        .unwrap();
    let masquerade = masquerade.rsplit_once(' ').unwrap().1;
    for (plugin, chain) in [("bridge", masquerade), ("portmap", &chain("CNI-DN-"))] {
        let insert = format!("iptables -t nat -I {chain} -j RETURN");
        let delete = format!("iptables -t nat -D {chain} -j RETURN");
        let table: &[Damage] = &[("a rule in front", &insert, &delete, chain)];
        attached.expect_noticed(plugin, node, table);
        // The same rules, back to front.
        let mut turned = whole.clone();
        let of_it = |line: &String| line.starts_with(&format!("-A {chain} "));
        let places: Vec<_> = (0..turned.len()).filter(|at| of_it(&turned[*at])).collect();
        for (place, other) in places.iter().zip(places.iter().rev()) {
            turned[*place].clone_from(&whole[*other]);
        }
        restore(node, "iptables-restore", &turned);
        attached.noticed_by(plugin, chain).unwrap();
        restore(node, "iptables-restore", &whole);
        attached.check().unwrap();
    }
}

#[test]
fn a_flushed_table_and_route_localnet() {
    let Some(attached) = Attached::new("flush", IPV4, &[], &ports()) else {
        return;
    };
    let node = &attached.node.namespace;
    let table: &[Damage] = &[(
        "route_localnet off",
        "echo 0 > /proc/sys/net/ipv4/conf/cni0/route_localnet",
        "echo 1 > /proc/sys/net/ipv4/conf/cni0/route_localnet",
        "sysctl net/ipv4/conf/cni0/route_localnet is 0, not 1",
    )];
    attached.expect_noticed("portmap", node, table);
    let whole = saved(node, "iptables-save");
    // As a firewall manager's reload does.
    restore(node, "iptables-restore", &[]);
    attached.noticed_by("bridge", "not found").unwrap();
    restore(node, "iptables-restore", &whole);
    eventually(|| attached.check()).unwrap();
}
