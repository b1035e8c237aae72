use std::time::Duration;

use ipnet::IpNet;
use net::{Address, Netlink, sysctl};

use crate::{Lab, POD_MAC, link, namespaces, run};

fn net(text: &str) -> IpNet {
    text.parse().expect(text)
}

fn nets(addresses: &[Address]) -> Vec<String> {
    let global = addresses.iter().filter(|address| address.global);
    global.map(|address| address.net.to_string()).collect()
}

#[test]
fn addresses_read_back_and_go_away() {
    let Some(lab) = Lab::new() else { return };
    let index = lab.eth0.index;
    lab.pod
        .add_address(index, net("10.244.0.5/24"), false)
        .expect("IPv4");
    lab.pod
        .add_address(index, net("10.9.9.9/32"), false)
        .expect("IPv4 /32");
    lab.pod
        .add_address(index, net("fd00::5/64"), true)
        .expect("IPv6");
    let addresses = lab.pod.addresses(index).expect("list");
    assert_eq!(
        nets(&addresses),
        ["10.244.0.5/24", "10.9.9.9/32", "fd00::5/64"]
    );
    let error = lab
        .pod
        .add_address(index, net("10.244.0.5/24"), false)
        .expect_err("twice");
    assert_eq!(error.errno(), Some(nix::errno::Errno::EEXIST as i32));
    let all = lab.pod.all_addresses().expect("list all");
    let of_eth0 = all.iter().filter(|(of, _)| *of == index);
    assert!(of_eth0.map(|(_, address)| address).eq(&addresses));
    // Another link's are not among them.
    assert_eq!(
        nets(&lab.node.addresses(lab.bridge.index).expect("list")),
        [""; 0]
    );
    lab.pod
        .delete_address(index, net("10.244.0.5/24"))
        .expect("delete");
    lab.pod
        .delete_address(index, net("fd00::5/64"))
        .expect("delete");
    assert_eq!(
        nets(&lab.pod.addresses(index).expect("list")),
        ["10.9.9.9/32"]
    );
    lab.pod
        .delete_address(index, net("10.244.0.5/24"))
        .expect_err("delete twice");
}

