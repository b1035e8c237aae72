//! Kubernetes' own control plane: an API server with its store, and the controller that gives nodes their
//! ranges. `make test-cluster` builds these, once.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lab::{Namespace, find_tool};
use serde_json::{Value, json};

use crate::agent::processor;
use crate::workload::kubelets;
use crate::{eventually_within, sh, soon};

/// What Kubernetes 1.20 needs for two families.
const DUAL_STACK: &str = "--feature-gates=IPv6DualStack=true";
const MINUTE: Duration = Duration::from_secs(60);
/// What is shipped, with what the agent may do.
const MANIFEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/podnet-agent.yaml");
/// The same for a user.
const BINDING: &str = r#"{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
    "metadata": {"name": "test-agent"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "podnet-agent"},
    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "agent"}]}"#;

/// The API server writes down what agents ask.
const AUDIT: &str = r#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "users": ["agent"]}, {"level": "None"}]}"#;

/// A control plane in a namespace, 192.168.199.1. Its processes end with it.
#[derive(Debug)]
pub struct Plane<'a> {
    namespace: &'a Namespace,
    /// Whether nodes have ranges of both families.
    is_dual: bool,
    programs: PathBuf,
    folder: PathBuf,
    children: Vec<(&'static str, Child)>,
}

impl Drop for Plane<'_> {
    fn drop(&mut self) {
        for name in [
            "kube-scheduler",
            "kube-controller-manager",
            "kube-apiserver",
            "etcd",
        ] {
            self.stop(name);
        }
        if std::thread::panicking() {
            let log =
                fs::read_to_string(self.folder.join("kube-apiserver.log")).unwrap_or_default();
            let lines: Vec<_> = log.lines().rev().take(20).collect();
            eprintln!(
                "the API server's log, the last first:\n{}",
                lines.join("\n")
            );
        }
    }
}

