//! `podnet doctor` against a node in good order, and against faults of its kernel, made on purpose.

use serde_json::json;
use tests::{NETWORK, Patient, told};

#[test]
fn a_node_in_good_order_gives_no_finding() {
    for backend in ["iptables", "legacy", "nftables"] {
        let Some(patient) = Patient::with("doctor", backend) else {
            return;
        };
        patient
            .is_healthy()
            .unwrap_or_else(|said| panic!("{backend}: {said}"));
        let alone = patient.alone(&[]);
        assert_eq!(alone.status, 0, "{alone:?}");
        assert!(
            alone.stdout.contains("left_out=range-unrouted,"),
            "{alone:?}"
        );
        assert_eq!(told(&alone, "findings="), ["0"]);
        let json = patient.doctor("--output json");
        assert_eq!(json.ok()["findings"], json!([]));
        assert_eq!(json.json["node"], "k8sworker0");
        // Nothing is changed, and no table comes into being by being looked at.
        let before = patient.segment.nodes[0].snapshot(NETWORK);
        patient.doctor("");
        assert_eq!(patient.segment.nodes[0].snapshot(NETWORK), before);
    }
}

#[test]
fn routes() {
    let Some(patient) = Patient::new("doctor") else {
        return;
    };
    patient.expect_found(&[
        (
            "a route to another node is gone",
            "ip route del 10.200.1.0/24",
            "range-unrouted",
        ),
        (
            "one of IPv6",
            "ip -6 route del fd00:200:0:2::/64",
            "range-unrouted",
        ),
        (
            "another next hop",
            "ip route del 10.200.2.0/24; ip route add 10.200.2.0/24 via 192.168.199.1",
            "range-misrouted",
        ),
        (
            "a part of another node's range goes elsewhere",
            "ip route add 10.200.2.2/32 via 192.168.199.1",
            "range-misrouted",
        ),
        (
            "a rule leads to another table",
            "ip route add 10.200.1.0/24 via 192.168.199.1 table 100
             ip rule add to 10.200.1.0/24 table 100",
            "range-by-rule",
        ),
        (
            "a rule drops",
            "ip -6 rule add to fd00:200::/64 blackhole",
            "range-by-rule",
        ),
        (
            "the own range is local",
            "ip route add local 10.200.0.128/25 dev lo",
            "own-range-route",
        ),
        (
            "a second route",
            "ip route append 10.200.2.0/24 via 192.168.199.1",
            "range-twice",
        ),
        (
            "a cheaper one of IPv6 that is the same",
            "ip -6 route add fd00:200:0:2::/64 via fd99::212 metric 5",
            "range-twice",
        ),
        (
            "a part of the own range goes elsewhere",
            "ip route add 10.200.0.0/25 via 192.168.199.1",
            "own-range-route",
        ),
        (
            "the own range is a hole",
            "ip -6 route add blackhole fd00:200::/64 metric 1",
            "own-range-route",
        ),
        (
            "the own range behind the bridge's",
            "ip route append 10.200.0.0/24 via 192.168.199.210",
            "own-range-route",
        ),
    ]);
}

#[test]
fn the_kernel_s_settings() {
    let Some(patient) = Patient::new("doctor") else {
        return;
    };
    patient.expect_found(&[
        (
            "no forwarding",
            "sysctl -qw net.ipv4.ip_forward=0",
            "forwarding-off",
        ),
        (
            "none of IPv6",
            "sysctl -qw net.ipv6.conf.all.forwarding=0",
            "forwarding-off",
        ),
        (
            "none on the bridge",
            "sysctl -qw net.ipv4.conf.cni0.forwarding=0",
            "forwarding-off",
        ),
        (
            "frames do not pass the rules of Services",
            "iptables -t nat -N KUBE-SERVICES; sysctl -qw net.bridge.bridge-nf-call-iptables=0",
            "bridge-nf-off",
        ),
    ]);
}

#[test]
fn rules_that_drop() {
    let Some(patient) = Patient::new("doctor") else {
        return;
    };
    patient.expect_found(&[
        ("the policy", "iptables -P FORWARD DROP", "forward-dropped"),
        (
            "that of IPv6",
            "ip6tables -P FORWARD DROP",
            "forward-dropped",
        ),
        (
            "a rule",
            "iptables -I FORWARD -i cni0 -m comment --comment 'no pods' -j REJECT",
            "forward-dropped",
        ),
        (
            "a rule of a chain of its own",
            "iptables -N mine; iptables -A mine -d 10.200.0.0/16 -j DROP
             iptables -I FORWARD -o cni0 -j mine",
            "forward-dropped",
        ),
        (
            "a rule that is asked before it is known where packets go",
            "iptables -t raw -A PREROUTING -i cni0 -j DROP",
            "forward-dropped",
        ),
        (
            "a set of ranges of nftables",
            "nft add table ip mine
             nft add set ip mine s '{ type ipv4_addr; flags interval; }'
             nft add element ip mine s '{ 10.200.0.0/16 }'
             nft add chain ip mine early '{ type filter hook prerouting priority -310; }'
             nft add rule ip mine early ip saddr @s drop",
            "forward-dropped",
        ),
        (
            "a table of nftables",
            "nft add table inet mine
             nft add chain inet mine forward '{ type filter hook forward priority 5; policy drop; }'
             nft add rule inet mine forward ct state established,related accept",
            "forward-dropped",
        ),
    ]);
}

#[test]
fn rules_that_drop_of_the_legacy_variant() {
    let Some(patient) = Patient::with("doctor", "legacy") else {
        return;
    };
    patient.expect_found(&[
        (
            "the policy",
            "iptables-legacy -P FORWARD DROP",
            "forward-dropped",
        ),
        (
            "a rule of IPv6",
            "ip6tables-legacy -A FORWARD -i cni0 -j DROP",
            "forward-dropped",
        ),
    ]);
}

#[test]
fn bridge_and_ports() {
    let Some(patient) = Patient::new("doctor") else {
        return;
    };
    patient.expect_found(&[
        ("down", "ip link set cni0 down", "bridge-down"),
        (
            "without its address",
            "ip address del 10.200.0.1/24 dev cni0",
            "bridge-no-gateway",
        ),
        (
            "without that of IPv6",
            "ip address del fd00:200::1/64 dev cni0",
            "bridge-no-gateway",
        ),
        (
            "with another",
            "ip address add 10.9.0.1/24 dev cni0",
            "bridge-foreign-address",
        ),
        (
            "a port is down",
            "ip link set $VETH down",
            "port-not-forwarding",
        ),
        (
            "its other end is",
            "nsenter --net=$POD ip link set eth0 down",
            "port-not-forwarding",
        ),
        (
            "the spanning tree",
            "ip link set $VETH type bridge_slave state 1",
            "port-not-forwarding",
        ),
        (
            "no port any more",
            "ip link set $VETH nomaster",
            "port-not-forwarding",
        ),
    ]);
}
