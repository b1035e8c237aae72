//! What DEL finds.

use firewall::Backend::Iptables;
use firewall::hostport::{self, Protocol};
use firewall::{Error, Family, Owner, masquerade};

use crate::common::{
    break_tools, hide_tools, in_namespace, is_ordinary_user, mapping, nets, owner, rules_with, run,
    runs, save, variants,
};
use crate::{COMMENT, DN, MASQ, add_pod, check_pod, delete_pod};

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
            masquerade::delete(second, &unsure, true).unwrap();
            assert_eq!(save("iptables"), whole);
        }
        let sure = nets(&["10.1.2.2/24", "fd00::2/64"]);
        assert_eq!(hostport::delete(second, &sure, true).unwrap().len(), 3);
        masquerade::delete(second, &sure, true).unwrap();
        assert_eq!(rules_with("iptables", &[DN, MASQ]), [""; 0]);
    });
}

/// The reference's first releases let a whole network into each pod's chain.
#[test]
fn delete_removes_what_led_a_whole_network_to_the_chain() {
    in_namespace(|| {
        add_pod("other");
        let before = save("iptables");
        add_pod("cont1");
        let whole = format!("-A POSTROUTING -s 10.1.2.0/24 -m comment {COMMENT} -j {MASQ}");
        let batch = format!("*nat\n{whole}\nCOMMIT\n");
        run("iptables-restore", &["--noflush"], &batch);
        delete_pod("cont1");
        assert_eq!(save("iptables"), before);
    });
}

/// iptables lists nothing of a table in which it does not understand something; nor is it known what
/// the pod's own chains hold, and what else leads to them.
#[test]
fn delete_cleans_a_table_that_iptables_cannot_list() {
    in_namespace(|| {
        let Some(program) = lab::find_tool("nft") else {
            return lab::skip("nft is not installed");
        };
        if variants().0 == "legacy" {
            // There is nobody else who could write into its table.
            return;
        }
        let program = program.to_str().unwrap();
        let nft = |lines: &str| run(program, &["-f", "-"], lines);
        add_pod("other");
        add_pod("cont1");
        for (family, address) in [("ip", "ipv4_addr"), ("ip6", "ipv6_addr")] {
            nft(&format!(
                "add map {family} nat foreign {{ type inet_service : {address}; }}\n\
                 insert rule {family} nat POSTROUTING snat to tcp dport map @foreign\n"
            ));
            nft(&format!(
                "add rule {family} nat {MASQ} snat to tcp dport map @foreign\n\
                 add rule {family} nat PREROUTING jump {DN}\n"
            ));
        }
        // All of it is there, as the kernel says; of what it does not say iptables is asked.
        check_pod("other").unwrap();
        let checked = check_pod("nobody").unwrap_err().to_string();
        assert!(checked.contains("incompatible"), "{checked}");
        delete_pod("cont1");
        delete_pod("cont1");
        let left = nft("list ruleset\n");
        assert!(!left.contains(DN) && !left.contains(MASQ), "{left}");
        // What else is there stays.
        for family in ["ip", "ip6"] {
            let chain = run(
                program,
                &["-a", "list", "chain", family, "nat", "POSTROUTING"],
                "",
            );
            let foreign = chain
                .lines()
                .find(|line| line.contains("@foreign"))
                .unwrap();
            let (_, handle) = foreign.rsplit_once("handle ").unwrap();
            nft(&format!(
                "delete rule {family} nat POSTROUTING handle {handle}\n"
            ));
        }
        check_pod("other").unwrap();
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
        masquerade::add(Iptables, second, &addresses).unwrap();
        check_pod("cont1").unwrap();
        masquerade::check(Iptables, second, &addresses).unwrap();
        for _ in 0..2 {
            masquerade::delete(second, &[], true).unwrap();
            assert_eq!(save("iptables"), before);
        }
    });
}

#[test]
fn where_nothing_is_no_process_is_started() {
    in_namespace(|| {
        break_tools();
        // Of an ordinary user's legacy tables nobody knows without looking.
        let expected = !is_ordinary_user();
        masquerade::delete(owner("cont1"), &[], expected).unwrap();
        hostport::delete(owner("cont1"), &[], expected).unwrap();
        assert_eq!(runs(), 0);
    });
}

#[test]
fn without_any_tool_delete_names_what_is_there() {
    in_namespace(|| {
        add_pod("cont1");
        // Of what leads to the chain only a program knows all.
        for program in ["iptables-restore", "ip6tables-restore"] {
            let foreign = format!("*nat\n:OTHER - [0:0]\n-A OTHER -j {MASQ}\nCOMMIT\n");
            run(program, &["--noflush"], &foreign);
        }
        let kept = save("iptables");
        hide_tools();
        assert!(matches!(
            masquerade::ready(Iptables),
            Err(Error::NoTool("iptables"))
        ));
        let error = masquerade::delete(owner("cont1"), &[], true)
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
