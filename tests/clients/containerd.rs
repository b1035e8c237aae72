//! containerd as these tests start it.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use clients::{CONTAINERD, Containerd, Host, SERVER, SLEEPER};

#[test]
fn a_container_outlives_a_kill() {
    let Some(host) = Host::new("containerd", &CONTAINERD) else {
        return;
    };
    let mut containerd = Containerd::start(&host);
    assert!(containerd.socket().exists());
    let images = containerd.ctr(&["-n", "k8s.io", "images", "list", "-q"]);
    assert!(images.contains(SLEEPER.name), "{images}");
    containerd.import(&SERVER, "default");
    let name = "c1";
    containerd.ctr(&["run", "--detach", SERVER.name, name]);
    running(&containerd, name);
    containerd.kill();
    let mut version = containerd.ctr_command();
    version.args(["--timeout", "1s", "version"]);
    let output = host.node.namespace.output(&mut version, b"").unwrap();
    assert!(!output.status.success());
    containerd.restart();
    running(&containerd, name);
}

#[track_caller]
fn running(containerd: &Containerd, name: &str) {
    let tasks = containerd.ctr(&["tasks", "list"]);
    let found = tasks.lines().find(|line| line.contains(name));
    assert!(
        found.is_some_and(|line| line.contains("RUNNING")),
        "{tasks}"
    );
}
