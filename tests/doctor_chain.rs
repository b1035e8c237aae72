//! `podnet doctor` against faults of what the chain keeps and needs: reservations, leftovers, host ports,
//! configurations and plugins.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests, which stand outside of them"
)]

use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use tests::{Answer, NETWORK, Patient, Pod, at, binary_folder, eventually, expect_none, told};

/// A third pod.
fn third(patient: &Patient, given: Value) -> Pod {
    let node = &patient.segment.nodes[0];
    let pod = node.pod("three");
    node.add(&patient.list, &pod, given).unwrap();
    pod
}

/// That the doctor finds this one kind, and what else it says.
#[track_caller]
fn expect_kind(patient: &Patient, id: &str, words: &[&str]) {
    // What is in a namespace goes some time after it.
    let found = eventually(|| {
        let answer = patient.doctor("");
        let mut found = told(&answer, "finding=");
        found.dedup();
        let says = words.iter().all(|word| answer.stdout.contains(word));
        match answer.status == 1 && found == [id] && says {
            true => Ok(()),
            false => Err(answer.stdout + &answer.stderr),
        }
    });
    found.unwrap_or_else(|said| panic!("no {id}, or not {words:?}: {said}"));
}

#[test]
fn reservations_and_links_of_nobody() {
    let Some(patient) = Patient::new("doctor") else {
        return;
    };
    patient.expect_found(&[
        (
            "a reservation of nobody",
            "printf 'dead\\r\\neth0' > $STORE/10.200.0.77",
            "reservation-orphan",
        ),
        (
            "one of IPv6 by another interface",
            "printf 'dead\\r\\nnet1' > $STORE/fd00:200::77",
            "reservation-orphan",
        ),
        (
            "a living pod's address is free",
            "grep -l one $STORE/* | xargs rm",
            "link-orphan",
        ),
        (
            "an ifb of nobody",
            "ip link add bwp0123456789ab type ifb",
            "ifb-orphan",
        ),
    ]);
}

#[test]
fn a_pod_that_vanished_without_its_del() {
    let Some(patient) = Patient::new("doctor") else {
        return;
    };
    let node = &patient.segment.nodes[0];
    let before = node.snapshot(NETWORK);
    let ports =
        json!({ "portMappings": [{ "hostPort": 9090, "containerPort": 80, "protocol": "tcp" }] });
    let pod = third(&patient, ports);
    pod.namespace.remove().unwrap();
    expect_kind(
        &patient,
        "reservation-orphan",
        &["three/eth0", "is gone, or has no eth0"],
    );
    // Without the reservations only the rules are left.
    patient.sh("grep -l three $STORE/* | xargs rm");
    fs::remove_file(node.cache.join(format!("results/{NETWORK}-three-eth0"))).unwrap();
    expect_kind(&patient, "rules-orphan", &["chain CNI-DN-", "chain CNI-"]);
    let mend = told(&patient.doctor(""), "mend=");
    assert!(
        mend[0].starts_with("podnet del k8nd-pod-network /run/netns/none --container-id three ")
    );
    patient.mend(&mend[0]).unwrap();
    patient.is_healthy().unwrap();
    assert_eq!(node.snapshot(NETWORK), before);
}

#[test]
fn elements_of_nftables_that_a_pod_has_left() {
    let Some(patient) = Patient::with("doctor", "nftables") else {
        return;
    };
    let node = &patient.segment.nodes[0];
    let ports =
        json!({ "portMappings": [{ "hostPort": 9090, "containerPort": 80, "protocol": "tcp" }] });
    let pod = third(&patient, ports);
    pod.namespace.remove().unwrap();
    patient.sh("grep -l three $STORE/* | xargs rm");
    fs::remove_file(node.cache.join(format!("results/{NETWORK}-three-eth0"))).unwrap();
    expect_kind(
        &patient,
        "rules-orphan",
        &["nftables, with the comment ", "id: three"],
    );
    patient
        .mend(&told(&patient.doctor(""), "mend=")[0])
        .unwrap();
    patient.is_healthy().unwrap();
}

