//! What DEL finds.

use firewall::Backend::{Iptables, Nftables};
use firewall::hostport::{self, Protocol};
use firewall::{Family, Owner, masquerade};

use super::ruleset::{expect, lines_with, nft, ruleset};
use super::{add_other_pod, add_pod, check_other_pod, check_pod, delete_pod, in_namespace};
use crate::common::{mapping, nets, owner, ports};

#[test]
fn four_deletes_of_one_pod_at_once_all_succeed() {
    in_namespace(|| {
        add_other_pod("other", 7);
        let before = ruleset();
        add_pod("cont1");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| delete_pod("cont1"));
            }
        });
        expect(&before, "");
        delete_pod("cont1");
        check_other_pod("other", 7).unwrap();
    });
}

#[test]
fn delete_returns_what_was_forwarded() {
    in_namespace(|| {
        assert_eq!(hostport::delete(owner("cont1"), &[], true).unwrap(), []);
        add_pod("cont1");
        add_other_pod("other", 7);
        let mut found = hostport::delete(owner("cont1"), &[], false).unwrap();
        found.sort_by_key(|(family, mapping)| (*family != Family::V4, mapping.host_port));
        let expected = [
            (Family::V4, mapping(53, Protocol::Udp, "192.168.77.1")),
            (Family::V4, mapping(8080, Protocol::Tcp, "")),
            (Family::V6, mapping(8080, Protocol::Tcp, "")),
        ];
        assert_eq!(found, expected);
        assert_eq!(hostport::delete(owner("cont1"), &[], false).unwrap(), []);
        let v6 = nets(&["fd00::2/64"]);
        let one = [mapping(1, Protocol::Sctp, "2001:db8::1")];
        hostport::add(Nftables, owner("cont1"), &ports(&one, &v6)).unwrap();
        let found = hostport::delete(owner("cont1"), &[], false).unwrap();
        assert_eq!(found, [(Family::V6, one[0])]);
    });
}

#[test]
fn what_both_backends_made_is_removed() {
    in_namespace(|| {
        if lab::find_tool("iptables").is_none() {
            return lab::skip("iptables is not installed");
        }
        let (addresses, mappings) = crate::pod();
        add_pod("cont1");
        let elements = lines_with(&[super::HASH]);
        masquerade::add(Iptables, owner("cont1"), &addresses).unwrap();
        hostport::add(Iptables, owner("cont1"), &ports(&mappings, &addresses)).unwrap();
        // As another release may have left them.
        nft(&elements.join("\n"));
        check_pod("cont1").unwrap();
        masquerade::check(Iptables, owner("cont1"), &addresses).unwrap();
        masquerade::delete(owner("cont1"), &[], true).unwrap();
        let found = hostport::delete(owner("cont1"), &[], true).unwrap();
        assert_eq!(found.len(), 6);
        assert!(masquerade::check(Iptables, owner("cont1"), &addresses).is_err());
        assert_eq!(lines_with(&["cont1"]), [""; 0]);
    });
}

#[test]
fn two_interfaces_of_one_pod_do_not_collide() {
    in_namespace(|| {
        add_pod("cont1");
        let before = ruleset();
        let second = Owner {
            ifname: "net1",
            ..owner("cont1")
        };
        let addresses = nets(&["10.1.2.77/24"]);
        let mappings = [mapping(9090, Protocol::Tcp, "")];
        masquerade::add(Nftables, second, &addresses).unwrap();
        hostport::add(Nftables, second, &ports(&mappings, &addresses)).unwrap();
        check_pod("cont1").unwrap();
        masquerade::check(Nftables, second, &addresses).unwrap();
        masquerade::delete(second, &[], true).unwrap();
        hostport::delete(second, &[], true).unwrap();
        expect(&before, "");
    });
}

/// What the reference plugins make of two containers, with a rule of somebody else in between.
pub const REFERENCE: &str = r#"
table ip cni_hostport { comment "CNI portmap plugin"
    chain hostports {
        tcp dport 8080 dnat to 10.1.2.2:80 comment "cont1"
        ip daddr 192.168.0.2 udp dport 8083 dnat to 10.1.2.2:83 comment "cont1"
        tcp dport 8081 dnat to 10.1.2.3:80 comment "cont10"
        tcp dport 1 accept
    }
    chain hostip_hostports { tcp dport 8082 dnat to 10.1.2.2:80 comment "cont1"; }
    chain hostports_all { jump hostip_hostports; jump hostports; }
    chain prerouting { type nat hook prerouting priority -100; fib daddr type local jump hostports_all; }
    chain masquerading { type nat hook postrouting priority 100;
        ip saddr 10.1.2.2 ip daddr 10.1.2.2 masquerade comment "cont1"
        ip saddr 127.0.0.1 ip daddr 10.1.2.2 masquerade comment "cont1"
    }
}
table ip6 cni_hostport {
    chain hostports { tcp dport 8080 dnat to [fd00::2]:80 comment "cont1"; }
}
table inet cni_plugins_masquerade {
    chain masq_checks {
        ip saddr 10.1.2.2 ip daddr != 10.1.2.0/24 masquerade comment "HASH, net: mynet, if: eth0, id: cont1"
        ip saddr 10.1.2.3 ip daddr != 10.1.2.0/24 masquerade comment "HASX, net: mynet, if: eth0, id: cont10"
    }
    chain postrouting { type nat hook postrouting priority 100; goto masq_checks; }
}
"#;

#[test]
fn delete_removes_what_the_reference_left() {
    in_namespace(|| {
        nft(&REFERENCE.replace("HASH", super::HASH));
        let whole = ruleset();
        // Its comments do not tell the interface: where the addresses do not either, nothing is done.
        let second = Owner {
            ifname: "net1",
            ..owner("cont1")
        };
        for unsure in [nets(&[]), nets(&["10.1.2.9/24"])] {
            assert_eq!(hostport::delete(second, &unsure, true).unwrap(), []);
            masquerade::delete(second, &unsure, true).unwrap();
            expect(&whole, "");
        }
        masquerade::delete(owner("cont1"), &[], true).unwrap();
        let mut found = hostport::delete(owner("cont1"), &[], true).unwrap();
        found.sort_by_key(|(family, mapping)| (*family != Family::V4, mapping.host_port));
        let udp = hostport::Mapping {
            container_port: 83,
            ..mapping(8083, Protocol::Udp, "192.168.0.2")
        };
        let expected = [
            (Family::V4, mapping(8080, Protocol::Tcp, "")),
            (Family::V4, mapping(8082, Protocol::Tcp, "")),
            (Family::V4, udp),
            (Family::V6, mapping(8080, Protocol::Tcp, "")),
        ];
        assert_eq!(found, expected);
        let mut others = whole.clone();
        others.retain(|line| !line.contains("cont1\""));
        expect(&others, "");
        assert_eq!(others.len(), whole.len() - 7);

        nft(&format!(
            "flush ruleset\n{}",
            REFERENCE.replace("HASH", super::HASH)
        ));
        let sure = nets(&["10.1.2.2/24", "fd00::2/64"]);
        assert_eq!(hostport::delete(second, &sure, true).unwrap().len(), 4);
    });
}
