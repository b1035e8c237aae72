//! CHECK notices whatever was taken from the NAT table, or changed in it.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;
use std::process::Command;

use lab::Namespace;
use serde_json::{Value, json};
use tests::{Attached, Damage, Family, at, eventually, expect_none, port, port_at};

const IPV4: &str = "10-k8nd.conflist";
const DUAL: &str = "20-dual-stack.conflist";

/// What lists a table, and what restores it.
fn tools(family: Family) -> (&'static str, &'static str) {
    family.pick(
        ("iptables-save", "iptables-restore"),
        ("ip6tables-save", "ip6tables-restore"),
    )
}

/// Host ports of two protocols, with and without a host address.
fn ports() -> Value {
    ports_of(Family::V4)
}

/// The same with a host address of the family.
fn ports_of(family: Family) -> Value {
    let bound = port_at(&family.node().to_string(), 8443, 443, "tcp");
    json!({ "portMappings": [port(8080, 80, "tcp"), port(5353, 53, "udp"), bound] })
}

/// A pod with these ports on a node that has no other family.
fn attached(label: &str, family: Family) -> Option<Attached> {
    Attached::new(label, family.conflist(), &[], &ports_of(family))
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
    for family in Family::ALL.map(tools) {
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
fn every_line_of_a_pod_of_one_family() {
    for family in Family::ALL {
        every_line_counts("lines", family.conflist(), &[], &ports_of(family));
    }
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

/// What is replaced by what in the table of either family, and who notices.
const OF_BOTH: [(&str, &str, &str); 8] = [
    (
        "-p tcp -m tcp --dport 8080 -j DNAT",
        "-p tcp -m tcp --dport 8081 -j DNAT",
        "portmap",
    ),
    ("--dports 8080,8443", "--dports 8443", "portmap"),
    (
        "--set-xmark 0x2000/0x2000",
        "--set-xmark 0x4000/0x4000",
        "portmap",
    ),
    ("--mark 0x2000/0x2000", "--mark 0x4000/0x4000", "portmap"),
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
    (r#"\"" -j MASQUERADE"#, r#"\"" -j ACCEPT"#, "bridge"),
];
/// The same in that of IPv4: there is nothing like it for ::1.
const OF_IPV4: (&str, &str, &str) = (
    "-s 127.0.0.1/32 -p udp",
    "-s 127.0.0.2/32 -p udp",
    "portmap",
);

/// What is replaced by what in the table of the family, and who notices.
fn changes(family: Family) -> Vec<(String, String, &'static str)> {
    let dnat = |ip: &str, port: u16| {
        let at = SocketAddr::new(at(&family.expand(ip)), port);
        format!("--to-destination {at}")
    };
    let host = family.pick("32", "128");
    let node = family.node();
    let addressed = [
        (dnat("$IP", 80), dnat("$NINTH", 80), "portmap"),
        (dnat("$IP", 80), dnat("$IP", 81), "portmap"),
        (
            format!("-d {node}/{host}"),
            format!("-d {}/{host}", family.pick("192.0.2.11", "2001:db8::11")),
            "portmap",
        ),
        (
            format!("-s $IP/{host}"),
            format!("-s $NINTH/{host}"),
            "bridge",
        ),
        (
            "-d $NET -m comment".to_owned(),
            "-d $PODS -m comment".to_owned(),
            "bridge",
        ),
        (
            format!("! -d {}", family.pick("224.0.0.0/4", "ff00::/8")),
            format!("! -d {}", family.pick("10.0.0.0/8", "fd00::/8")),
            "bridge",
        ),
    ];
    let of_ipv4 = family.pick(&[OF_IPV4][..], &[]);
    let plain = OF_BOTH.iter().chain(of_ipv4);
    let plain = plain.map(|(from, to, plugin)| ((*from).to_owned(), (*to).to_owned(), *plugin));
    let all = addressed.into_iter().chain(plain);
    all.map(|(from, to, plugin)| (family.expand(&from), family.expand(&to), plugin))
        .collect()
}

#[test]
fn a_changed_rule() {
    for family in Family::ALL {
        let Some(attached) = attached("changed", family) else {
            return;
        };
        let node = &attached.node.namespace;
        let (save, load) = tools(family);
        let whole = saved(node, save).join("\n");
        let mut failed = Vec::new();
        for (from, to, plugin) in changes(family) {
            let changed = whole.replacen(&from, &to, 1);
            assert_ne!(changed, whole, "{from:?} is not in the table:\n{whole}");
            restore(node, load, &[changed]);
            let noticed = attached.noticed_by(plugin, "").err();
            failed.extend(noticed.map(|error| format!("{from:?} to {to:?}: {error}")));
            restore(node, load, std::slice::from_ref(&whole));
        }
        expect_none(failed);
        attached.check().unwrap();
    }
}

#[test]
fn the_order_of_an_attachment_s_rules() {
    for family in Family::ALL {
        let Some(attached) = attached("order", family) else {
            return;
        };
        let node = &attached.node.namespace;
        let (save, load) = tools(family);
        let tool = family.pick("iptables", "ip6tables");
        let whole = saved(node, save);
        let find = |part: &str| whole.iter().find(|line| line.contains(part)).unwrap();
        let source = family.expand(family.pick("-s $IP/32 ", "-s $IP/128 "));
        let masquerade = find(&source).rsplit_once(' ').unwrap().1;
        let ports = find("-A CNI-DN-").split(' ').nth(1).unwrap();
        for (plugin, chain) in [("bridge", masquerade), ("portmap", ports)] {
            let insert = format!("{tool} -t nat -I {chain} -j RETURN");
            let delete = format!("{tool} -t nat -D {chain} -j RETURN");
            let table: &[Damage] = &[("a rule in front", &insert, &delete, chain)];
            attached.expect_noticed(plugin, node, table);
            // The same rules, back to front.
            let mut turned = whole.clone();
            let of_it = |line: &String| line.starts_with(&format!("-A {chain} "));
            let places: Vec<_> = (0..turned.len()).filter(|at| of_it(&turned[*at])).collect();
            for (place, other) in places.iter().zip(places.iter().rev()) {
                turned[*place].clone_from(&whole[*other]);
            }
            restore(node, load, &turned);
            attached.noticed_by(plugin, chain).unwrap();
            restore(node, load, &whole);
            attached.check().unwrap();
        }
    }
}

/// As a firewall manager's reload does.
#[test]
fn a_flushed_table() {
    for family in Family::ALL {
        let Some(attached) = attached("flush", family) else {
            return;
        };
        let node = &attached.node.namespace;
        let (save, load) = tools(family);
        let whole = saved(node, save);
        restore(node, load, &[]);
        attached.noticed_by("bridge", "not found").unwrap();
        restore(node, load, &whole);
        eventually(|| attached.check()).unwrap();
    }
}

#[test]
fn route_localnet() {
    let Some(attached) = attached("localnet", Family::V4) else {
        return;
    };
    let table: &[Damage] = &[(
        "route_localnet off",
        "echo 0 > /proc/sys/net/ipv4/conf/cni0/route_localnet",
        "echo 1 > /proc/sys/net/ipv4/conf/cni0/route_localnet",
        "sysctl net/ipv4/conf/cni0/route_localnet is 0, not 1",
    )];
    attached.expect_noticed("portmap", &attached.node.namespace, table);
}
