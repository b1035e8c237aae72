//! The kubelet, on a node.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use crate::Host;

const KILL: &str = "kill -KILL $(cat /run/kubelet.pid)";

/// Which sysctls a kubelet sets to what: those of the whole machine.
const TUNED: [(&str, &str); 6] = [
    ("vm/overcommit_memory", "1"),
    ("vm/panic_on_oom", "0"),
    ("kernel/panic", "10"),
    ("kernel/panic_on_oops", "1"),
    ("kernel/keys/root_maxkeys", "1000000"),
    ("kernel/keys/root_maxbytes", "25000000"),
];

/// A kubelet on a node. Dropped, it is killed.
#[derive(Debug)]
pub struct Kubelet<'a> {
    host: &'a Host,
    program: PathBuf,
    options: Vec<String>,
    process: Child,
}

impl<'a> Kubelet<'a> {
    /// One without a cluster.
    ///
    /// # Panics
    /// It cannot be started.
    #[track_caller]
    pub fn alone(host: &'a Host, program: &Path) -> Kubelet<'a> {
        Kubelet::start(host, program, &["--hostname-override=node".to_owned()])
    }

    /// One that registers its node by that name and address, with the API that the kubeconfig tells.
    ///
    /// # Panics
    /// It cannot be started.
    #[track_caller]
    pub fn of_node(
        host: &'a Host,
        program: &Path,
        kubeconfig: &Path,
        name: &str,
        address: &str,
    ) -> Kubelet<'a> {
        let options = [
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--hostname-override={name}"),
            format!("--node-ip={address}"),
        ];
        Kubelet::start(host, program, &options)
    }

    #[track_caller]
    fn start(host: &'a Host, program: &Path, options: &[String]) -> Kubelet<'a> {
        let folder = host.folder().join("kubelet");
        fs::create_dir_all(folder.join("manifests")).unwrap();
        // Its folders, pods' logs, and what it sets for the whole machine are the node's own.
        host.read("mkdir", &["-p", "/var/lib/kubelet"]);
        for place in ["/var/lib/kubelet", "/var/log"] {
            host.read("mount", &["-t", "tmpfs", "tmpfs", place]);
        }
        for (sysctl, value) in TUNED {
            let own = folder.join(sysctl.replace('/', "-"));
            fs::write(&own, value).unwrap();
            let place = format!("/proc/sys/{sysctl}");
            host.read("mount", &["--bind", own.to_str().unwrap(), &place]);
        }
        fs::write(folder.join("config.yaml"), configuration(&folder)).unwrap();
        Kubelet {
            host,
            program: program.to_owned(),
            options: options.to_owned(),
            process: spawn(host, program, options),
        }
    }

    /// Kills it, by SIGKILL. Its pods live on.
    ///
    /// # Panics
    /// It is not running.
    #[track_caller]
    pub fn kill(&mut self) {
        self.host.read("sh", &["-c", KILL]);
        self.process.wait().unwrap();
    }

    /// Starts it again after [`Kubelet::kill`].
    ///
    /// # Panics
    /// It cannot be started.
    #[track_caller]
    pub fn restart(&mut self) {
        self.process = spawn(self.host, &self.program, &self.options);
    }

    /// Where it finds the manifests of static pods.
    pub fn manifests(&self) -> PathBuf {
        self.host.folder().join("kubelet/manifests")
    }
}

fn spawn(host: &Host, program: &Path, options: &[String]) -> Child {
    let folder = host.folder().join("kubelet");
    let log = folder.join("log");
    let log = File::options().create(true).append(true).open(log).unwrap();
    let script = "echo $$ >/run/kubelet.pid; exec \"$@\"";
    let mut command = host.command("sh");
    command.args(["-c", script, "kubelet"]).arg(program);
    let option = |name: &str, value: &Path| format!("--{name}={}", value.display());
    command
        .arg(option("config", &folder.join("config.yaml")))
        .arg(option("root-dir", &folder.join("root")))
        .arg(option("cert-dir", &folder.join("certificates")))
        .arg(option("volume-plugin-dir", &folder.join("plugins")))
        .arg("--container-runtime=remote")
        .arg("--container-runtime-endpoint=unix:///run/containerd/containerd.sock")
        .args(options)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log);
    host.node.namespace.spawn(&mut command).unwrap()
}

impl Drop for Kubelet<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = fs::read_to_string(self.host.folder().join("kubelet/log"));
            let log = log.unwrap_or_default();
            let lines: Vec<_> = log.lines().rev().take(40).collect();
            for line in lines.iter().rev() {
                eprintln!("kubelet: {line}");
            }
        }
        let mut kill = self.host.command("sh");
        kill.args(["-c", KILL]);
        let _ = self.host.node.namespace.output(&mut kill, b"");
        let _ = self.process.wait();
    }
}

/// Without limits of this machine's, and without rules of its own.
fn configuration(folder: &Path) -> String {
    let manifests = folder.join("manifests");
    format!(
        "apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
staticPodPath: {}
fileCheckFrequency: 1s
syncFrequency: 1s
authentication:
  anonymous: {{enabled: true}}
  webhook: {{enabled: false}}
authorization: {{mode: AlwaysAllow}}
address: 127.0.0.1
cgroupDriver: cgroupfs
cgroupsPerQOS: false
enforceNodeAllocatable: []
failSwapOn: false
makeIPTablesUtilChains: false
evictionHard: {{memory.available: '0%', nodefs.available: '0%', imagefs.available: '0%'}}
imageGCHighThresholdPercent: 100
",
        manifests.display()
    )
}
