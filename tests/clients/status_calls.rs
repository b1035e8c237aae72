//! STATUS as the first runtime to call it does: containerd from 2.1 on, for a network of 1.1.0.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use std::net::SocketAddr;

use clients::{
    CONTAINERD, Containerd, Cri, Host, Names, SERVER, are_ours, chain, fetch, patiently, pod,
};
use cri::v1::Protocol::Tcp;
use serde_json::Value;

/// Waits until the runtime says whether its network is ready.
#[track_caller]
fn await_ready(cri: &mut Cri, ready: bool) {
    patiently(|| {
        let conditions = cri.client().conditions().unwrap();
        let network = conditions.iter().find(|one| one.r#type == "NetworkReady");
        let is_so = network.is_some_and(|network| network.status == ready);
        if is_so { Ok(()) } else { Err(conditions) }
    });
}

#[test]
fn a_runtime_knows_that_no_address_is_left() {
    if !are_ours("STATUS says nothing of addresses, and release 1.1.1 does not know it") {
        return;
    }
    for names in Names::all() {
        let Some(host) = Host::new("cri-status", &CONTAINERD) else {
            return;
        };
        let mut network = chain(*names, "1.1.0");
        // One for the gateway, and one for a pod.
        network["plugins"][0]["ipam"]["subnet"] = "10.244.0.0/30".into();
        host.configure(&network);
        let Some(containerd) = Containerd::start_newer(&host) else {
            return;
        };
        containerd.import(&SERVER, "k8s.io");
        let mut cri = Cri::connect(&host, &containerd);
        let version = cri.client().version().unwrap().version;
        assert!(!version.starts_with("1."), "{version}");
        await_ready(&mut cri, true);
        let first = cri.run(&pod("first", &[(8080, 80, Tcp)]));
        cri.end(&first);
        let before = host.snapshot("pods");

        let (web, _) = cri.serve(&pod("web", &[(8080, 80, Tcp)]));
        let [node, _] = host.addresses();
        fetch(&host.outside, SocketAddr::new(node, 8080));
        await_ready(&mut cri, false);
        let refused = cri.client().run_sandbox(&pod("second", &[]));
        assert!(refused.is_err(), "{refused:?}");
        cri.end(&web);
        await_ready(&mut cri, true);
        host.expect_as_before("after the end", &before, "pods");

        // Each plugin was asked, in the name of nobody.
        let calls = containerd.calls();
        let calls = calls
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        let status: Vec<Value> = calls
            .filter(|call: &Value| call["command"] == "STATUS")
            .collect();
        for plugin in ["bridge", "host-local", "portmap", "bandwidth"] {
            let mut of_plugin = status.iter().filter(|call| call["plugin"] == plugin);
            let nobody = ["containerID", "ifname", "netns"];
            let is_nobodys = |call: &Value| nobody.iter().all(|key| call.get(key).is_none());
            assert!(of_plugin.any(is_nobodys), "{plugin}: {status:#?}");
        }
    }
}
