//! A kubelet without a cluster, which runs the pod of the worked example as a static one.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clients::{
    CONTAINERD, Containerd, Cri, Host, Image, Kubelet, Names, are_ours, chain, fetch, patiently,
    pod,
};
use cri::v1::Protocol::Tcp;
use lab::{Snapshot, Window};
use tests::at;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Under the name that the pod asks for, and on its port.
const WEB: Image = Image {
    name: "docker.io/library/nginx:1.27-alpine",
    command: &["/bin/httpd", "-f", "-p", "8080", "-h", "/www"],
};

/// What both of the pod's annotations say, in bits per second.
const RATE: f64 = 1e6;

/// Where `make test-kubelet` builds it.
fn built() -> Option<PathBuf> {
    let folder = std::env::var_os("KUBELET_DIR").map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| Path::new(ROOT).join("target/clients/kubelet"));
    let built = folder.join("kubelet").canonicalize().ok();
    if built.is_none() {
        lab::skip("no kubelet (make test-kubelet builds it, where apt has its source)");
    }
    built
}

#[test]
fn the_pod_of_the_worked_example() {
    let Some(program) = built() else {
        return;
    };
    for names in Names::all() {
        let Some(host) = Host::new("kubelet", &CONTAINERD) else {
            return;
        };
        host.configure(&chain(*names, "1.0.0"));
        let containerd = Containerd::start(&host);
        containerd.import(&WEB, "k8s.io");
        let mut cri = Cri::connect(&host, &containerd);
        let first = pod("first", &[(8080, 80, Tcp)]);
        let first = patiently(|| cri.client().run_sandbox(&first));
        cri.end(&first);
        let before = host.snapshot("pods");

        let kubelet = Kubelet::alone(&host, &program);
        let manifest = Path::new(ROOT).join("conf/lab/shaped.yaml");
        let placed = kubelet.manifests().join("shaped.yaml");
        fs::copy(manifest, &placed).unwrap();
        let [node, _] = host.addresses();
        fetch(&host.outside, SocketAddr::new(node, 8080));
        let listed = cri.client().sandboxes().unwrap();
        assert_eq!(listed[0].name, "shaped-node");
        assert_eq!(listed[0].namespace, "k8nd-cni");
        expect_shaped(&host, &mut cri, &listed[0].id);

        fs::remove_file(placed).unwrap();
        patiently(|| {
            // A link may vanish while it is looked at.
            let now = Snapshot::of(&host.node.namespace, &host.node.data.join("pods"));
            let left = now.map_err(|error| error.to_string())?.since(&before);
            let gone = left.is_empty() && host.namespaces().is_empty();
            if gone { Ok(()) } else { Err(left.to_string()) }
        });
        host.expect_as_before("after the end", &before, "pods");
    }
}

/// That no more passes than the annotations say. The burst is a second's worth at so low a rate.
fn expect_shaped(host: &Host, cri: &mut Cri, sandbox: &str) {
    if !are_ours("the burst that nobody has chosen lets 536 MB pass at once") {
        return;
    }
    let inside = cri.netns(sandbox);
    let own = SocketAddr::new(cri.addresses(sandbox)[0], 0);
    let window = Window {
        warm_up: Duration::from_secs(2),
        counted: Duration::from_secs(2),
    };
    let outside = at("192.0.2.1:0");
    for (from, to, address) in [
        (&host.node.namespace, &inside, own),
        (&inside, &host.outside, outside),
    ] {
        let passed = lab::throughput(from, to, address, window).unwrap();
        assert!(passed < RATE * 1.1, "to {address}: {passed}");
    }
}