#[test]
fn a_pod_that_the_runtime_has_forgotten() {
    let Some(patient) = Patient::new("doctor") else {
        return;
    };
    let node = &patient.segment.nodes[0];
    third(&patient, json!({}));
    patient.sh("grep -l three $STORE/* | xargs rm");
    fs::remove_file(node.cache.join(format!("results/{NETWORK}-three-eth0"))).unwrap();
    expect_kind(
        &patient,
        "link-orphan",
        &["three/eth0 is what a DEL has left"],
    );
    patient
        .mend(&told(&patient.doctor(""), "mend=")[0])
        .unwrap();
    patient.is_healthy().unwrap();
}

#[test]
fn a_range_that_is_full() {
    let Some(patient) = Patient::new("doctor") else {
        return;
    };
    let mut list: Value = serde_json::from_slice(&patient.list.raw).unwrap();
    let range = &mut list["plugins"][0]["ipam"]["ranges"][0][0];
    range["rangeEnd"] = json!("10.200.0.3");
    patient.segment.nodes[0].configure(&patient.segment.nodes[0].list(list));
    expect_kind(
        &patient,
        "pool-nearly-full",
        &["2 of 2 addresses of 10.200.0.0/24", "severity=error"],
    );
}

#[test]
fn host_ports_of_two() {
    let Some(patient) = Patient::new("doctor") else {
        return;
    };
    let node = &patient.segment.nodes[0];
    let server = node.namespace.serve_tcp(at("0.0.0.0:8080")).unwrap();
    let own = format!(
        "(process {}) listens on 0.0.0.0:8080/tcp",
        std::process::id()
    );
    expect_kind(&patient, "hostport-taken", &[&own]);
    drop(server);
    patient.is_healthy().unwrap();
    for backend in ["iptables", "legacy", "nftables"] {
        let Some(patient) = Patient::with("doctor", backend) else {
            return;
        };
        let ports = json!({ "portMappings": [{ "hostPort": 8080, "containerPort": 80, "protocol": "tcp" }] });
        let pod = third(&patient, ports);
        let two = [
            "never leads to the pod 10.200.0.4",
            "never leads to the pod fd00:200::4",
        ];
        expect_kind(&patient, "hostport-shadowed", &two);
        patient.segment.nodes[0].del(&patient.list, &pod).unwrap();
        patient.is_healthy().unwrap();
    }
}

/// Something about the files of a node: its name, what is done, the finding, and what the doctor says.
type Case<'a> = (&'a str, &'a str, &'a str, &'a str);

#[test]
fn configurations_and_plugins() {
    let cases: [Case; 12] = [
        ("none", "rm $CONF/*", "conflist-missing", "no configuration in "),
        ("torn", "echo '{' > $CONF/99-x.conflist", "conflist-unreadable", "99-x.conflist"),
        (
            "of the future",
            "echo '{\"cniVersion\": \"9.9.9\", \"name\": \"x\", \"plugins\": [{\"type\": \"bridge\"}]}' \
             > $CONF/99-x.conflist",
            "conflist-version",
            "9.9.9",
        ),
        ("no portmap", "rm $BIN/portmap", "plugin-missing", "portmap is missing"),
        ("no IPAM", "rm $BIN/host-local", "plugin-missing", "host-local is missing"),
        (
            "another node's",
            "sed -i 's/10\\.200\\.0\\.0/10.200.1.0/' $CONF/*",
            "conflist-range",
            "10.200.1.0/24 is of k8sworker1",
        ),
        (
            "one that hangs",
            "rm $BIN/portmap; printf '#!/bin/sh\nexec sleep 300\n' > $BIN/portmap; chmod 755 $BIN/portmap",
            "plugin-broken",
            "no answer within 5 s",
        ),
        (
            "a FIFO",
            "mkfifo $CONF/00-x.conflist",
            "conflist-unreadable",
            "it is no regular file",
        ),
        (
            "a value that the plugin refuses",
            "sed -i 's/\"ipMasq\": *[a-z]*/\"ipMasq\": \"true\"/' $CONF/*",
            "conflist-unreadable",
            "ipMasq: the plugin refuses",
        ),
        (
            "not executable",
            "rm $BIN/portmap; echo > $BIN/portmap",
            "plugin-broken",
            "mend=chmod 0755 ",
        ),
        (
            "of another machine",
            "rm $BIN/portmap; echo x > $BIN/portmap; chmod 755 $BIN/portmap",
            "plugin-broken",
            "portmap does not run",
        ),
        (
            "old",
            "rm $BIN/portmap
             printf '#!/bin/sh\\necho \"{\\\\\"supportedVersions\\\\\": [\\\\\"0.4.0\\\\\"]}\"\\n' > $BIN/portmap
             chmod 755 $BIN/portmap",
            "plugin-version",
            "portmap speaks 0.4.0",
        ),
    ];
    let failed = cases.iter().filter_map(|(name, done, id, says)| {
        let patient = Patient::new("doctor")?;
        patient.sh(done);
        let answer = patient.doctor("");
        let found = told(&answer, "finding=") == [*id] && answer.stdout.contains(says);
        (!found).then(|| format!("{name}: {}{}", answer.stdout, answer.stderr))
    });
    expect_none(failed.collect());
}

