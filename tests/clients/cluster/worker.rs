//! A node that runs pods, and crashes.

use std::fs;
use std::net::IpAddr;
use std::path::Path;

use clients::{Containerd, Cri, Host, Kubelet, SERVER, SLEEPER, patiently};
use lab::Namespace;
use tests::Plane;

/// A node with containerd and a kubelet.
pub struct Worker<'a> {
    cri: Cri<'a>,
    kubelet: Kubelet<'a>,
    containerd: Containerd<'a>,
    pub host: &'a Host,
}

impl<'a> Worker<'a> {
    /// Starts both; the kubelet registers the node by that name.
    pub fn start(host: &'a Host, name: &str, plane: &Plane, image: &Path) -> Worker<'a> {
        // As systemd does: what is mounted on the node is to be seen in pods.
        host.read("mount", &["--make-rshared", "/"]);
        let containerd = Containerd::start(host);
        let programs = std::env::var_os("CLUSTER_DIR").unwrap();
        let program = Path::new(&programs).join("bin/kubelet");
        let address = format!("192.168.199.21{}", name.trim_start_matches("k8sworker"));
        let worker = Worker {
            cri: Cri::connect(host, &containerd),
            kubelet: Kubelet::of_node(host, &program, &plane.kubeconfig_of(name), name, &address),
            containerd,
            host,
        };
        worker.import(image);
        worker
    }

    fn import(&self, image: &Path) {
        self.containerd.import(&SERVER, "k8s.io");
        let image = image.display().to_string();
        self.containerd
            .ctr(&["--namespace", "k8s.io", "images", "import", &image]);
    }

    /// All its processes and pods' namespaces end at once, and containerd forgets what it ran; the store and the
    /// node's rules stay.
    pub fn crash(&mut self) {
        self.kubelet.kill();
        self.containerd.kill();
        self.host.crash();
        fs::remove_dir_all(self.host.folder().join("containerd/root")).unwrap();
    }

    /// Starts them again.
    pub fn restart(&mut self, image: &Path) {
        self.containerd.restart();
        self.containerd.import(&SLEEPER, "k8s.io");
        self.import(image);
        self.kubelet.restart();
    }

    /// The sandbox of the application's pod.
    pub fn web_sandbox(&mut self) -> String {
        let cri = self.cri.client();
        patiently(|| {
            let all = cri.sandboxes().map_err(|error| error.to_string())?;
            let is_web = |one: &&cri::Sandbox| {
                one.name.starts_with("web-") && one.state == cri::State::Ready
            };
            let web = all.iter().find(is_web).map(|one| one.id.clone());
            web.ok_or_else(|| format!("{all:?}"))
        })
    }

    /// The network namespace of the application's pod, and its address.
    pub fn web(&mut self) -> (Namespace, IpAddr) {
        let sandbox = self.web_sandbox();
        (self.cri.netns(&sandbox), self.cri.addresses(&sandbox)[0])
    }
}
