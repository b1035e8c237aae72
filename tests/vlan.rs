//! Pods in VLANs of a bridge.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::net::IpAddr;
use std::time::Duration;

use net::Vlan;
use serde_json::{Value, json};
use tests::{Node, Pod, VALID, at, can_filter_vlans, sh, with};

/// For what is expected not to be answered.
const SHORTLY: Duration = Duration::from_millis(300);

/// ADD, and CHECK of what it returned; the result.
#[track_caller]
fn add(node: &Node, pod: &Pod, config: &Value) -> Value {
    let result = node.call("bridge", "ADD", pod, config, &[]).ok().clone();
    check(node, pod, config, &result).ok();
    result
}

#[track_caller]
fn check(node: &Node, pod: &Pod, config: &Value, result: &Value) -> tests::Answer {
    let config = with(config, "prevResult", result);
    node.call("bridge", "CHECK", pod, config, &[])
}

/// The VLANs of the host's end, or of what the result tells at another place.
fn vlans(node: &Node, result: &Value, place: usize) -> Vec<Vlan> {
    let name = result["interfaces"][place]["name"].as_str().unwrap();
    let netlink = node.namespace.netlink().unwrap();
    let link = netlink.link(name).unwrap().unwrap();
    netlink.vlans(link.index).unwrap()
}

fn address(result: &Value) -> IpAddr {
    let written = result["ips"][0]["address"].as_str().unwrap();
    at(written.split_once('/').unwrap().0)
}

/// An address without a gateway on the node: pods of several VLANs may share a subnet.
fn in_vlan(node: &Node, vlan: u16) -> Value {
    node.bridge_config(json!({ "isGateway": false, "vlan": vlan }))
}

#[test]
fn only_pods_of_one_vlan_reach_each_other() {
    let Some(node) = Node::with_vlans("apart") else {
        return;
    };
    let [one, other, apart, none] = ["one", "other", "apart", "none"].map(|name| node.pod(name));
    add(&node, &one, &in_vlan(&node, 100));
    let target = address(&add(&node, &other, &in_vlan(&node, 100)));
    add(&node, &apart, &in_vlan(&node, 200));
    add(&node, &none, &in_vlan(&node, 0));
    one.namespace.ping(target).unwrap();
    for pod in [&apart, &none] {
        let answered = pod.namespace.ping_within(target, SHORTLY);
        assert!(answered.is_err(), "{} got through", pod.id);
    }
}

#[test]
fn a_port_is_in_the_vlans_that_were_asked_for() {
    let untagged = Vlan {
        pvid: false,
        ..Vlan::native(1)
    };
    let trunk = json!([{ "minID": 7, "maxID": 9 }, { "id": 8 }, { "id": 200 }]);
    let tagged = [7, 8, 9, 200].map(Vlan::tagged);
    let table = [
        (json!({ "vlan": 100 }), vec![Vlan::native(100)]),
        (
            json!({ "vlan": 100, "preserveDefaultVlan": true }),
            vec![untagged, Vlan::native(100)],
        ),
        (
            json!({ "vlanTrunk": trunk }),
            [&[Vlan::native(1)], &tagged[..]].concat(),
        ),
        (
            json!({ "vlanTrunk": trunk, "vlan": 7 }),
            [&[Vlan::native(7)], &tagged[1..]].concat(),
        ),
        (json!({ "vlanTrunk": [] }), vec![Vlan::native(1)]),
        (
            json!({ "vlanTrunk": [{ "minID": 1, "maxID": 4094 }], "vlan": 5 }),
            {
                (1..=4094)
                    .map(|id| {
                        if id == 5 {
                            Vlan::native(5)
                        } else {
                            Vlan::tagged(id)
                        }
                    })
                    .collect()
            },
        ),
    ];
    for (keys, expected) in table {
        let Some(node) = Node::with_vlans("port") else {
            return;
        };
        let pod = node.pod("pod");
        let config = node.bridge_config(keys.clone());
        let result = add(&node, &pod, &config);
        assert_eq!(vlans(&node, &result, 1), expected, "{keys}");
        let netlink = node.namespace.netlink().unwrap();
        let bridge = netlink.link("cni0").unwrap().unwrap();
        assert!(bridge.vlans.unwrap().on, "{keys}");
        node.call("bridge", "DEL", &pod, &config, &[]).ok();
    }
}

/// A bridge may give its ports another VLAN than 1, or none.
#[test]
fn the_bridge_s_own_default_vlan_is_the_one_that_goes() {
    for (default, left) in [(9, json!(false)), (9, json!(true)), (0, json!(true))] {
        let Some(node) = Node::with_vlans("default") else {
            return;
        };
        let up = "ip link add cni0 up type bridge vlan_filtering 1 vlan_default_pvid";
        sh(&node.namespace, &format!("{up} {default}"));
        let keys = json!({ "vlan": 100, "preserveDefaultVlan": left });
        let result = add(&node, &node.pod("pod"), &node.bridge_config(keys));
        let mut expected = vec![Vlan::native(100)];
        if left == true && default != 0 {
            expected.insert(
                0,
                Vlan {
                    pvid: false,
                    ..Vlan::native(default)
                },
            );
        }
        assert_eq!(vlans(&node, &result, 1), expected, "{default} {left}");
    }
}

