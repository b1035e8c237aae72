use std::time::Duration;

use net::{Bridge, Error, Link, Netlink, PortFlags, PortState, Veth};

use crate::{BRIDGE_MAC, HOST_MAC, Lab, POD_MAC, link, namespaces, run};

#[test]
fn bridge_and_veth_read_back_as_made() {
    let Some(lab) = Lab::new() else { return };
    let bridge = Link {
        index: lab.bridge.index,
        name: "br0".to_owned(),
        mac: Some(BRIDGE_MAC),
        mtu: 1400,
        kind: "bridge".to_owned(),
        up: true,
        tx_queue: 1000,
        // Only where the kernel has them.
        vlans: lab.bridge.vlans,
        ..Link::default()
    };
    assert_eq!(lab.bridge, bridge);
    let host = Link {
        index: lab.host.index,
        name: "veth0".to_owned(),
        mac: Some(HOST_MAC),
        mtu: 1400,
        kind: "veth".to_owned(),
        up: true,
        master: Some(lab.bridge.index),
        peer: Some(lab.eth0.index),
        peer_elsewhere: true,
        group: 77,
        tx_queue: 1000,
        port: Some(PortFlags::default()),
        // The other end is down.
        port_state: Some(PortState::Disabled),
        ..Link::default()
    };
    assert_eq!(lab.host, host);
    let eth0 = Link {
        index: lab.eth0.index,
        name: "eth0".to_owned(),
        mac: Some(POD_MAC),
        mtu: 1400,
        kind: "veth".to_owned(),
        peer: Some(lab.host.index),
        peer_elsewhere: true,
        tx_queue: 1000,
        ..Link::default()
    };
    assert_eq!(lab.eth0, eth0);
}

#[test]
fn the_state_of_a_port_is_told() {
    let Some(lab) = Lab::new() else { return };
    let state = || link(&lab.node, "veth0").port_state;
    lab.pod.set_up(lab.eth0.index).expect("up");
    lab.node
        .wait_oper_up(lab.host.index, Duration::from_secs(5))
        .expect("carrier");
    assert_eq!(state(), Some(PortState::Forwarding));
    // The kernel opens a blocked one again by itself.
    for (number, told) in [
        (1, PortState::Listening),
        (2, PortState::Learning),
        (3, PortState::Forwarding),
    ] {
        let set = format!("link set veth0 type bridge_slave state {number}");
        if run(&lab.node_netns, "ip", &set).is_none() {
            return;
        }
        assert_eq!(state(), Some(told));
    }
    assert_eq!(link(&lab.node, "br0").port_state, None);
}

#[test]
fn a_link_is_found_by_name_and_by_index_and_in_the_list() {
    let Some(lab) = Lab::new() else { return };
    assert_eq!(
        lab.node.link_by_index(lab.host.index).expect("get"),
        Some(lab.host.clone())
    );
    assert!(lab.node.links().expect("list").contains(&lab.host));
    assert_eq!(lab.node.link("nowhere").expect("get"), None);
    assert_eq!(lab.node.link("a-name-of-sixteen").expect("get"), None);
    assert_eq!(lab.node.link("").expect("get"), None);
    assert_eq!(lab.node.link("a\0b").expect("get"), None);
    assert_eq!(lab.node.link_by_index(9999).expect("get"), None);
}

#[test]
fn defaults_where_nothing_is_asked() {
    let Some((node_netns, pod_netns)) = namespaces() else {
        return;
    };
    let node = Netlink::in_netns(&node_netns).expect("socket");
    node.create_bridge(&Bridge {
        name: "br0",
        mac: None,
        mtu: None,
        vlan_filtering: false,
    })
    .expect("bridge");
    assert_eq!(link(&node, "br0").mtu, 1500);
    let veth = Veth {
        name: "veth0",
        mac: None,
        group: 0,
        mtu: None,
        master: None,
        peer_name: "eth0",
        peer_mac: None,
        peer_netns: &pod_netns,
    };
    node.create_veth(&veth).expect("veth");
    let host = link(&node, "veth0");
    assert!(host.mac.is_some() && host.mtu == 1500 && host.master.is_none() && host.group == 0);
    let pod = Netlink::in_netns(&pod_netns).expect("socket");
    assert!(!link(&pod, "eth0").up);
}

#[test]
fn a_taken_name_is_refused_and_leaves_nothing() {
    let Some(lab) = Lab::new() else { return };
    let eexist = nix::errno::Errno::EEXIST as i32;
    let bridge = Bridge {
        name: "br0",
        mac: None,
        mtu: None,
        vlan_filtering: false,
    };
    let error = lab.node.create_bridge(&bridge).expect_err("taken");
    assert_eq!(error.errno(), Some(eexist));
    assert!(
        error
            .to_string()
            .starts_with("create bridge br0: File exists"),
        "{error}"
    );
    let veth = Veth {
        name: "veth1",
        mac: None,
        group: 0,
        mtu: None,
        master: None,
        // Taken in the pod.
        peer_name: "eth0",
        peer_mac: None,
        peer_netns: &lab.pod_netns,
    };
    let error = lab.node.create_veth(&veth).expect_err("taken");
    assert_eq!(error.errno(), Some(eexist));
    assert_eq!(lab.node.link("veth1").expect("get"), None);
}

