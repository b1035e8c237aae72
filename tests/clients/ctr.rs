//! `ctr run --cni`: containerd without its CRI.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use clients::{CONTAINERD, Containerd, Host, Names, SERVER};
use serde_json::{Value, json};

/// A chain whose bridge, ports and rates are the plugins under test.
fn chain(names: Names, version: &str) -> Value {
    json!({
        "cniVersion": version, "name": "pods",
        "plugins": [
            {
                "type": names.of("bridge"), "bridge": "cni0", "isGateway": true, "ipMasq": true,
                "hairpinMode": true,
                "ipam": {
                    "type": names.of("host-local"), "subnet": "10.244.0.0/24",
                    "routes": [{ "dst": "0.0.0.0/0" }]
                }
            },
            { "type": names.of("portmap"), "capabilities": { "portMappings": true } },
            { "type": names.of("bandwidth"), "capabilities": { "bandwidth": true } }
        ]
    })
}

#[test]
fn a_container_that_ends_leaves_nothing() {
    for names in Names::all() {
        let Some(host) = Host::new("ctr", &CONTAINERD) else {
            return;
        };
        host.configure(&chain(*names, "1.0.0"));
        let containerd = Containerd::start(&host);
        containerd.import(&SERVER, "default");
        let name = "c1";
        let run = |script: &str| {
            containerd.ctr(&[
                "run",
                "--rm",
                "--cni",
                SERVER.name,
                name,
                "/bin/sh",
                "-c",
                script,
            ])
        };
        let seen = run("ip -o address show dev eth0; ip route");
        assert!(seen.contains("10.244.0.2/24"), "{seen}");
        assert!(seen.contains("default via 10.244.0.1"), "{seen}");
        let before = host.snapshot("pods");
        assert_eq!(before.reservations, [""; 0]);
        run("ping -c 1 -w 10 192.0.2.1");
        host.expect_as_before("after its end", &before, "pods");
    }
}
