//! What CHECK notices.

use firewall::Backend::Iptables;
use firewall::hostport::{self, Protocol};
use firewall::{Error, masquerade};

use crate::common::{
    in_namespace, mapping, nets, owner, ports, put, rules_with, save, script, tools,
};
use crate::{DN, DNAT_COMMENT, MASQ, add_pod, check_pod};

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
fn conditions_are_obeyed_and_checked() {
    in_namespace(|| {
        let addresses = nets(&["10.1.2.2/24"]);
        let mappings = [mapping(8080, Protocol::Tcp, "")];
        let conditions = ["!", "-s", "192.0.2.0/24"].map(str::to_owned);
        let mut ports = ports(&mappings, &addresses);
        ports.conditions_v4 = &conditions;
        hostport::add(Iptables, owner("cont1"), &ports).unwrap();
        let entry = rules_with("iptables", &["-A CNI-HOSTPORT-DNAT"]);
        assert_eq!(
            entry,
            [format!(
                "-A CNI-HOSTPORT-DNAT ! -s 192.0.2.0/24 -p tcp -m comment {DNAT_COMMENT} \
                 -m multiport --dports 8080 -j {DN}"
            )]
        );
        hostport::check(Iptables, owner("cont1"), &ports).unwrap();
        let whole = save("iptables");
        for changed in ["", "192.0.3.0/24"] {
            let mut lines = whole.clone();
            lines.retain(|line| *line != entry[0]);
            if !changed.is_empty() {
                let other = entry[0].replace("192.0.2.0/24", changed);
                lines.insert(lines.len() - 1, other);
            }
            put("iptables", &lines);
            let missing = hostport::check(Iptables, owner("cont1"), &ports);
            assert!(matches!(missing, Err(Error::Missing(_))), "{missing:?}");
        }
        hostport::add(Iptables, owner("cont1"), &ports).unwrap();
        assert_eq!(rules_with("iptables", &["-A CNI-HOSTPORT-DNAT"]), entry);
    });
}

#[test]
fn a_reader_that_fails_is_no_empty_table() {
    in_namespace(|| {
        let addresses = nets(&["10.1.2.2/24"]);
        masquerade::add(Iptables, owner("cont1"), &addresses).unwrap();
        script(&tools().join("iptables"), "echo broken >&2\nexit 3");
        match masquerade::check(Iptables, owner("cont1"), &addresses) {
            Err(Error::Refused { status, stderr, .. }) => {
                assert_eq!((status, stderr.as_str()), (3, "broken"));
            }
            other => panic!("{other:?}"),
        }
    });
}