#[test]
fn a_name_that_cannot_be_is_named() {
    let Some((node_netns, _)) = namespaces() else {
        return;
    };
    let node = Netlink::in_netns(&node_netns).expect("socket");
    for name in ["", "sixteen-bytes-xx", "a\0b", "a/b", ".."] {
        let bridge = Bridge {
            name,
            mac: None,
            mtu: None,
            vlan_filtering: false,
        };
        let error = node.create_bridge(&bridge).expect_err(name);
        assert!(
            matches!(&error, Error::InvalidName(named) if named == name),
            "{error}"
        );
    }
}

#[test]
fn ifb_reads_back_as_made() {
    let Some((node_netns, _)) = namespaces() else {
        return;
    };
    let node = Netlink::in_netns(&node_netns).expect("socket");
    node.create_ifb("bwp0", Some(HOST_MAC), 5, 1400)
        .expect("ifb");
    let ifb = link(&node, "bwp0");
    let wanted = Link {
        index: ifb.index,
        name: "bwp0".to_owned(),
        mac: Some(HOST_MAC),
        mtu: 1400,
        kind: "ifb".to_owned(),
        up: true,
        group: 5,
        tx_queue: 0,
        oper_up: ifb.oper_up,
        ..Link::default()
    };
    assert_eq!(ifb, wanted);
}

#[test]
fn what_is_set_reads_back() {
    let Some(lab) = Lab::new() else { return };
    let index = lab.host.index;
    lab.node.set_alias(index, "pods/0123/eth0").expect("alias");
    lab.node.set_mac(index, POD_MAC).expect("mac");
    lab.node.set_promiscuous(index).expect("promiscuous");
    lab.node
        .set_port(
            index,
            PortFlags {
                hairpin: true,
                isolated: false,
            },
        )
        .expect("port");
    let host = link(&lab.node, "veth0");
    assert_eq!(host.alias, "pods/0123/eth0");
    assert_eq!(host.mac, Some(POD_MAC));
    assert!(host.promiscuous);
    assert_eq!(
        host.port,
        Some(PortFlags {
            hairpin: true,
            isolated: false
        })
    );
    lab.node
        .set_port(
            index,
            PortFlags {
                hairpin: false,
                isolated: true,
            },
        )
        .expect("port");
    assert_eq!(
        link(&lab.node, "veth0").port,
        Some(PortFlags {
            hairpin: false,
            isolated: true
        })
    );
    lab.node
        .set_alias(index, &"x".repeat(255))
        .expect("longest alias");
    lab.node
        .set_alias(index, &"x".repeat(256))
        .expect_err("alias too long");
}

#[test]
fn deleting_twice_says_so() {
    let Some(lab) = Lab::new() else { return };
    assert!(lab.node.delete_link(lab.host.index).expect("delete"));
    assert!(!lab.node.delete_link(lab.host.index).expect("delete again"));
    assert_eq!(lab.pod.link("eth0").expect("get"), None);
}

#[test]
fn the_kernels_own_words_are_in_the_error() {
    let Some(lab) = Lab::new() else { return };
    let error = lab
        .node
        .set_alias(1, &"x".repeat(256))
        .expect_err("too long");
    let Error::Kernel { text, .. } = &error else {
        panic!("{error:?}")
    };
    assert_eq!(text, "Attribute failed policy validation");
    assert!(error.to_string().contains(&format!("({text})")), "{error}");
}

#[test]
fn a_link_is_waited_for_until_it_is_up() {
    let Some(lab) = Lab::new() else { return };
    let error = lab
        .node
        .wait_oper_up(lab.host.index, Duration::ZERO)
        .expect_err("peer is down");
    assert!(
        error
            .to_string()
            .contains("veth0 is set up but not operationally up"),
        "{error}"
    );
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let node = Netlink::in_netns(&lab.node_netns).expect("socket");
            node.wait_oper_up(lab.host.index, Duration::from_secs(60))
        });
        lab.pod.set_up(lab.eth0.index).expect("up");
        waiter.join().expect("thread").expect("operationally up");
    });
    assert!(link(&lab.node, "veth0").oper_up);
}

#[test]
fn a_link_that_vanishes_ends_the_wait() {
    let Some(lab) = Lab::new() else { return };
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let node = Netlink::in_netns(&lab.node_netns).expect("socket");
            node.wait_oper_up(lab.host.index, Duration::from_secs(60))
        });
        lab.node.delete_link(lab.host.index).expect("delete");
        let error = waiter.join().expect("thread").expect_err("vanished");
        assert!(error.to_string().contains("has vanished"), "{error}");
    });
}

#[test]
fn lists_are_whole_while_links_come_and_go() {
    let Some((node_netns, _)) = namespaces() else {
        return;
    };
    let node = Netlink::in_netns(&node_netns).expect("socket");
    for number in 0..40 {
        node.create_ifb(&format!("stays{number}"), None, 0, 1500)
            .expect("ifb");
    }
    std::thread::scope(|scope| {
        for thread in 0..10 {
            let node_netns = &node_netns;
            scope.spawn(move || {
                let node = Netlink::in_netns(node_netns).expect("socket");
                for _ in 0..10 {
                    let name = format!("goes{thread}");
                    node.create_ifb(&name, None, 0, 1500).expect("ifb");
                    let links = node.links().expect("list");
                    let stays = links.iter().filter(|link| link.name.starts_with("stays"));
                    assert_eq!(stays.count(), 40);
                    assert!(node.delete_link(link(&node, &name).index).expect("delete"));
                }
            });
        }
    });
}
