//! CHECK of the bridge notices whatever was taken from a pod's connection, or changed in it.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use tests::{Attached, Damage, Family, World, sh, with, with_mounts};

const DUAL: &str = "20-dual-stack.conflist";

/// What brings back the pod's routes.
const ROUTES: &str = "ip $F route replace default via $GATEWAY dev eth0
                      ip $F route replace $PODS via $GATEWAY dev eth0";

#[test]
fn the_pod_s_interface() {
    let up = format!("ip link set eth0 up; {ROUTES}");
    let named = format!("ip link set eth7 down; ip link set eth7 name eth0; {up}");
    let own = format!(
        "ip link delete eth0; ip link set eth7 name eth0
         ip address add $IP/$LEN dev eth0 $NODAD; {up}"
    );
    let other = format!(
        "ip link set eth0 down; ip link set eth0 name eth7; ip address flush dev eth7
         ip link add eth0 address $POD_MAC type ifb
         ip address add $IP/$LEN dev eth0 $NODAD; {up}"
    );
    let table: &[Damage] = &[
        (
            "down",
            "ip link set eth0 down",
            &up,
            "interface eth0 of the pod is down",
        ),
        (
            "another MAC",
            "ip link set eth0 address 02:00:00:00:00:77",
            "ip link set eth0 address $POD_MAC",
            "doesn't match container Mac: 02:00:00:00:00:77",
        ),
        (
            "another name",
            "ip link set eth0 down; ip link set eth0 name eth7; ip link set eth7 up",
            &named,
            "interface eth0 was not found in the pod",
        ),
        (
            "another interface in its place",
            &other,
            &own,
            "Container interface eth0 not of type veth",
        ),
    ];
    for attached in Attached::of_each_family("check") {
        attached.expect_noticed("bridge", &attached.pod.namespace, table);
    }
}

#[test]
fn the_pod_s_address() {
    let delete = "ip address delete $IP/$LEN dev eth0";
    // Deleting the only address takes the routes along.
    let again = format!("ip address add $IP/$LEN dev eth0 $NODAD; {ROUTES}");
    let says = "Failed to match addr $IP/$LEN on interface eth0";
    let table: &[Damage] = &[
        ("address gone", delete, &again, says),
        (
            "another address",
            &format!("{delete}; ip address add $NINTH/$LEN dev eth0 $NODAD"),
            &format!("ip address delete $NINTH/$LEN dev eth0; {again}"),
            says,
        ),
        (
            "another prefix",
            &format!("{delete}; ip address add $IP/25 dev eth0 $NODAD"),
            &format!("ip address delete $IP/25 dev eth0; {again}"),
            says,
        ),
        (
            "the address on another interface",
            &format!(
                "{delete}; ip link add eth9 type bridge; ip link set eth9 up
                 ip address add $IP/$LEN dev eth9 $NODAD
                 ip $F route replace default via $GATEWAY"
            ),
            &format!("ip link delete eth9; {again}"),
            says,
        ),
    ];
    for attached in Attached::of_each_family("check") {
        attached.expect_noticed("bridge", &attached.pod.namespace, table);
    }
}

#[test]
fn the_pod_s_routes() {
    let default = "ip $F route add default via $GATEWAY";
    let no_default = "$ALL via $GATEWAY} not found";
    let table: &[Damage] = &[
        (
            "default route gone",
            "ip $F route delete default",
            default,
            no_default,
        ),
        (
            "default route to another gateway",
            "ip $F route replace default via $NINTH",
            "ip $F route replace default via $GATEWAY",
            no_default,
        ),
        (
            "default route by another interface",
            "ip link add eth9 type bridge; ip link set eth9 up
             ip $F route delete default
             ip $F route add $GATEWAY dev eth9; ip $F route add default via $GATEWAY dev eth9",
            &format!("ip link delete eth9; {default}"),
            no_default,
        ),
        (
            "a black hole for a default route",
            "ip $F route delete default; ip $F route add blackhole default",
            &format!("ip $F route delete default; {default}"),
            no_default,
        ),
        (
            "the other route gone",
            "ip $F route delete $PODS",
            "ip $F route add $PODS via $GATEWAY",
            "$PODS via $GATEWAY} not found",
        ),
        (
            "the other route to another gateway",
            "ip $F route replace $PODS via $NINTH",
            "ip $F route replace $PODS via $GATEWAY",
            "$PODS via $GATEWAY} not found",
        ),
        (
            "the network's own route gone",
            "ip $F route delete $NET",
            "ip $F route add $NET dev eth0 proto kernel",
            "$NET} not found",
        ),
    ];
    for attached in Attached::of_each_family("check") {
        attached.expect_noticed("bridge", &attached.pod.namespace, table);
    }
}

