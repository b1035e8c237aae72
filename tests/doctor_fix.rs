//! `podnet doctor --fix`: each step asked for, and what it changes.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use std::process::Command;

use tests::{Answer, Patient, binary_folder, told};

/// Two faults that have a safe step, and one that has none.
const FAULTS: &str = "\
    ip route del 10.200.1.0/24
    sysctl -qw net.ipv4.ip_forward=0
    ip address add 10.9.0.1/24 dev cni0";

fn broken() -> Option<Patient> {
    let patient = Patient::new("fix")?;
    patient.sh(FAULTS);
    Some(patient)
}

/// `podnet doctor --fix` with these answers.
fn fix(patient: &Patient, words: &[&str], answers: &str) -> Answer {
    let node = &patient.segment.nodes[0];
    let mut podnet = Command::new(binary_folder().canonicalize().unwrap().join("podnet"));
    podnet
        .args(["doctor", "--fix", "-f"])
        .arg(&patient.segment.file)
        .arg("--cache-dir")
        .arg(&node.cache)
        .args(words)
        .env("CNI_PATH", &node.bin)
        .env("NETCONFPATH", node.configurations());
    let output = node.namespace.output(&mut podnet, answers.as_bytes());
    output.unwrap().into()
}

const ALL: [&str; 3] = ["range-unrouted", "forwarding-off", "bridge-foreign-address"];

#[test]
fn no_answer_is_no() {
    let Some(patient) = broken() else { return };
    for answers in ["", "n\nn\n", "\n\n"] {
        let answer = fix(&patient, &[], answers);
        assert_eq!(answer.status, 1, "{answer:?}");
        assert_eq!(told(&answer, "finding="), ALL, "{answer:?}");
        assert_eq!(told(&answer, "fixed="), [""; 0]);
    }
    // Asked for what is safe, and for nothing else.
    let asked = fix(&patient, &[], "").stderr;
    assert_eq!(asked.matches("[y/N]").count(), 2, "{asked}");
    assert!(asked.contains("range-unrouted: "), "{asked}");
    assert!(!asked.contains("10.9.0.1"), "{asked}");
}

#[test]
fn each_step_is_asked_for() {
    let Some(patient) = broken() else { return };
    let answer = fix(&patient, &[], "n\ny\n");
    assert_eq!(
        told(&answer, "fixed="),
        ["sysctl -w net/ipv4/ip_forward=1"],
        "{answer:?}"
    );
    assert_eq!(told(&answer, "finding="), [ALL[0], ALL[2]]);
    let answer = fix(&patient, &[], "yes\n");
    let added = "ip route add 10.200.1.0/24 via 192.168.199.211 dev eth0 proto 145";
    assert_eq!(told(&answer, "fixed="), [added], "{answer:?}");
    assert_eq!(told(&answer, "finding="), [ALL[2]]);
    // What was added is podnet's.
    let removed = patient.segment.nodes[0].podnet(&["routes", "remove", "--dry-run"]);
    assert!(
        removed
            .stdout
            .contains("- 10.200.1.0/24 via 192.168.199.211"),
        "{removed:?}"
    );
}

#[test]
fn without_being_asked() {
    let Some(patient) = broken() else { return };
    let answer = fix(&patient, &["--yes", "--output", "json"], "");
    assert_eq!(
        (answer.status, answer.stderr.as_str()),
        (1, ""),
        "{answer:?}"
    );
    assert_eq!(answer.json["fixed"].as_array().unwrap().len(), 2);
    assert_eq!(answer.json["findings"][0]["id"], ALL[2]);
    assert_eq!(answer.json["findings"][0]["fixable"], false);
    patient.sh("ip address del 10.9.0.1/24 dev cni0");
    patient.is_healthy().unwrap();
}

#[test]
fn the_shadow_of_the_bridge_a_lost_gateway_and_a_link_that_is_down() {
    let Some(patient) = Patient::new("fix") else {
        return;
    };
    for fault in [
        "ip route add 10.200.0.0/25 via 192.168.199.210",
        "ip address del 10.200.0.1/24 dev cni0",
        "ip link set cni0 down",
        "ip link set $VETH down",
    ] {
        patient.sh(fault);
        let answer = fix(&patient, &["--yes"], "");
        assert_eq!(answer.status, 0, "{fault}: {answer:?}");
        assert!(!told(&answer, "fixed=").is_empty(), "{fault}: {answer:?}");
    }
}