#[test]
fn ipv4_has_its_broadcast_address() {
    let Some(lab) = Lab::new() else { return };
    lab.pod
        .add_address(lab.eth0.index, net("10.244.0.5/24"), false)
        .expect("address");
    if let Some(text) = run(&lab.pod_netns, "ip", "-4 -o address show dev eth0") {
        let line = "inet 10.244.0.5/24 brd 10.244.0.255 scope global";
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn a_loopback_address_is_as_the_kernel_s_own() {
    let Some((netns, _)) = namespaces() else {
        return;
    };
    let netlink = Netlink::in_netns(&netns).expect("socket");
    let lo = link(&netlink, "lo").index;
    netlink.set_up(lo).expect("up");
    assert!(link(&netlink, "lo").up);
    let both = netlink.addresses(lo).expect("list");
    let told = both.iter().map(|address| address.net.to_string());
    assert_eq!(told.collect::<Vec<_>>(), ["127.0.0.1/8", "::1/128"]);
    assert!(both.iter().all(|address| !address.global));
    for address in &both {
        let net = address.net;
        netlink.delete_address(lo, net).expect("delete");
        netlink.add_address(lo, net, true).expect("add");
    }
    assert_eq!(netlink.addresses(lo).expect("list"), both);
    netlink.set_down(lo).expect("down");
    assert!(!link(&netlink, "lo").up);
}

#[test]
fn without_detection_no_address_is_tentative() {
    let Some(lab) = Lab::new() else { return };
    let index = lab.eth0.index;
    lab.pod
        .add_address(index, net("fd00::5/64"), true)
        .expect("address");
    let addresses = lab.pod.addresses(index).expect("list");
    let address = addresses
        .iter()
        .find(|address| address.global)
        .expect("address");
    assert!(!address.tentative && !address.dad_failed);
}

#[test]
fn an_address_is_waited_for_until_it_is_in_use() {
    let Some(lab) = Lab::new() else { return };
    let index = lab.eth0.index;
    lab.pod.set_up(index).expect("up");
    let address = "fd00::5".parse().expect("address");
    let in_use = |limit| lab.pod.wait_in_use(index, &[address], limit);
    assert!(!in_use(Duration::ZERO).expect("look"));
    lab.pod
        .add_address(index, net("fd00::5/64"), true)
        .expect("address");
    assert!(in_use(Duration::from_secs(60)).expect("wait"));
    // Of another link it is none.
    let lo = link(&lab.pod, "lo").index;
    let of_another = lab.pod.wait_in_use(lo, &[address], Duration::ZERO);
    assert!(!of_another.expect("look"));
    assert!(
        lab.pod
            .wait_in_use(index, &[], Duration::ZERO)
            .expect("none")
    );
}

#[test]
fn detection_is_waited_for() {
    let Some(lab) = Lab::new() else { return };
    let index = lab.eth0.index;
    lab.pod.set_up(index).expect("up");
    lab.node
        .wait_oper_up(lab.host.index, Duration::from_secs(60))
        .expect("up");
    lab.pod
        .add_address(index, net("fd00::5/64"), false)
        .expect("address");
    let error = lab
        .pod
        .wait_addresses(index, Duration::ZERO)
        .expect_err("still tentative");
    assert!(
        error
            .to_string()
            .contains("link eth0 still has tentative addresses after 0ns: "),
        "{error}"
    );
    lab.pod
        .wait_addresses(index, Duration::from_secs(60))
        .expect("detection ends");
    assert!(
        lab.pod
            .addresses(index)
            .expect("list")
            .iter()
            .all(|address| !address.tentative)
    );
}

#[test]
fn a_duplicate_is_named() {
    let Some(lab) = Lab::new() else { return };
    // The bridge has the address already.
    lab.node
        .add_address(lab.bridge.index, net("fd00::5/64"), true)
        .expect("address");
    lab.pod.set_up(lab.eth0.index).expect("up");
    lab.node
        .wait_oper_up(lab.host.index, Duration::from_secs(60))
        .expect("up");
    lab.node
        .wait_oper_up(lab.bridge.index, Duration::from_secs(60))
        .expect("up");
    lab.pod
        .add_address(lab.eth0.index, net("fd00::5/64"), false)
        .expect("address");
    let pod = Netlink::in_netns(&lab.pod_netns).expect("socket");
    let error = pod
        .wait_addresses(lab.eth0.index, Duration::from_secs(60))
        .expect_err("duplicate");
    assert!(
        error
            .to_string()
            .contains("link eth0 has address fd00::5 in DADFAILED state"),
        "{error}"
    );
}

#[test]
fn what_neighbours_remember_is_put_right() {
    let Some(lab) = Lab::new() else { return };
    let index = lab.eth0.index;
    for (netlink, link, address) in [
        (&lab.node, lab.bridge.index, "10.244.0.1/24"),
        (&lab.node, lab.bridge.index, "fd00::1/64"),
        (&lab.pod, index, "10.244.0.5/24"),
        (&lab.pod, index, "fd00::5/64"),
    ] {
        let added = netlink.add_address(link, net(address), true);
        added.expect(address);
    }
    lab.pod.set_up(index).expect("up");
    lab.node
        .wait_oper_up(lab.host.index, Duration::from_secs(60))
        .expect("up");
    let set = || {
        for path in ["ipv4/conf/eth0/arp_notify", "ipv6/conf/eth0/ndisc_notify"] {
            sysctl::write(&format!("net/{path}"), "1").expect(path);
        }
    };
    lab.pod_netns.enter(set).expect("enter");
    let old = "02:00:00:00:00:77";
    for address in ["10.244.0.5", "fd00::5"] {
        let words = format!("neigh add {address} lladdr {old} nud reachable dev br0");
        if run(&lab.node_netns, "ip", &words).is_none() {
            return;
        }
    }
    lab.pod.announce(index).expect("announce");
    for address in ["10.244.0.5", "fd00::5"] {
        let words = format!("neigh show {address} dev br0");
        let known = run(&lab.node_netns, "ip", &words).expect("ip");
        assert!(known.contains(&POD_MAC.to_string()), "{known}");
    }
    let same = lab.pod.link("eth0").expect("get").expect("link");
    assert_eq!(same.mac, Some(POD_MAC));
    let error = lab.pod.announce(9999).expect_err("no such link");
    assert!(error.to_string().contains("announce link 9999"), "{error}");
}