#[test]
fn the_conflist_of_another_node() {
    let Some(patient) = Patient::new("doctor") else {
        return;
    };
    let list = patient.segment.conflist(1);
    let fresh = &patient.segment.nodes[2];
    fresh.configure(&list);
    patient.segment.podnet(2, "routes apply").ok();
    let cache = fresh.cache.display().to_string();
    let answer = patient
        .segment
        .podnet(2, &format!("doctor --cache-dir {cache}"));
    assert_eq!(answer.status, 1, "{answer:?}");
    assert!(
        told(&answer, "finding=").contains(&"conflist-range".to_owned()),
        "{answer:?}"
    );
    assert!(
        answer.stdout.contains("10.200.1.0/24 is of k8sworker1"),
        "{answer:?}"
    );
}

#[test]
fn without_privileges_rules_are_not_taken_for_none() {
    let Some(patient) = Patient::new("doctor") else {
        return;
    };
    let Some(setpriv) = lab::find_tool("setpriv") else {
        return lab::skip("setpriv is not installed");
    };
    patient.sh("iptables -P FORWARD DROP");
    let node = &patient.segment.nodes[0];
    let mut podnet = Command::new(setpriv);
    podnet
        .args(["--bounding-set", "-all", "--inh-caps", "-all"])
        .arg(binary_folder().canonicalize().unwrap().join("podnet"))
        .args(["doctor", "--cache-dir"])
        .arg(&node.cache)
        .env("CNI_PATH", &node.bin)
        .env("NETCONFPATH", node.configurations());
    let answer: Answer = node.namespace.output(&mut podnet, b"").unwrap().into();
    assert_eq!(answer.status, 1, "{answer:?}");
    let unread = told(&answer, "unread=");
    assert!(
        unread
            .iter()
            .any(|line| line.starts_with("rules of nftables: ")),
        "{answer:?}"
    );
    assert!(
        unread
            .iter()
            .any(|line| line.starts_with("the namespace of ")),
        "{answer:?}"
    );
}

#[test]
fn what_cannot_be_read_is_said() {
    let Some(patient) = Patient::new("doctor") else {
        return;
    };
    patient.sh("rm -r $STORE; echo > $STORE");
    let answer = patient.doctor("");
    assert_eq!(answer.status, 1, "{answer:?}");
    let unread = told(&answer, "unread=");
    assert_eq!(unread.len(), 1, "{answer:?}");
    assert!(unread[0].starts_with("reservations in "), "{answer:?}");
    let json = patient.doctor("--output json");
    assert_eq!(
        json.json["unread"][0]["why"],
        "Not a directory (os error 20)"
    );
}