/// One family of two: the other is as it was. And what there is of IPv6 alone.
#[test]
fn the_ipv6_side_of_a_pod() {
    let Some(attached) = Attached::new("check6", DUAL, &[], &Value::Null) else {
        return;
    };
    let again = "ip address add fd00:10:244::2/64 dev eth0 nodad
                 ip route replace default via fd00:10:244::1 dev eth0";
    let table: &[Damage] = &[
        (
            "address gone",
            "ip address delete fd00:10:244::2/64 dev eth0",
            again,
            "Failed to match addr fd00:10:244::2/64 on interface eth0",
        ),
        (
            "another prefix",
            "ip address delete fd00:10:244::2/64 dev eth0
             ip address add fd00:10:244::2/72 dev eth0 nodad",
            &format!("ip address delete fd00:10:244::2/72 dev eth0; {again}"),
            "Failed to match addr fd00:10:244::2/64 on interface eth0",
        ),
        (
            "default route gone",
            "ip -6 route delete default",
            "ip route add default via fd00:10:244::1",
            "::/0 via fd00:10:244::1} not found",
        ),
        (
            "default route to another gateway",
            "ip -6 route delete default; ip route add default via fd00:10:244::9",
            "ip -6 route delete default; ip route add default via fd00:10:244::1",
            "::/0 via fd00:10:244::1} not found",
        ),
        (
            "IPv6 off",
            "echo 1 > /proc/sys/net/ipv6/conf/eth0/disable_ipv6",
            &format!("echo 0 > /proc/sys/net/ipv6/conf/eth0/disable_ipv6; {again}"),
            "Failed to match addr fd00:10:244::2/64 on interface eth0",
        ),
        (
            "IPv6 off on the loopback",
            "echo 1 > /proc/sys/net/ipv6/conf/lo/disable_ipv6",
            "echo 0 > /proc/sys/net/ipv6/conf/lo/disable_ipv6",
            "sysctl net/ipv6/conf/lo/disable_ipv6 is 1, not 0",
        ),
        (
            "the address not kept on a link that goes down",
            "echo 0 > /proc/sys/net/ipv6/conf/eth0/keep_addr_on_down",
            "echo 1 > /proc/sys/net/ipv6/conf/eth0/keep_addr_on_down",
            "sysctl net/ipv6/conf/eth0/keep_addr_on_down is 0, not 1",
        ),
    ];
    attached.expect_noticed("bridge", &attached.pod.namespace, table);
}

#[test]
fn the_ipv6_side_of_the_node() {
    let Some(attached) = Attached::new("check6", DUAL, &[], &Value::Null) else {
        return;
    };
    let table: &[Damage] = &[
        (
            "the gateway's address gone",
            "ip address delete fd00:10:244::1/64 dev cni0",
            "ip address add fd00:10:244::1/64 dev cni0 nodad",
            "Failed to match addr fd00:10:244::1/64 on interface cni0",
        ),
        (
            "the reservation gone",
            "rm $STORE/fd00:10:244::2",
            "printf 'pod\\r\\neth0' > $STORE/fd00:10:244::2",
            "fd00:10:244::2",
        ),
    ];
    attached.expect_noticed("bridge", &attached.node.namespace, table);
}

