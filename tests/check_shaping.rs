//! CHECK of the bandwidth plugin notices whatever was taken from a pod's shaping, or changed in it.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use tests::{Attached, Damage, sh, with};

const IPV4: &str = "10-k8nd.conflist";
/// How a bucket of 8 Mbit/s and 800 kbit is made by hand: limit is what waits 25 ms, and the burst.
const BUCKET: &str = "root handle 1: tbf rate 8mbit burst 100000 limit 125000";
/// All that comes in goes through the ifb.
const REDIRECT: &str = "tc filter add dev $VETH parent ffff: protocol all pref 1 \
                        u32 match u32 0 0 flowid 1:1 action mirred egress redirect dev $IFB";
const UNFILTER: &str = "tc filter delete dev $VETH parent ffff: pref 1";

fn asked() -> Value {
    let limits = json!({
        "ingressRate": 8_000_000, "ingressBurst": 800_000,
        "egressRate": 8_000_000, "egressBurst": 800_000
    });
    json!({ "bandwidth": limits })
}

fn attached() -> Option<Attached> {
    Attached::new("shaped", IPV4, &[], &asked())
}

fn expect_noticed(attached: &Attached, table: &[Damage]) {
    attached.expect_noticed("bandwidth", &attached.node.namespace, table);
}

#[test]
fn the_buckets() {
    let Some(attached) = attached() else { return };
    for link in ["$VETH", "$IFB"] {
        let again = format!("tc qdisc replace dev {link} {BUCKET}");
        let replaced = |with: &str| format!("tc qdisc replace dev {link} root {with}");
        let table: &[Damage] = &[
            (
                "gone",
                &format!("tc qdisc delete dev {link} root"),
                &again,
                &format!("Failed to find qdisc tbf on \"{link}\""),
            ),
            (
                "another rate",
                &replaced("handle 1: tbf rate 9mbit burst 100000 limit 125000"),
                &again,
                &format!("Rate doesn't match tbf on \"{link}\""),
            ),
            (
                "another burst",
                &replaced("handle 1: tbf rate 8mbit burst 50000 limit 125000"),
                &again,
                &format!("Buffer doesn't match tbf on \"{link}\""),
            ),
            (
                "another limit",
                &replaced("handle 1: tbf rate 8mbit burst 100000 limit 225000"),
                &again,
                &format!("Limit doesn't match tbf on \"{link}\""),
            ),
            (
                "a peak rate",
                &replaced(
                    "handle 1: tbf rate 8mbit burst 100000 limit 125000 peakrate 16mbit mtu 2000",
                ),
                &again,
                link,
            ),
            (
                "another kind of qdisc",
                &format!(
                    "tc qdisc delete dev {link} root; {}",
                    replaced("pfifo limit 10")
                ),
                &format!("tc qdisc delete dev {link} root; {again}"),
                &format!("Failed to find qdisc tbf on \"{link}\""),
            ),
        ];
        expect_noticed(&attached, table);
    }
}

#[test]
fn the_ifb() {
    let Some(attached) = attached() else { return };
    let mac = &attached.result.interfaces[3].mac;
    let again = format!(
        "ip link add $IFB address {mac} mtu 1500 type ifb
         ip link set $IFB alias k8nd-pod-network/pod/eth0; ip link set $IFB up
         tc qdisc add dev $IFB {BUCKET}; {REDIRECT}"
    );
    let table: &[Damage] = &[
        (
            "gone",
            "ip link delete $IFB",
            &format!("{UNFILTER}; {again}"),
            "get ifb device: Link not found $IFB",
        ),
        (
            "a bridge in its place",
            "ip link delete $IFB; ip link add $IFB type bridge; ip link set $IFB up",
            &format!("{UNFILTER}; ip link delete $IFB; {again}"),
            "$IFB",
        ),
        (
            "down",
            "ip link set $IFB down",
            "ip link set $IFB up",
            "ifb device \"$IFB\" is down",
        ),
        (
            "another MTU",
            "ip link set $IFB mtu 1400",
            "ip link set $IFB mtu 1500",
            "ifb device \"$IFB\" has MTU 1400 and should have 1500, as host veth \"$VETH\"",
        ),
    ];
    expect_noticed(&attached, table);
}

/// Of the chain the bridge notices that first.
#[test]
fn the_mtu_of_the_host_veth() {
    let Some(attached) = attached() else { return };
    let (node, list) = (&attached.node, &attached.list);
    let result = attached.result.to_json(list.cni_version).unwrap();
    let config = with(&node.configs(list, &asked())[2], "prevResult", &result);
    let check = || node.call("bandwidth", "CHECK", &attached.pod, &config, &[]);
    check().ok();
    sh(
        &node.namespace,
        &attached.expand("ip link set $VETH mtu 1400"),
    );
    let says = "host veth \"$VETH\" has MTU 1400 and should have 1500, as its other end in the pod";
    check().expect_refused("MTU", 101, &[&attached.expand(says)]);
}

#[test]
fn the_redirection() {
    let Some(attached) = attached() else { return };
    let filtered =
        |filter: &str| format!("{UNFILTER}; tc filter add dev $VETH parent ffff: {filter}");
    let again = format!("{UNFILTER}; {REDIRECT}");
    let says = "ingress of \"$VETH\" is not redirected to \"$IFB\"";
    let table: &[Damage] = &[
        (
            "the ingress qdisc gone",
            "tc qdisc delete dev $VETH ingress",
            &format!("tc qdisc add dev $VETH ingress; {REDIRECT}"),
            says,
        ),
        ("the filter gone", UNFILTER, REDIRECT, says),
        (
            "to elsewhere",
            &format!(
                "ip link add ifb9 type ifb; ip link set ifb9 up; {}",
                filtered(
                    "protocol all pref 1 u32 match u32 0 0 action mirred egress redirect dev ifb9"
                )
            ),
            &format!("{again}; ip link delete ifb9"),
            says,
        ),
        (
            "a copy only",
            &filtered("protocol all pref 1 u32 match u32 0 0 action mirred egress mirror dev $IFB"),
            &again,
            says,
        ),
        (
            "of IPv6 only",
            &filtered(
                "protocol ipv6 pref 1 u32 match u32 0 0 action mirred egress redirect dev $IFB",
            ),
            &again,
            says,
        ),
        (
            "of some addresses only",
            &filtered(
                "protocol all pref 1 u32 match ip dst 198.51.100.0/24 \
                 action mirred egress redirect dev $IFB",
            ),
            &again,
            says,
        ),
        (
            "no action",
            &filtered("protocol all pref 1 u32 match u32 0 0 flowid 1:1"),
            &again,
            says,
        ),
    ];
    expect_noticed(&attached, table);
}

#[test]
fn without_a_previous_result() {
    let Some(attached) = attached() else { return };
    let node = &attached.node;
    let asked = json!({ "bandwidth": { "ingressRate": 8_000_000, "ingressBurst": 800_000 } });
    let configs = node.configs(&attached.list, &asked);
    let answer = node.call("bandwidth", "CHECK", &attached.pod, &configs[2], &[]);
    let (code, said) = answer.error();
    assert_eq!(
        (code, said.as_str()),
        (7, "must be called as a chained plugin")
    );
    // Without limits there is nothing to do, and nobody is missed.
    let nothing = tests::with(&configs[2], "runtimeConfig", &Value::Null);
    let call = |command| node.call("bandwidth", command, &attached.pod, &nothing, &[]);
    let added = call("ADD");
    assert_eq!(added.ok(), &json!({ "cniVersion": "1.0.0", "dns": {} }));
    assert_eq!(call("CHECK").ok(), &Value::Null);
}
