//! What a kubelet asks of a runtime: pods, by the CRI.

use std::net::IpAddr;
use std::time::Duration;

use cri::v1::{
    ContainerConfig, ContainerMetadata, DnsConfig, ImageSpec, LinuxPodSandboxConfig, NamespaceMode,
    NamespaceOption, PodSandboxConfig, PodSandboxMetadata, PortMapping, Protocol,
};
use cri::v1::{LinuxSandboxSecurityContext, PodSandboxNetworkStatus};
use cri::{Client, Output};
use lab::Namespace;

use crate::{Containerd, Host, SERVER};

/// How long a runtime may take for a call, on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(120);

/// A client of the CRI of a node's containerd.
#[derive(Debug)]
pub struct Cri<'a> {
    host: &'a Host,
    client: Client,
}

/// A host port of a pod: on the node, in the pod, and what it speaks.
pub type HostPort = (i32, i32, Protocol);

/// What is asked for a pod of that name with these host ports.
pub fn pod(name: &str, ports: &[HostPort]) -> PodSandboxConfig {
    let ports = ports
        .iter()
        .map(|&(host, container, protocol)| PortMapping {
            protocol: protocol.into(),
            container_port: container,
            host_port: host,
            host_ip: String::new(),
        });
    let namespaces = NamespaceOption {
        network: NamespaceMode::Pod.into(),
        pid: NamespaceMode::Container.into(),
        ..NamespaceOption::default()
    };
    PodSandboxConfig {
        metadata: Some(PodSandboxMetadata {
            name: name.to_owned(),
            uid: format!("uid-{name}"),
            namespace: "default".to_owned(),
            attempt: 0,
        }),
        hostname: name.to_owned(),
        port_mappings: ports.collect(),
        linux: Some(LinuxPodSandboxConfig {
            security_context: Some(LinuxSandboxSecurityContext {
                namespace_options: Some(namespaces),
                ..LinuxSandboxSecurityContext::default()
            }),
            ..LinuxPodSandboxConfig::default()
        }),
        ..PodSandboxConfig::default()
    }
}

/// The same with rates, as annotations of a pod have them.
#[must_use]
pub fn with_rates(mut pod: PodSandboxConfig, ingress: &str, egress: &str) -> PodSandboxConfig {
    for (way, rate) in [("ingress", ingress), ("egress", egress)] {
        let annotation = format!("kubernetes.io/{way}-bandwidth");
        pod.annotations.insert(annotation, rate.to_owned());
    }
    pod
}

/// The same with a server of names.
#[must_use]
pub fn with_dns(mut pod: PodSandboxConfig, server: &str, search: &str) -> PodSandboxConfig {
    pod.dns_config = Some(DnsConfig {
        servers: vec![server.to_owned()],
        searches: vec![search.to_owned()],
        options: vec!["ndots:5".to_owned()],
    });
    pod
}

impl<'a> Cri<'a> {
    /// Connects to a node's containerd. It finds it again after a restart.
    ///
    /// # Panics
    /// It cannot be reached.
    #[track_caller]
    pub fn connect(host: &'a Host, containerd: &Containerd) -> Cri<'a> {
        let endpoint = format!("unix://{}", containerd.socket().display());
        let client = Client::connect(&endpoint.parse().unwrap(), PATIENCE).unwrap();
        Cri { host, client }
    }

    /// The client itself, for what may fail.
    pub fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Runs a pod without containers; the id of its sandbox.
    ///
    /// # Panics
    /// The runtime refuses.
    #[track_caller]
    pub fn run(&mut self, pod: &PodSandboxConfig) -> String {
        self.client.run_sandbox(pod).unwrap()
    }

    /// Runs a pod whose container serves [`SERVER`]'s page, and has its network; the ids of its
    /// sandbox and of that container.
    ///
    /// # Panics
    /// The runtime refuses.
    #[track_caller]
    pub fn serve(&mut self, pod: &PodSandboxConfig) -> (String, String) {
        let sandbox = self.run(pod);
        let container = ContainerConfig {
            metadata: Some(ContainerMetadata {
                name: "server".to_owned(),
                attempt: 0,
            }),
            image: Some(ImageSpec {
                image: SERVER.name.to_owned(),
                ..ImageSpec::default()
            }),
            ..ContainerConfig::default()
        };
        let container = self.client.run_container(&sandbox, container, pod).unwrap();
        (sandbox, container)
    }

    /// What a command in a container prints.
    ///
    /// # Panics
    /// It fails.
    #[track_caller]
    pub fn exec(&mut self, container: &str, command: &[&str]) -> String {
        let Output {
            status,
            stdout,
            stderr,
        } = self.client.exec(container, command).unwrap();
        let [stdout, stderr] = [stdout, stderr].map(|said| String::from_utf8(said).unwrap());
        assert_eq!(status, 0, "{command:?}: {stdout} {stderr}");
        stdout
    }

    /// The addresses of a pod, as the runtime tells them.
    ///
    /// # Panics
    /// The runtime refuses.
    #[track_caller]
    pub fn addresses(&mut self, sandbox: &str) -> Vec<IpAddr> {
        let status = self.client.sandbox_status(sandbox).unwrap();
        let PodSandboxNetworkStatus { ip, additional_ips } = status.network.unwrap();
        let more = additional_ips.into_iter().map(|more| more.ip);
        [ip].into_iter()
            .chain(more)
            .map(|ip| ip.parse().unwrap())
            .collect()
    }

    /// Where a pod's network namespace is on the node, as the cache of its ADD has it.
    ///
    /// # Panics
    /// The cache does not know it.
    #[track_caller]
    pub fn netns_path(&self, sandbox: &str) -> String {
        let known = self.host.node.runtime().attachments().unwrap();
        let is_it = |id: &str, ifname: &str| id == sandbox && ifname == "eth0";
        let mut known = known
            .iter()
            .filter(|known| is_it(&known.attachment.container_id, &known.attachment.ifname));
        let netns = known.next().and_then(|known| known.netns.as_ref()).unwrap();
        // A link to /run, that from outside leads elsewhere.
        netns
            .to_str()
            .unwrap()
            .trim_start_matches("/var")
            .to_owned()
    }

    /// A pod's network namespace.
    ///
    /// # Panics
    /// It is not there.
    #[track_caller]
    pub fn netns(&self, sandbox: &str) -> Namespace {
        self.host.netns(&self.netns_path(sandbox))
    }

    /// Stops and removes a pod, each twice, as a kubelet may.
    ///
    /// # Panics
    /// The runtime refuses.
    #[track_caller]
    pub fn end(&mut self, sandbox: &str) {
        self.client.stop_sandbox(sandbox).unwrap();
        self.client.stop_sandbox(sandbox).unwrap();
        self.client.remove_sandbox(sandbox).unwrap();
        self.client.remove_sandbox(sandbox).unwrap();
        // Not every runtime takes it for a success that there is none.
        let _ = self.client.stop_sandbox(sandbox);
    }
}
