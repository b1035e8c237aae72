//! A kubelet without a cluster, which runs the pod of the worked example as a static one.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which stand outside of them"
)]

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use clients::{
    CONTAINERD, Containerd, Cri, Host, Image, Names, are_ours, chain, fetch, patiently, pod,
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

/// Which sysctls a kubelet sets to what: those of the whole machine.
const TUNED: [(&str, &str); 6] = [
    ("vm/overcommit_memory", "1"),
    ("vm/panic_on_oom", "0"),
    ("kernel/panic", "10"),
    ("kernel/panic_on_oops", "1"),
    ("kernel/keys/root_maxkeys", "1000000"),
    ("kernel/keys/root_maxbytes", "25000000"),
];

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

/// A kubelet on a node.
struct Kubelet<'a> {
    host: &'a Host,
    process: Child,
}

impl<'a> Kubelet<'a> {
    fn start(host: &'a Host, program: &Path) -> Kubelet<'a> {
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
        let config = folder.join("config.yaml");
        fs::write(&config, configuration(&folder)).unwrap();
        let log = File::create(folder.join("log")).unwrap();
        let script = "echo $$ >/run/kubelet.pid; exec \"$@\"";
        let mut command = host.command("sh");
        command.args(["-c", script, "kubelet"]).arg(program);
        let option = |name: &str, value: &Path| format!("--{name}={}", value.display());
        command
            .arg(option("config", &config))
            .arg(option("root-dir", &folder.join("root")))
            .arg(option("cert-dir", &folder.join("certificates")))
            .arg(option("volume-plugin-dir", &folder.join("plugins")))
            .args(["--container-runtime=remote", "--hostname-override=node"])
            .arg("--container-runtime-endpoint=unix:///run/containerd/containerd.sock")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        let process = host.node.namespace.spawn(&mut command).unwrap();
        Kubelet { host, process }
    }

    fn manifest(&self) -> PathBuf {
        self.host.folder().join("kubelet/manifests/shaped.yaml")
    }
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
        kill.args(["-c", "kill -KILL $(cat /run/kubelet.pid)"]);
        let _ = self.host.node.namespace.output(&mut kill, b"");
        let _ = self.process.wait();
    }
}

/// Without a cluster, without limits of this machine's, and without rules of its own.
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

        let kubelet = Kubelet::start(&host, &program);
        let manifest = Path::new(ROOT).join("conf/lab/shaped.yaml");
        fs::copy(manifest, kubelet.manifest()).unwrap();
        let [node, _] = host.addresses();
        fetch(&host.outside, SocketAddr::new(node, 8080));
        let listed = cri.client().sandboxes().unwrap();
        assert_eq!(listed[0].name, "shaped-node");
        assert_eq!(listed[0].namespace, "k8nd-cni");
        expect_shaped(&host, &mut cri, &listed[0].id);

        fs::remove_file(kubelet.manifest()).unwrap();
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