impl<'a> Plane<'a> {
    /// One that gives IPv4 ranges; `None`, said aloud and counted, where it was not built.
    pub fn new(namespace: &'a Namespace, folder: &Path) -> Option<Plane<'a>> {
        Plane::of(namespace, folder, false)
    }

    /// As [`Plane::new`], with a range of each family for each node.
    pub fn dual_stack(namespace: &'a Namespace, folder: &Path) -> Option<Plane<'a>> {
        Plane::of(namespace, folder, true)
    }

    fn of(namespace: &'a Namespace, folder: &Path, is_dual: bool) -> Option<Plane<'a>> {
        let Some(programs) = std::env::var_os("CLUSTER_DIR").map(PathBuf::from) else {
            lab::skip("no Kubernetes is built (make test-cluster)");
            return None;
        };
        if find_tool("kubectl").is_none() || find_tool("openssl").is_none() {
            lab::skip("no kubectl or no openssl");
            return None;
        }
        sh(namespace, "ip link set lo up");
        let mut plane = Plane {
            namespace,
            is_dual,
            programs: programs.join("bin"),
            folder: folder.to_owned(),
            children: Vec::new(),
        };
        fs::write(
            folder.join("tokens"),
            format!(
                "of-admin,admin,1,\"system:masters\"\nof-agent,agent,2\n{}",
                kubelets()
            ),
        )
        .unwrap();
        fs::write(folder.join("audit.yaml"), AUDIT).unwrap();
        let key = folder.join("sa.key");
        let made = Command::new("openssl")
            .args(["genrsa", "-out"])
            .arg(&key)
            .arg("2048")
            .output();
        assert!(made.unwrap().status.success());
        plane.start_store();
        plane.start_api();
        fs::write(plane.path("agent.conf"), plane.kubeconfig("of-agent")).unwrap();
        soon_or_later(|| plane.kubectl(&["apply", "-f", MANIFEST], "").is_some());
        plane.create(&serde_json::from_str(BINDING).unwrap());
        plane.start_controller();
        Some(plane)
    }

    /// Where a file of its own is.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Starts one of its programs, which logs into `NAME.log` of its folder.
    pub fn start(&mut self, name: &'static str, words: &[&str]) {
        let log = self.path(&format!("{name}.log"));
        let log = File::options().create(true).append(true).open(log).unwrap();
        let mut program = Command::new(self.programs.join(name));
        program
            .args(words)
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let child = self.namespace.spawn(&mut program).unwrap();
        self.children.push((name, child));
    }

    /// Kills a program.
    pub fn stop(&mut self, name: &str) {
        for (_, child) in self.children.iter_mut().filter(|(of, _)| *of == name) {
            let _ = child.kill();
            let _ = child.wait();
        }
        self.children.retain(|(of, _)| *of != name);
    }

    /// The processor time that one of its programs has taken, in seconds.
    pub fn processor(&self, name: &str) -> f64 {
        let children = self.children.iter().filter(|(of, _)| *of == name);
        children.map(|(_, child)| processor(child)).sum()
    }

    /// Starts etcd, on the data that it has.
    pub fn start_store(&mut self) {
        let client = "http://127.0.0.1:2379";
        self.start(
            "etcd",
            &[
                "--data-dir=store",
                "--unsafe-no-fsync",
                &format!("--listen-client-urls={client}"),
                &format!("--advertise-client-urls={client}"),
                "--listen-peer-urls=http://127.0.0.1:2380",
            ],
        );
    }

    /// Starts what gives nodes their ranges.
    pub fn start_controller(&mut self) {
        let admin = self.path("admin.conf").to_string_lossy().into_owned();
        let admin = format!("--kubeconfig={admin}");
        let mut words = vec![
            admin.as_str(),
            "--allocate-node-cidrs=true",
            "--controllers=nodeipam",
            "--leader-elect=false",
        ];
        match self.is_dual {
            false => words.extend(["--cluster-cidr=10.200.0.0/16", "--node-cidr-mask-size=24"]),
            true => words.extend([
                DUAL_STACK,
                "--cluster-cidr=10.200.0.0/16,fd00:200::/56",
                "--node-cidr-mask-size-ipv4=24",
                "--node-cidr-mask-size-ipv6=64",
                "--service-cluster-ip-range=10.96.0.0/16,fd00:96::/112",
            ]),
        }
        self.start("kube-controller-manager", &words);
    }

    /// Starts the API server, and waits until it is ready.
    pub fn start_api(&mut self) {
        let mut words = vec![
            "--etcd-servers=http://127.0.0.1:2379",
            "--bind-address=192.168.199.1",
            "--advertise-address=192.168.199.1",
            "--secure-port=6443",
            "--cert-dir=certs",
            "--token-auth-file=tokens",
            "--authorization-mode=Node,RBAC",
            "--service-account-issuer=https://test",
            "--service-account-key-file=sa.key",
            "--service-account-signing-key-file=sa.key",
            "--audit-policy-file=audit.yaml",
            "--audit-log-path=audit.log",
        ];
        match self.is_dual {
            false => words.push("--service-cluster-ip-range=10.96.0.0/16"),
            true => words.extend([
                DUAL_STACK,
                "--service-cluster-ip-range=10.96.0.0/16,fd00:96::/112",
            ]),
        }
        self.start("kube-apiserver", &words);
        let cert = self.path("certs/apiserver.crt");
        soon(|| cert.exists(), || "no certificate".to_owned());
        fs::write(self.path("admin.conf"), self.kubeconfig("of-admin")).unwrap();
        soon_or_later(|| self.kubectl(&["get", "--raw", "/readyz"], "").is_some());
    }

    pub(crate) fn kubeconfig(&self, token: &str) -> String {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{ "name": "c", "cluster": {
                "server": "https://192.168.199.1:6443",
                "certificate-authority": self.path("certs/apiserver.crt"),
            } }],
            "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
            "users": [{ "name": "u", "user": { "token": token } }],
        })
        .to_string()
    }

    /// What kubectl says; `None` where it fails.
    pub fn kubectl(&self, words: &[&str], input: &str) -> Option<String> {
        let mut kubectl = Command::new("kubectl");
        kubectl
            .arg("--kubeconfig")
            .arg(self.path("admin.conf"))
            .args(words)
            .env("HOME", &self.folder);
        let output = self
            .namespace
            .output(&mut kubectl, input.as_bytes())
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        output.status.success().then_some(said)
    }

    /// Creates an object, as soon as the API takes it.
    pub fn create(&self, object: &Value) {
        let created = || self.kubectl(&["create", "-f", "-"], &object.to_string());
        soon_or_later(|| created().is_some());
    }

    /// A Node, as the API has it.
    pub fn node(&self, name: &str) -> Value {
        let text = self.kubectl(&["get", "node", name, "-o", "json"], "");
        serde_json::from_str(&text.unwrap()).unwrap()
    }
}

/// An API server takes its time to begin.
#[track_caller]
pub fn soon_or_later(is_so: impl Fn() -> bool) {
    let is_so = eventually_within(MINUTE, || is_so().then_some(()).ok_or(()));
    assert!(is_so.is_ok(), "not so within a minute");
}
