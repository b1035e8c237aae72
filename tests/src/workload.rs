//! A control plane whose nodes run pods: with a scheduler, and with the controllers of what is applied.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::Plane;

/// Those of nodes, of what a DaemonSet needs, and of the service accounts that its pods have.
const CONTROLLERS: &str = "nodeipam,nodelifecycle,daemonset,serviceaccount,serviceaccount-token,\
                           root-ca-cert-publisher,garbagecollector,podgc,endpoint";

/// Lines of tokens: who the kubelets of a [`crate::Segment`]'s nodes are.
pub(crate) fn kubelets() -> String {
    let nodes = (0..3).map(|number| {
        let name = format!("k8sworker{number}");
        format!("of-{name},system:node:{name},{name},\"system:nodes\"\n")
    });
    nodes.collect()
}

impl Plane<'_> {
    /// The kubeconfig of the kubelet of one of the segment's nodes.
    ///
    /// # Panics
    /// It cannot be written.
    pub fn kubeconfig_of(&self, node: &str) -> PathBuf {
        let file = self.path(&format!("{node}.conf"));
        fs::write(&file, self.kubeconfig(&format!("of-{node}"))).unwrap();
        file
    }

    /// Starts the scheduler, and all controllers that pods need.
    pub fn run_pods(&mut self) {
        let admin = self.path("admin.conf").display().to_string();
        let admin = format!("--kubeconfig={admin}");
        self.stop("kube-controller-manager");
        self.start(
            "kube-controller-manager",
            &[
                &admin,
                "--leader-elect=false",
                "--allocate-node-cidrs=true",
                "--cluster-cidr=10.200.0.0/16",
                "--node-cidr-mask-size=24",
                &format!("--controllers={CONTROLLERS}"),
                "--service-account-private-key-file=sa.key",
                "--root-ca-file=certs/apiserver.crt",
            ],
        );
        self.start("kube-scheduler", &[&admin, "--leader-elect=false"]);
    }

    /// An object, or a list of them; null where there is none.
    pub fn get(&self, words: &[&str]) -> Value {
        let words = [&["get", "-o", "json"], words].concat();
        let said = self.kubectl(&words, "").unwrap_or_default();
        serde_json::from_str(&said).unwrap_or_default()
    }
}
