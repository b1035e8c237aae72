//! What `podnet lint` and `podnet doctor` say on a node whose runtime runs the chain.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use std::net::SocketAddr;
use std::process::Output;

use clients::{
    CONTAINERD, Containerd, Cri, Host, Names, SERVER, chain, fetch, patiently, pod, with_rates,
};
use cri::v1::PodSandboxConfig;
use cri::v1::Protocol::{Tcp, Udp};
use serde_json::{Value, json};
use tests::at;

/// What [`web`] is to Kubernetes.
const MANIFEST: &str = "\
apiVersion: v1
kind: Pod
metadata:
  name: web
  annotations:
    kubernetes.io/ingress-bandwidth: 10M
    kubernetes.io/egress-bandwidth: 20M
spec:
  containers:
    - name: server
      image: localhost/server:1
      ports:
        - {containerPort: 80, hostPort: 8080}
        - {containerPort: 53, hostPort: 5353, protocol: UDP}
";

fn web() -> PodSandboxConfig {
    let web = pod("web", &[(8080, 80, Tcp), (5353, 53, Udp)]);
    with_rates(web, "10M", "20M")
}

fn podnet(host: &Host, words: &[&str]) -> Output {
    let podnet = tests::binary_folder().join("podnet");
    host.output(podnet.to_str().unwrap(), words)
}

/// A node with a route to everywhere, whose containerd has the network.
fn each_node(label: &str, network: impl Fn(Names) -> Value, test: impl Fn(&Host, &mut Cri, Names)) {
    for names in Names::all() {
        let Some(host) = Host::new(label, &CONTAINERD) else {
            return;
        };
        let uplink = &host.node.namespace;
        let everywhere = at("0.0.0.0/0");
        uplink
            .add_route(everywhere, at("192.0.2.1"), "eth0")
            .unwrap();
        host.configure(&network(*names));
        std::fs::write(host.folder().join("web.yaml"), MANIFEST).unwrap();
        let containerd = Containerd::start(&host);
        containerd.import(&SERVER, "k8s.io");
        let mut cri = Cri::connect(&host, &containerd);
        let first = patiently(|| cri.client().run_sandbox(&pod("first", &[])));
        cri.end(&first);
        test(&host, &mut cri, *names);
    }
}

/// What lint prints about [`web`], and its exit status.
fn lint(host: &Host) -> (String, Option<i32>) {
    let manifest = host.folder().join("web.yaml");
    let output = podnet(host, &["lint", "-f", manifest.to_str().unwrap()]);
    let said = String::from_utf8(output.stdout).unwrap();
    (said, output.status.code())
}

#[test]
fn a_node_with_the_whole_chain_is_good() {
    each_node(
        "wired",
        |names| chain(names, "1.0.0"),
        |host, cri, names| {
            let (sandbox, _) = cri.serve(&web());
            let [node, _] = host.addresses();
            fetch(&host.outside, SocketAddr::new(node, 8080));
            let (said, status) = lint(host);
            assert_eq!(status, Some(0), "{said}");
            for line in [
                "conflist=/etc/cni/net.d/pods.conflist".to_owned(),
                format!("hostport_plugin={}", names.of("portmap")),
                format!("bandwidth_plugin={}", names.of("bandwidth")),
                "ingress_annotation=10M".to_owned(),
                "egress_annotation=20M".to_owned(),
            ] {
                assert!(said.lines().any(|have| have == line), "{line}: {said}");
            }
            expect_healthy(host);
            let traced = podnet(host, &["trace", &sandbox]);
            let said = String::from_utf8(traced.stdout).unwrap();
            assert_eq!(traced.status.code(), Some(0), "{said}");
            for word in ["host-port tcp/8080", "host-port udp/5353"] {
                assert!(said.contains(word), "{word}: {said}");
            }
            for (way, rate) in [
                ("in qdisc ", " rate=10000000bit "),
                ("out qdisc ", " rate=20000000bit "),
            ] {
                let is_limit = |line: &str| line.starts_with(way) && line.contains(rate);
                assert!(said.lines().any(is_limit), "{way}{rate}: {said}");
            }
            cri.end(&sandbox);
            // Nothing of it is an orphan now.
            expect_healthy(host);
        },
    );
}

#[track_caller]
fn expect_healthy(host: &Host) {
    let doctor = podnet(host, &["doctor"]);
    let said = String::from_utf8(doctor.stdout).unwrap();
    assert_eq!(doctor.status.code(), Some(0), "{said}");
    assert!(said.lines().any(|line| line == "findings=0"), "{said}");
}

/// A pod starts whatever is missing from the chain, and nobody but lint says what it does without.
#[test]
fn what_is_missing_from_the_chain_is_named() {
    for (missing, ignored, other) in [
        (
            "portmap",
            &["hostPort 8080/TCP", "hostPort 5353/UDP"][..],
            "bandwidth_plugin",
        ),
        (
            "bandwidth",
            &[
                "kubernetes.io/ingress-bandwidth",
                "kubernetes.io/egress-bandwidth",
            ],
            "hostport_plugin",
        ),
    ] {
        let network = |names: Names| {
            let mut list = chain(names, "1.0.0");
            let plugins = list["plugins"].as_array_mut().unwrap();
            plugins.retain(|plugin| plugin["type"] != json!(names.of(missing)));
            list
        };
        each_node("unwired", network, |host, cri, names| {
            let (sandbox, container) = cri.serve(&web());
            let route = cri.exec(&container, &["ip", "route"]);
            assert!(route.contains("default via 10.244.0.1"), "{route}");
            let (said, status) = lint(host);
            assert_eq!(status, Some(1), "{said}");
            for what in ignored {
                let is_named = |line: &str| line.contains("ignored: ") && line.contains(what);
                assert!(said.lines().any(is_named), "{what}: {said}");
            }
            assert!(said.contains(&format!("{other}=")), "{said}");
            let others = names.of(missing);
            assert!(!said.contains(&format!("_plugin={others}\n")), "{said}");
            cri.end(&sandbox);
        });
    }
}
