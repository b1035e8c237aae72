//! VLANs of bridges and their ports, where the kernel has them.

use net::{Bridge, Errno, Filtering, Link, Netlink, Netns, Veth, Vlan};

use crate::{link, namespaces, run};

const BRIDGE: Bridge = Bridge {
    name: "br0",
    mac: None,
    mtu: None,
    vlan_filtering: true,
};

/// A node with a bridge that filters by VLAN and a port of it; `None`, said aloud, where this
/// kernel cannot.
struct Lab {
    node: Netlink,
    netns: Netns,
    _pod: Netns,
    bridge: Link,
    port: Link,
}

impl Lab {
    fn new() -> Option<Lab> {
        let (netns, pod) = namespaces()?;
        let node = Netlink::in_netns(&netns).expect("socket");
        if let Err(error) = node.create_bridge(&BRIDGE) {
            assert!(error.is(Errno::EOPNOTSUPP), "{error}");
            assert_eq!(node.link("br0").expect("get"), None, "half a bridge");
            lab::skip("this kernel has no VLANs of bridges");
            return None;
        }
        let bridge = link(&node, "br0");
        let veth = Veth {
            name: "veth0",
            mac: None,
            group: 0,
            mtu: None,
            master: Some(bridge.index),
            peer_name: "eth0",
            peer_mac: None,
            peer_netns: &pod,
        };
        node.create_veth(&veth).expect("veth");
        let port = link(&node, "veth0");
        Some(Lab {
            node,
            netns,
            _pod: pod,
            bridge,
            port,
        })
    }

    /// The port's line of `bridge vlan show`, or nothing where there is no such program.
    fn shown(&self) -> Option<String> {
        run(&self.netns, "bridge", "-compressvlans vlan show dev veth0")
    }

    fn vlans(&self) -> Vec<Vlan> {
        self.node.vlans(self.port.index).expect("list")
    }
}

#[test]
fn a_bridge_tells_how_it_deals_with_vlans() {
    let Some(lab) = Lab::new() else { return };
    let filtering = |on| {
        Some(Filtering {
            on,
            default_pvid: 1,
        })
    };
    assert_eq!(lab.bridge.vlans, filtering(true));
    assert_eq!(lab.port.vlans, None);
    let plain = Bridge {
        name: "br1",
        vlan_filtering: false,
        ..BRIDGE
    };
    lab.node.create_bridge(&plain).expect("bridge");
    assert_eq!(link(&lab.node, "br1").vlans, filtering(false));
}

#[test]
fn a_port_s_vlans_read_back_as_set() {
    let Some(lab) = Lab::new() else { return };
    assert_eq!(lab.vlans(), [Vlan::native(1)]);
    let mut wanted = vec![Vlan::tagged(7)];
    wanted.extend((10..=20).map(Vlan::tagged));
    wanted.push(Vlan::native(100));
    lab.node.add_vlans(lab.port.index, &wanted).expect("add");
    lab.node.delete_vlans(lab.port.index, &[1]).expect("delete");
    assert_eq!(lab.vlans(), wanted);
    if let Some(shown) = lab.shown() {
        let words: Vec<&str> = shown.split_whitespace().skip(2).collect();
        let expected = "veth0 7 10-20 100 PVID Egress Untagged";
        assert_eq!(words.join(" "), expected);
    }
}

#[test]
fn a_change_that_is_made_already_is_no_error() {
    let Some(lab) = Lab::new() else { return };
    for _ in 0..2 {
        let wanted = [Vlan::native(100)];
        lab.node.add_vlans(lab.port.index, &wanted).expect("add");
        let gone = lab.node.delete_vlans(lab.port.index, &[1, 3]);
        gone.expect("delete");
        assert_eq!(lab.vlans(), wanted);
    }
    // Flags are set, not added to.
    let tagged = [Vlan::tagged(100)];
    lab.node.add_vlans(lab.port.index, &tagged).expect("add");
    assert_eq!(lab.vlans(), tagged);
}

#[test]
fn all_vlans_there_are_fit_into_one_message() {
    let Some(lab) = Lab::new() else { return };
    let odd: Vec<Vlan> = (3..=4094).step_by(2).map(Vlan::tagged).collect();
    lab.node.add_vlans(lab.port.index, &odd).expect("add");
    assert_eq!(lab.vlans().len(), odd.len() + 1);
    let all: Vec<Vlan> = (2..=4094).map(Vlan::tagged).collect();
    lab.node.add_vlans(lab.port.index, &all).expect("add");
    assert_eq!(lab.vlans().len(), 4094);
}

#[test]
fn a_link_that_is_no_port_has_no_vlans() {
    let Some(lab) = Lab::new() else { return };
    assert_eq!(lab.node.vlans(1).expect("list"), []);
    let refused = lab.node.add_vlans(1, &[Vlan::native(5)]);
    assert!(refused.expect_err("no port").is(Errno::EOPNOTSUPP));
}
