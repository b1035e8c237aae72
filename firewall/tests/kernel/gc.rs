//! What GC finds of attachments whose ids nobody knows any more.

use firewall::Backend::Iptables;
use firewall::hostport::{self, Mapping, Protocol};
use firewall::{Family, Owner, masquerade};

use crate::common::{
    break_tools, hide_tools, in_namespace, is_ordinary_user, mapping, nets, owner, ports,
    rules_with, run, runs, save, variants,
};
use crate::{COMMENT, DN, DNAT_COMMENT, MASQ, add_pod, check_pod};

/// A pod of another network, with one address and one port.
fn add_elsewhere(owner: Owner) {
    let addresses = nets(&["10.9.0.2/24"]);
    masquerade::add(Iptables, owner, &addresses).unwrap();
    let mappings = [mapping(9090, Protocol::Tcp, "")];
    hostport::add(Iptables, owner, &ports(&mappings, &addresses)).unwrap();
}

/// GC of both kinds.
fn gc(valid: &[Owner]) -> Vec<(Family, Mapping)> {
    masquerade::gc("mynet", valid).unwrap();
    let (found, done) = hostport::gc("mynet", valid);
    done.unwrap();
    found
}

#[test]
fn gc_takes_what_is_not_valid_and_nothing_else() {
    in_namespace(|| {
        let others = ["mynet1", "myne"].map(|network| Owner {
            network,
            ..owner("cont1")
        });
        others.into_iter().for_each(add_elsewhere);
        add_pod("cont2");
        let expected = ["iptables", "ip6tables"].map(save);
        add_pod("cont1");
        let second = Owner {
            ifname: "net1",
            ..owner("cont2")
        };
        add_elsewhere(second);

        let mut found = gc(&[owner("cont2")]);
        assert_eq!(["iptables", "ip6tables"].map(save), expected);
        check_pod("cont2").unwrap();
        found.sort_by_key(|(family, mapping)| (*family != Family::V4, mapping.host_port));
        assert_eq!(
            found,
            [
                (Family::V4, mapping(53, Protocol::Udp, "192.168.77.1")),
                (Family::V4, mapping(8080, Protocol::Tcp, "")),
                (Family::V4, mapping(9090, Protocol::Tcp, "")),
                (Family::V6, mapping(8080, Protocol::Tcp, "")),
            ]
        );

        assert_eq!(gc(&[]).len(), 3);
        assert_eq!(rules_with("iptables", &[r#"\"mynet\""#]), [""; 0]);
        for other in others {
            masquerade::check(Iptables, other, &nets(&["10.9.0.2/24"])).unwrap();
        }
    });
}

#[test]
fn gc_recognises_what_the_reference_made() {
    in_namespace(|| {
        // One chain for all interfaces of the container, and the first releases' beside it.
        let snat = "CNI-SN-c729ec77c46fa9b53d651";
        let lines = format!(
            "*nat\n:CNI-HOSTPORT-DNAT - [0:0]\n:CNI-HOSTPORT-SNAT - [0:0]\n:{MASQ} - [0:0]\n\
             :{DN} - [0:0]\n:{snat} - [0:0]\n\
             -A POSTROUTING -s 10.1.2.2/32 -m comment {COMMENT} -j {MASQ}\n\
             -A {MASQ} -d 10.1.2.0/24 -m comment {COMMENT} -j ACCEPT\n\
             -A CNI-HOSTPORT-DNAT -p tcp -m comment {DNAT_COMMENT} -m multiport --dports 80 -j {DN}\n\
             -A {DN} -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.1.2.2:80\n\
             -A CNI-HOSTPORT-SNAT -m comment {} -j {snat}\n\
             -A {snat} -s 127.0.0.1/32 -j MASQUERADE\nCOMMIT\n",
            DNAT_COMMENT.replace("dnat", "snat")
        );
        run("iptables-restore", &["--noflush"], &lines);
        let whole = save("iptables");
        let by_another_interface = Owner {
            ifname: "net1",
            ..owner("cont1")
        };
        for valid in [owner("cont1"), by_another_interface] {
            assert_eq!(gc(&[valid]), []);
            assert_eq!(save("iptables"), whole);
        }
        assert_eq!(
            gc(&[owner("cont2")]),
            [(Family::V4, mapping(80, Protocol::Tcp, ""))]
        );
        assert_eq!(rules_with("iptables", &[MASQ, DN, snat]), [""; 0]);
        assert_eq!(rules_with("iptables", &["CNI-HOSTPORT-"]).len(), 2);
    });
}

#[test]
fn gc_finds_the_other_variants_rules_too() {
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
        // Twice over IPv4, once over IPv6.
        assert_eq!(gc(&[]).len(), 5);
        let other_save = restore.with_file_name(format!("iptables-{other}-save"));
        let left = run(other_save.to_str().unwrap(), &["-t", "nat"], "");
        assert!(!left.contains(DN) && !left.contains(MASQ), "{left}");
        assert_eq!(rules_with("iptables", &[DN, MASQ]), [""; 0]);
    });
}

#[test]
fn where_gc_can_find_nothing_no_process_is_started() {
    in_namespace(|| {
        let (own, _) = variants();
        if own == "nft" {
            add_pod("cont1");
        }
        break_tools();
        assert_eq!(gc(&[owner("cont1")]), []);
        assert_eq!(runs(), 0);
    });
}

#[test]
fn without_any_tool_gc_says_so_where_something_may_be_there() {
    in_namespace(|| {
        add_pod("cont1");
        hide_tools();
        let (found, done) = hostport::gc("mynet", &[]);
        assert_eq!(found, []);
        for error in [done, masquerade::gc("mynet", &[])] {
            let error = error.unwrap_err().to_string();
            assert!(error.contains("iptables not found"), "{error}");
            assert!(error.contains("IPv4") && error.contains("IPv6"), "{error}");
        }
        let (own, _) = variants();
        if own == "nft" {
            gc(&[owner("cont1")]);
        }
    });
}
