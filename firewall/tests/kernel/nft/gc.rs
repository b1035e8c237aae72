//! What GC finds.

use firewall::Backend::Nftables;
use firewall::{Family, Owner, hostport, masquerade};

use super::ruleset::{expect, nft, ruleset};
use super::{add_other_pod, add_pod, check_other_pod, in_namespace};
use crate::common::{nets, owner, ports};

#[test]
fn gc_takes_what_is_not_valid_and_nothing_else() {
    in_namespace(|| {
        let (addresses, mappings) = (
            nets(&["10.7.0.2/24"]),
            [crate::common::mapping(7070, hostport::Protocol::Tcp, "")],
        );
        for network in ["mynet1", "myne"] {
            let owner = Owner {
                network,
                ..owner("cont1")
            };
            masquerade::add(Nftables, owner, &addresses).unwrap();
            hostport::add(Nftables, owner, &ports(&mappings, &addresses)).unwrap();
        }
        nft("add table inet cni_plugins_masquerade
             add chain inet cni_plugins_masquerade masq_checks");
        // Host ports of the reference do not say whose they are.
        nft(super::delete::REFERENCE
            .split_inclusive("\n}\n")
            .next()
            .unwrap());
        add_other_pod("alive", 7);
        let before = ruleset();
        add_pod("dead");
        let second = Owner {
            ifname: "net1",
            ..owner("alive")
        };
        // Its port is another's, so that it has rules.
        hostport::add(Nftables, second, &ports(&mappings, &nets(&["10.1.2.9/24"]))).unwrap();
        nft(&format!(
            "add rule inet cni_plugins_masquerade masq_checks ip saddr 10.1.2.2 masquerade comment \"{}\"",
            super::COMMENT
        ));
        let valid = [owner("alive"), owner("unknown")];
        masquerade::gc("mynet", &valid).unwrap();
        let (mut found, done) = hostport::gc("mynet", &valid);
        done.unwrap();
        expect(&before, "");
        check_other_pod("alive", 7).unwrap();
        found.sort_by_key(|(family, mapping)| (*family != Family::V4, mapping.host_port));
        let ports: Vec<_> = found.iter().map(|(_, mapping)| mapping.host_port).collect();
        assert_eq!(ports, [53, 7070, 8080, 8080]);

        masquerade::gc("mynet", &[]).unwrap();
        hostport::gc("mynet", &[]).1.unwrap();
        let mut others = before.clone();
        others.retain(|line| !line.contains("net: mynet,"));
        expect(&others, "");
    });
}