#[test]
fn the_host_veth() {
    for attached in Attached::of_each_family("check") {
        let netlink = attached.node.namespace.netlink().unwrap();
        let group = netlink.link(attached.veth()).unwrap().unwrap().group;
        let regroup = format!("ip link set $VETH group {group}");
        let port = "ip link set $VETH master cni0; ip link set $VETH type bridge_slave hairpin on";
        let table: &[Damage] = &[
            (
                "off the bridge",
                "ip link set $VETH nomaster",
                port,
                "$VETH is no port of cni0",
            ),
            (
                "a port of another bridge",
                "ip link add br1 type bridge; ip link set $VETH master br1
                 ip link set $VETH type bridge_slave hairpin on",
                &format!("{port}; ip link delete br1"),
                "$VETH is no port of cni0",
            ),
            (
                "down",
                "ip link set $VETH down",
                "ip link set $VETH up",
                "interface $VETH is down",
            ),
            (
                "hairpin off",
                "ip link set $VETH type bridge_slave hairpin off",
                "ip link set $VETH type bridge_slave hairpin on",
                "port $VETH has hairpin false",
            ),
            (
                "isolated",
                "ip link set $VETH type bridge_slave isolated on",
                "ip link set $VETH type bridge_slave isolated off",
                "isolated true",
            ),
            (
                "no alias, by which GC knows it",
                "ip link set $VETH alias ''",
                "ip link set $VETH alias $NETWORK/pod/eth0",
                "interface $VETH has group",
            ),
            (
                "another group",
                "ip link set $VETH group 7",
                &regroup,
                "interface $VETH has group 7",
            ),
        ];
        attached.expect_noticed("bridge", &attached.node.namespace, table);
    }
}

#[test]
fn the_bridge_and_the_reservation() {
    let gateway = "$GATEWAY/$LEN dev cni0";
    let no_gateway = "Failed to match addr $GATEWAY/$LEN on interface cni0";
    let reserve = "printf 'pod\\r\\neth0' > $STORE/$IP";
    let table: &[Damage] = &[
        (
            "the bridge down",
            "ip link set cni0 down",
            // IPv6 loses an address that way, unless it is told to keep it.
            &format!("ip link set cni0 up; ip address replace {gateway} $NODAD"),
            "bridge cni0 is down",
        ),
        (
            "the bridge with another MAC",
            "ip link set cni0 address 02:00:00:00:00:77",
            "ip link set cni0 address $BRIDGE_MAC",
            "Bridge interface cni0 Mac doesn't match",
        ),
        (
            "the gateway's address gone",
            &format!("ip address delete {gateway}"),
            &format!("ip address add {gateway} $NODAD"),
            no_gateway,
        ),
        (
            "the gateway's address of another prefix",
            &format!("ip address delete {gateway}; ip address add $GATEWAY/16 dev cni0 $NODAD"),
            &format!("ip address delete $GATEWAY/16 dev cni0; ip address add {gateway} $NODAD"),
            no_gateway,
        ),
        ("the reservation gone", "rm $STORE/$IP", reserve, "$IP"),
        (
            "the reservation another pod's",
            "printf 'other\\r\\neth0' > $STORE/$IP",
            reserve,
            "$IP",
        ),
        (
            "the reservation another interface's",
            "printf 'pod\\r\\neth1' > $STORE/$IP",
            reserve,
            "$IP",
        ),
        ("the reservation empty", ": > $STORE/$IP", reserve, "$IP"),
    ];
    for attached in Attached::of_each_family("check") {
        attached.expect_noticed("bridge", &attached.node.namespace, table);
    }
}

#[test]
fn forwarding() {
    let of_ipv4 = ["net/ipv4/ip_forward", "net/ipv4/conf/cni0/forwarding"];
    let of_ipv6 = ["net/ipv6/conf/all/forwarding"];
    let table: [(&str, &[&str]); 3] = [
        (Family::V4.conflist(), &of_ipv4),
        (Family::V6.conflist(), &of_ipv6),
        (DUAL, &[of_ipv4[0], of_ipv4[1], of_ipv6[0]]),
    ];
    for (conflist, sysctls) in table {
        let Some(attached) = Attached::new("check", conflist, &[], &Value::Null) else {
            return;
        };
        for sysctl in sysctls {
            let set = |value: u8| format!("echo {value} > /proc/sys/{sysctl}");
            let says = format!("sysctl {sysctl} is 0, not 1");
            let damage: &[Damage] = &[(sysctl, &set(0), &set(1), &says)];
            attached.expect_noticed("bridge", &attached.node.namespace, damage);
        }
    }
}

