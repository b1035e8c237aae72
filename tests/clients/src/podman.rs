//! podman, on a node.

use std::net::IpAddr;
use std::process::{Command, Output};

use lab::Namespace;
use serde_json::Value;

use crate::{Host, Names, SERVER};

/// The programs without which there is none, for [`Host::new`].
pub const PODMAN: [&str; 4] = ["podman", "conmon", "runc", "busybox"];

/// Asks for the backend that runs plugins. Those that this project has not are the reference's.
const CONFIGURATION: &str = r#"
[network]
network_backend = "cni"
cni_plugin_dirs = ["/opt/cni/bin", "/usr/lib/cni"]
network_config_dir = "/etc/cni/net.d"

[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"

[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
apparmor_profile = "unconfined"
"#;

/// podman with the images and containers of one node, and [`SERVER`] among the images.
#[derive(Debug)]
pub struct Podman<'a> {
    host: &'a Host,
}

impl<'a> Podman<'a> {
    /// Makes it ready.
    ///
    /// # Panics
    /// It does not load the image.
    #[track_caller]
    pub fn new(host: &'a Host) -> Podman<'a> {
        std::fs::write(host.folder().join("containers.conf"), CONFIGURATION).unwrap();
        let podman = Podman { host };
        let image = SERVER.write(host.folder());
        podman.run(&format!("load --quiet --input {}", image.display()));
        podman
    }

    /// A command line of podman, to be started by the node's namespace.
    pub fn command(&self, words: &str) -> Command {
        let folder = self.host.folder();
        let mut podman = self.host.command("podman");
        podman
            .env("CONTAINERS_CONF", folder.join("containers.conf"))
            .arg("--root")
            .arg(folder.join("podman"))
            .args(["--runroot", "/run/containers", "--tmpdir", "/run/libpod"])
            .args(words.split_whitespace());
        podman
    }

    /// Runs podman to its end.
    ///
    /// # Panics
    /// It takes more than a minute.
    #[track_caller]
    pub fn output(&self, words: &str) -> Output {
        let mut command = self.command(words);
        let output = self.host.node.namespace.output(&mut command, b"");
        output.unwrap_or_else(|error| panic!("podman {words}: {error}"))
    }

    /// Runs podman; what it prints.
    ///
    /// # Panics
    /// It fails.
    #[track_caller]
    pub fn run(&self, words: &str) -> String {
        let output = self.output(words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "podman {words}: {said}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Runs a container of [`SERVER`] in the background, with these options.
    #[track_caller]
    pub fn serve(&self, name: &str, options: &str) {
        self.run(&format!(
            "run --detach --name {name} {options} {}",
            SERVER.name
        ));
    }

    /// `podman network create`, and under other names than the standard ones the list that it wrote
    /// with the types changed. Answers are given without a DNS server of the network's.
    #[track_caller]
    pub fn create_network(&self, name: &str, options: &str, names: Names) {
        self.run(&format!("network create {options} {name}"));
        let file = self
            .host
            .folder()
            .join(format!("etc/net.d/{name}.conflist"));
        let mut list = std::fs::read_to_string(&file).unwrap();
        for plugin in ["bridge", "portmap", "host-local"] {
            let kind = |name: &str| format!("\"type\": \"{name}\"");
            assert!(list.contains(&kind(plugin)), "{list}");
            list = list.replace(&kind(plugin), &kind(&names.of(plugin)));
        }
        std::fs::write(file, list).unwrap();
    }

    /// What podman knows of a container's network.
    #[track_caller]
    fn settings(&self, container: &str) -> Value {
        let known = self.run(&format!("inspect {container}"));
        let known: Value = serde_json::from_str(&known).unwrap();
        known[0]["NetworkSettings"].clone()
    }

    /// A container's network namespace.
    #[track_caller]
    pub fn netns(&self, container: &str) -> Namespace {
        let settings = self.settings(container);
        self.host.netns(settings["SandboxKey"].as_str().unwrap())
    }

    /// A container's address in a network: its IPv4 one if it has one.
    ///
    /// # Panics
    /// It has none.
    #[track_caller]
    pub fn address(&self, container: &str, network: &str) -> IpAddr {
        let settings = self.settings(container);
        let network = &settings["Networks"][network];
        let address = ["IPAddress", "GlobalIPv6Address"]
            .iter()
            .find_map(|key| network[key].as_str()?.parse().ok());
        address.unwrap_or_else(|| panic!("no address: {settings}"))
    }
}
