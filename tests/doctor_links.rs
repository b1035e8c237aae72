//! `podnet doctor` against faults of a node's ways out.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use std::fs;

use tests::{Patient, Segment, at, can_read_rules, eventually, sh, told};

#[track_caller]
fn kinds(patient: &Patient, words: &str) -> (Vec<String>, String) {
    let answer = patient.doctor(words);
    let mut found = told(&answer, "finding=");
    found.dedup();
    (found, answer.stdout)
}

#[test]
fn an_uplink_of_smaller_packets() {
    let Some(patient) = Patient::new("doctor") else {
        return;
    };
    patient.expect_found(&[(
        "a tunnel's MTU",
        "ip link set eth0 mtu 1400",
        "mtu-over-uplink",
    )]);
}

#[test]
fn a_link_that_is_down_and_one_without_a_carrier() {
    let Some(patient) = Patient::new("doctor") else {
        return;
    };
    let switch = patient.segment.switch();
    sh(switch, "ip link set node0 down");
    let found = eventually(|| {
        let (found, said) = kinds(&patient, "");
        if found == ["next-hop-off-link"] && said.contains("eth0 has no carrier") {
            Ok(())
        } else {
            Err(said)
        }
    });
    found.unwrap_or_else(|said| panic!("{said}"));
    sh(switch, "ip link set node0 up");
    eventually(|| patient.is_healthy()).unwrap();
    patient.sh("ip link set eth0 down");
    let (found, said) = kinds(&patient, "");
    assert_eq!(found, ["next-hop-off-link"], "{said}");
    assert!(said.contains("mend=ip link set dev eth0 up"), "{said}");
}

#[test]
fn a_node_that_is_in_no_network_of_this_one() {
    let Some(patient) = Patient::new("doctor") else {
        return;
    };
    patient.sh("ip route del 10.200.2.0/24");
    let file = &patient.segment.file;
    let cluster = fs::read_to_string(file).unwrap();
    fs::write(file, cluster.replace("192.168.199.212", "198.51.100.212")).unwrap();
    let (found, said) = kinds(&patient, "");
    assert_eq!(found, ["next-hop-off-link"], "{said}");
    assert!(said.contains("by way of 198.51.100.212"), "{said}");
    // A way by that network is the mend.
    patient.sh("ip address add 198.51.100.210/24 dev eth0");
    assert_eq!(patient.segment.podnet(0, "routes apply").status, 0);
    patient.is_healthy().unwrap();
}

#[test]
fn a_strict_filter_where_the_way_back_is_another() {
    let Some(patient) = Patient::new("doctor") else {
        return;
    };
    // Both nodes have a second link; the first answers by it, the third asks by the other.
    let segment = &patient.segment;
    for (node, address) in [(0, "198.51.100.210/24"), (2, "198.51.100.212/24")] {
        let member = &segment.nodes[node].namespace;
        segment.join(member, &format!("second{node}"), "eth1", &[at(address)]);
    }
    patient.sh("ip route del 10.200.2.0/24
         ip route add 10.200.2.0/24 via 192.168.199.212 dev eth1 onlink
         sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.eth0.rp_filter=0");
    patient.is_healthy().unwrap();
    patient.expect_found(&[(
        "strict on the first",
        "sysctl -qw net.ipv4.conf.eth0.rp_filter=1",
        "rp-filter",
    )]);
}

#[test]
fn the_bridge_s_name_is_taken() {
    let Some(segment) = Segment::new("doctor").filter(|_| can_read_rules()) else {
        return;
    };
    segment.podnet(0, "routes apply").ok();
    segment.conflist(0);
    let node = &segment.nodes[0];
    let cache = node.cache.display().to_string();
    let doctor = || segment.podnet(0, &format!("doctor --cache-dir {cache}"));
    assert_eq!(told(&doctor(), "findings="), ["0"]);
    sh(&node.namespace, "ip link add cni0 type ifb");
    let answer = doctor();
    assert_eq!(told(&answer, "finding="), ["bridge-taken"], "{answer:?}");
    assert!(
        answer.stdout.contains("cni0 is ifb, not a bridge"),
        "{answer:?}"
    );
}

#[test]
fn a_host_that_is_no_node_is_refused_and_told_which_there_are() {
    let Some(segment) = Segment::new("doctor") else {
        return;
    };
    let file = segment.file.to_string_lossy().into_owned();
    let mut podnet = std::process::Command::new(tests::binary_folder().join("podnet"));
    podnet.args(["doctor", "-f", &file]);
    let answer: tests::Answer = segment.other.output(&mut podnet, b"").unwrap().into();
    assert_eq!(
        (answer.status, answer.stdout.as_str()),
        (2, ""),
        "{answer:?}"
    );
    let names = "k8sworker0, k8sworker1, k8sworker2";
    assert!(answer.stderr.contains(names), "{}", answer.stderr);
}