#[test]
fn what_else_was_configured() {
    let changes =
        json!({ "hairpinMode": false, "promiscMode": true, "portIsolation": true, "mtu": 1400 });
    let conflist = Family::V4.conflist();
    let Some(attached) = Attached::new("check", conflist, &[("bridge", changes)], &Value::Null)
    else {
        return;
    };
    let table: &[Damage] = &[
        (
            "promiscuous mode off",
            "ip link set cni0 promisc off",
            "ip link set cni0 promisc on",
            "Bridge interface cni0 configured promisc Mode true doesn't match",
        ),
        (
            "not isolated",
            "ip link set $VETH type bridge_slave isolated off",
            "ip link set $VETH type bridge_slave isolated on",
            "isolated false",
        ),
        (
            "the host veth's MTU",
            "ip link set $VETH mtu 1300",
            "ip link set $VETH mtu 1400",
            "interface $VETH has mtu 1300, not 1400",
        ),
    ];
    attached.expect_noticed("bridge", &attached.node.namespace, table);
    let table: &[Damage] = &[(
        "the pod interface's MTU",
        "ip link set eth0 mtu 1300",
        "ip link set eth0 mtu 1400",
        "interface eth0 has mtu 1300, not 1400",
    )];
    attached.expect_noticed("bridge", &attached.pod.namespace, table);
}

/// Without the key `mtu`: by what the result tells, and by the other end in a version in which it
/// tells nothing.
#[test]
fn an_mtu_that_nobody_asked_for() {
    for version in ["1.0.0", "1.1.0"] {
        let changes = [("", json!({ "cniVersion": version }))];
        let Some(attached) = Attached::new("mtu", DUAL, &changes, &Value::Null) else {
            return;
        };
        let in_pod: &[Damage] = &[(
            "of the pod's interface",
            "ip link set eth0 mtu 1300",
            "ip link set eth0 mtu 1500",
            "interface eth0 has mtu 1300, not 1500",
        )];
        attached.expect_noticed("bridge", &attached.pod.namespace, in_pod);
        let says = match version {
            "1.0.0" => "interface eth0 has mtu 1500, not 1300",
            _ => "interface $VETH has mtu 1300, not 1500",
        };
        let on_node: &[Damage] = &[(
            "of the host veth",
            "ip link set $VETH mtu 1300",
            "ip link set $VETH mtu 1500",
            says,
        )];
        attached.expect_noticed("bridge", &attached.node.namespace, on_node);
    }
}

#[test]
fn what_cannot_be_mended() {
    // What is taken away, with what CHECK then says.
    let table = [
        (
            "ip link delete $VETH",
            "interface eth0 was not found in the pod",
        ),
        ("ip link delete cni0", "bridge cni0 was not found"),
        (
            "ip link delete cni0; ip link add cni0 type ifb; ip link set cni0 up",
            "Interface cni0 does not have link type of bridge",
        ),
        (
            "rm -r $STORE",
            "Failed to find address added by container pod",
        ),
    ];
    for (done, says) in table {
        for attached in Attached::of_each_family("check") {
            sh(&attached.node.namespace, &attached.expand(done));
            attached.noticed_by("bridge", says).unwrap();
        }
    }
}

/// What ADD could do without, as nobody may write it, CHECK does not ask for.
#[test]
fn sysctls_that_cannot_be_written() {
    let Some(world) = World::dual_stack("check-sysctls") else {
        return;
    };
    let bridge = &world.configs()[0];
    let pod = world.node.pod("pod");
    let read_only = [
        "mount -o bind /proc/sys /proc/sys".to_owned(),
        "mount -o remount,ro,bind /proc/sys".to_owned(),
    ];
    let call = |command: &str, config: &Value| {
        let process = with_mounts(&read_only, world.node.bin.join("bridge"));
        world.node.call_as(process, command, &pod, config, &[])
    };
    let added = call("ADD", bridge);
    let with_result = with(bridge, "prevResult", added.ok());
    call("CHECK", &with_result).ok();
    let here = world.node.call("bridge", "CHECK", &pod, &with_result, &[]);
    here.expect_refused("writable", 101, &["keep_addr_on_down is 0, not 1"]);
    world.del("bridge", &[with_result], &pod, &[]);
}