#[test]
fn check_notices_what_has_become_of_the_port_s_vlans() {
    let Some(node) = Node::with_vlans("noticed") else {
        return;
    };
    let pod = node.pod("pod");
    let keys = json!({ "vlan": 100, "vlanTrunk": [{ "id": 7 }], "isGateway": false });
    let config = node.bridge_config(keys);
    let result = add(&node, &pod, &config);
    let port = result["interfaces"][1]["name"].as_str().unwrap();
    let vlan = |what: &str| {
        format!(
            "bridge vlan {}",
            what.replace("PORT", &format!("dev {port}"))
        )
    };
    let filter = |on: u8| format!("ip link set cni0 type bridge vlan_filtering {on}");
    let mended = vlan("add PORT vid 100 pvid untagged");
    for (damage, mended, says) in [
        (
            filter(0),
            filter(1),
            "bridge \"cni0\" does not filter by VLAN",
        ),
        (vlan("del PORT vid 100"), mended.clone(), "not in VLAN 100"),
        (
            vlan("add PORT vid 100 untagged"),
            mended.clone(),
            "VLAN 100 untagged, not pvid",
        ),
        (
            vlan("add PORT vid 9 pvid"),
            format!("{mended}; {}", vlan("del PORT vid 9")),
            "VLAN 100",
        ),
        (
            vlan("del PORT vid 7"),
            vlan("add PORT vid 7"),
            "not in VLAN 7",
        ),
        (
            vlan("add PORT vid 1 untagged"),
            vlan("del PORT vid 1"),
            "in VLAN 1, the bridge's default",
        ),
    ] {
        sh(&node.namespace, &damage);
        let noticed = check(&node, &pod, &config, &result);
        noticed.expect_refused(&damage, 101, &[says]);
        sh(&node.namespace, &mended);
        check(&node, &pod, &config, &result).ok();
    }
    // An addition by others is fine.
    sh(&node.namespace, &vlan("add PORT vid 300"));
    check(&node, &pod, &config, &result).ok();
}

/// Its ports would all be on one network.
#[test]
fn a_bridge_that_does_not_filter_is_refused_before_anything_changes() {
    let Some(node) = Node::new("plain") else {
        return;
    };
    let pod = node.pod("pod");
    let capable = can_filter_vlans();
    sh(&node.namespace, "ip link add cni0 type bridge");
    let before = node.snapshot("testnet");
    for keys in [
        json!({ "vlan": 100 }),
        json!({ "vlanTrunk": [{ "id": 7 }] }),
    ] {
        let (key, _) = keys.as_object().unwrap().iter().next().unwrap();
        let (key, config) = (format!("{key}: "), node.bridge_config(keys.clone()));
        let (code, says) = match capable {
            true => (103, "vlan_filtering 1"),
            false => (100, "CONFIG_BRIDGE_VLAN_FILTERING"),
        };
        let answer = node.call("bridge", "ADD", &pod, &config, &[]);
        answer.expect_refused(&key, code, &[&key, says]);
        assert_eq!(node.snapshot("testnet"), before);
        assert!(!node.data.exists(), "an address was asked for");
        assert!(
            pod.namespace
                .netlink()
                .unwrap()
                .link("eth0")
                .unwrap()
                .is_none()
        );
        let status = with(&config, "cniVersion", &json!("1.1.0"));
        let status = node.call_network("STATUS", &status, &[]);
        status.expect_refused("STATUS", 50, &[&key, says]);
        node.call("bridge", "DEL", &pod, &config, &[]).ok();
    }
    // Without VLANs it serves.
    let plain = node.bridge_config(json!({ "preserveDefaultVlan": true, "vlan": 0 }));
    add(&node, &pod, &plain);
}

#[test]
fn a_kernel_that_cannot_filter_is_named_before_anything_changes() {
    let Some(node) = Node::new("kernel") else {
        return;
    };
    if can_filter_vlans() {
        return lab::skip("this kernel can filter a bridge by VLAN");
    }
    let pod = node.pod("pod");
    let before = node.snapshot("testnet");
    for (keys, key) in [
        (json!({ "vlan": 100 }), "vlan: 100: "),
        (
            json!({ "vlanTrunk": [{ "minID": 7, "maxID": 9 }] }),
            "vlanTrunk: 3 VLANs: ",
        ),
    ] {
        let config = node.bridge_config(keys);
        let says = [
            key,
            "this kernel cannot filter by VLAN",
            "CONFIG_BRIDGE_VLAN_FILTERING",
        ];
        let answer = node.call("bridge", "ADD", &pod, &config, &[]);
        answer.expect_refused(key, 100, &says);
        assert_eq!(node.snapshot("testnet"), before);
        assert!(!node.data.exists(), "an address was asked for");
        let status = with(&config, "cniVersion", &json!("1.1.0"));
        let status = node.call_network("STATUS", &status, &[]);
        status.expect_refused("STATUS", 50, &says);
        node.call("bridge", "DEL", &pod, &config, &[]).ok();
    }
}

#[test]
fn del_and_gc_leave_nothing_of_a_pod_but_what_all_share() {
    let Some(node) = Node::with_vlans("gone") else {
        return;
    };
    let config = node.bridge_config(json!({ "cniVersion": "1.1.0", "vlan": 100 }));
    let first = node.pod("first");
    let result = add(&node, &first, &config);
    let veth = result["interfaces"][1]["name"].as_str().unwrap().to_owned();
    let shared = |line: &str| !line.contains(&veth) && !line.contains("last_reserved_ip");
    let before = node.snapshot("testnet").filter(shared);
    node.call(
        "bridge",
        "DEL",
        &first,
        with(&config, "prevResult", &result),
        &[],
    )
    .ok();
    let after_del = node.snapshot("testnet");
    assert_eq!(after_del.links, before.links);
    assert!(after_del.reservations.is_empty(), "{after_del}");
    let second = add(&node, &node.pod("second"), &config);
    assert_eq!(second["interfaces"][3], result["interfaces"][3]);
    let gc = with(&config, VALID, &json!([]));
    node.call_network("GC", &gc, &[]).ok();
    assert_eq!(node.snapshot("testnet").links, before.links);
}
