//! What a runtime that lost its state has left, found and removed by `podnet gc --from-cri`.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use std::net::SocketAddr;
use std::process::Output;

use clients::{
    CONTAINERD, Containerd, Cri, Host, Names, SERVER, are_ours, chain, fetch, patiently, pod,
    with_rates,
};
use cri::v1::Protocol::{Tcp, Udp};
use serde_json::Value;

/// Where containerd listens, as people on the node say it.
const ENDPOINT: &str = "unix:///run/containerd/containerd.sock";

fn podnet(host: &Host, words: &[&str]) -> Output {
    let podnet = tests::binary_folder().join("podnet");
    host.output(podnet.to_str().unwrap(), words)
}

/// What `podnet gc` says of who lives and who does not.
#[track_caller]
fn gc(host: &Host, words: &[&str]) -> Value {
    let gc = [
        "gc",
        "--from-cri",
        ENDPOINT,
        "--grace",
        "0",
        "--output",
        "json",
    ];
    let output = podnet(host, &[&gc[..], words].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The container ids of a list of attachments.
fn ids(attachments: &Value) -> Vec<&str> {
    let attachments = attachments.as_array().unwrap().iter();
    attachments
        .map(|one| one["containerID"].as_str().unwrap())
        .collect()
}

/// containerd dies, and its state with it: nobody will ever send the DELs of its pods.
fn after_a_crash(label: &str, versions: &[&str]) {
    for names in Names::all() {
        let Some(host) = Host::new(label, &CONTAINERD) else {
            return;
        };
        let mut network = chain(*names, "1.0.0");
        network["cniVersions"] = versions.into();
        host.configure(&network);
        let mut containerd = Containerd::start(&host);
        let mut cri = Cri::connect(&host, &containerd);
        let port = |host, container| [(host, container, Tcp), (host, container, Udp)];
        let first = patiently(|| cri.client().run_sandbox(&pod("first", &port(9000, 80))));
        cri.end(&first);
        let before = host.snapshot("pods");

        let leaked = ["one", "two"].map(|name| {
            let number = 9000 + i32::try_from(name.len()).unwrap() + i32::from(name == "two");
            cri.run(&with_rates(pod(name, &port(number, 80)), "10M", "10M"))
        });
        containerd.kill();
        let lost = host
            .folder()
            .join("containerd/root/io.containerd.metadata.v1.bolt");
        std::fs::remove_dir_all(lost).unwrap();
        containerd.restart();
        containerd.import(&clients::SLEEPER, "k8s.io");
        containerd.import(&SERVER, "k8s.io");
        patiently(|| cri.client().version());
        assert_eq!(cri.client().sandboxes().unwrap(), []);
        let refused = podnet(&host, &["gc", "pods", "--from-cri", ENDPOINT]);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");

        let living = patiently(|| cri.client().run_sandbox(&pod("living", &[])));
        let (serving, _) = cri.serve(&with_rates(pod("serving", &port(8080, 80)), "10M", "10M"));
        let all = host.snapshot("pods");
        let shown = gc(&host, &["pods", "--dry-run"]);
        assert_eq!(host.snapshot("pods"), all);
        let mut expected = leaked.each_ref().map(String::as_str);
        expected.sort_unstable();
        assert_eq!(ids(&shown["gone"]), expected);
        assert_eq!(ids(&shown["cni.dev/valid-attachments"]).len(), 2);

        let collected = gc(&host, &["--all"]);
        assert_eq!(ids(&collected["pods"]["gone"]), expected);
        assert_eq!(ids(&collected["cni-loopback"]["gone"]), expected);
        let now = host.snapshot("pods");
        assert!(now.since(&all).is_empty(), "{}", now.since(&all));
        assert!(
            leaked
                .iter()
                .all(|id| !now.to_string().contains(id.as_str())),
            "{now}"
        );
        let [node, _] = host.addresses();
        fetch(&host.outside, SocketAddr::new(node, 8080));
        if are_ours("CHECK of bandwidth panics without rates, that of portmap wants IPv6's chains")
        {
            let checked = podnet(&host, &["check", "pods", "--all"]);
            assert!(checked.status.success(), "{checked:?}");
        }
        for sandbox in [&living, &serving] {
            cri.end(sandbox);
        }
        host.expect_as_before("after GC and the end of the living", &before, "pods");
        let cached = std::fs::read_dir(host.node.cache.join("results")).unwrap();
        assert_eq!(cached.count(), 0, "cached results");
    }
}

#[test]
fn a_network_without_gc() {
    after_a_crash("cri-gc-old", &["1.0.0"]);
}

/// A list that older runtimes take for one of 1.0.0, which is all that they know.
#[test]
fn a_network_with_gc() {
    if !are_ours("GC does nothing, and release 1.1.1 does not know it") {
        return;
    }
    after_a_crash("cri-gc", &["1.0.0", "1.1.0"]);
}
