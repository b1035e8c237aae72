//! containerd, on a node.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::{Host, Image, SLEEPER, patiently};

/// Where it listens, on the node.
const ADDRESS: &str = "/run/containerd/containerd.sock";

/// The file with its number, which only processes of the node know it by.
const PROCESS: &str = "/run/containerd.pid";

/// containerd with a CRI, started for one node: its root and state are the node's, its sandboxes run
/// [`SLEEPER`], its networks are the lists of [`Host::configure`] and the plugins of the node's
/// `/opt/cni/bin`.
///
/// ```no_run
/// use clients::{CONTAINERD, Containerd, Host, SERVER};
///
/// let Some(host) = Host::new("label", &CONTAINERD) else { return };
/// host.configure(&serde_json::json!({ "cniVersion": "1.0.0", "name": "pods", "plugins": [] }));
/// let mut containerd = Containerd::start(&host);
/// containerd.import(&SERVER, "k8s.io"); // SLEEPER is there already
/// let socket = containerd.socket(); // for a client of the CRI in the test's own process
/// containerd.ctr(&["namespaces", "list"]);
/// containerd.kill(); // its sandboxes live on …
/// containerd.restart(); // … and it finds them again
/// // Dropped, it is killed; its containers end with the host.
/// ```
#[derive(Debug)]
pub struct Containerd<'a> {
    host: &'a Host,
    /// Where it, and its shim, are found.
    path: OsString,
    /// `nsenter`, whose child it is.
    process: Child,
}

/// The programs without which there is none, for [`Host::new`].
pub const CONTAINERD: [&str; 4] = ["containerd", "ctr", "runc", "busybox"];

impl<'a> Containerd<'a> {
    /// Starts it, waits until it answers, and gives its CRI the image of sandboxes.
    ///
    /// # Panics
    /// It does not answer within a minute; what it logged is told.
    #[track_caller]
    pub fn start(host: &'a Host) -> Containerd<'a> {
        Containerd::of_path(host, std::env::var_os("PATH").unwrap())
    }

    /// The same with the newer containerd of another suite, which `make test-clients` brings; `None`,
    /// said aloud and counted, where it could not.
    ///
    /// # Panics
    /// As [`Containerd::start`].
    #[track_caller]
    pub fn start_newer(host: &'a Host) -> Option<Containerd<'a>> {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let programs = root.join("target/clients/containerd/tree/usr/bin");
        if !programs.join("containerd").is_file() {
            lab::skip("no newer containerd (make test-clients brings it, where apt has it)");
            return None;
        }
        let usual = std::env::var_os("PATH").unwrap();
        let folders = [programs.canonicalize().unwrap()];
        let folders = folders.into_iter().chain(std::env::split_paths(&usual));
        let path = std::env::join_paths(folders).unwrap();
        Some(Containerd::of_path(host, path))
    }

    #[track_caller]
    fn of_path(host: &'a Host, path: OsString) -> Containerd<'a> {
        let folder = host.folder().join("containerd");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("config.toml"), config(host)).unwrap();
        let process = spawn(host, &path);
        let containerd = Containerd {
            host,
            path,
            process,
        };
        containerd.await_answer();
        containerd.import(&SLEEPER, "k8s.io");
        containerd
    }

    /// Its socket, as this process finds it.
    pub fn socket(&self) -> PathBuf {
        self.host.path(ADDRESS)
    }

    /// A command line of `ctr`, to be started by the node's namespace.
    pub fn ctr_command(&self) -> Command {
        let mut ctr = self.host.command("ctr");
        ctr.args(["--address", ADDRESS]);
        ctr
    }

    /// Runs `ctr`; what it prints.
    ///
    /// # Panics
    /// It fails.
    #[track_caller]
    pub fn ctr(&self, arguments: &[&str]) -> String {
        let arguments = [&["--address", ADDRESS], arguments].concat();
        self.host.read("ctr", &arguments)
    }

    /// Brings an image into a namespace of containerd's.
    ///
    /// # Panics
    /// It cannot be written or imported.
    #[track_caller]
    pub fn import(&self, image: &Image, namespace: &str) {
        let file = image.write(self.host.folder());
        let file = file.display().to_string();
        self.ctr(&["--namespace", namespace, "images", "import", &file]);
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.host.folder().join("containerd/log")).unwrap_or_default()
    }

    /// The calls that the plugins under test have noted, a line of JSON each.
    pub fn calls(&self) -> String {
        let calls = self.host.folder().join("containerd/calls");
        std::fs::read_to_string(calls).unwrap_or_default()
    }

    /// Kills it, by SIGKILL. Its shims and containers live on.
    ///
    /// # Panics
    /// It is not running.
    #[track_caller]
    pub fn kill(&mut self) {
        self.host.read("sh", &["-c", &self.killing()]);
        self.process.wait().unwrap();
    }

    /// Starts it again after [`Containerd::kill`].
    ///
    /// # Panics
    /// It does not answer within a minute; what it logged is told.
    #[track_caller]
    pub fn restart(&mut self) {
        self.process = spawn(self.host, &self.path);
        self.await_answer();
    }

    /// A line for a shell of the node.
    fn killing(&self) -> String {
        format!("kill -KILL $(cat {PROCESS})")
    }

    #[track_caller]
    fn await_answer(&self) {
        let mut version = self.ctr_command();
        version.args(["--timeout", "5s", "version"]);
        patiently(|| {
            let answer = self.host.node.namespace.output(&mut version, b"");
            let answered = answer.is_ok_and(|output| output.status.success());
            answered.then_some(()).ok_or_else(|| self.log())
        });
    }
}

impl Drop for Containerd<'_> {
    fn drop(&mut self) {
        let mut kill = self.host.command("sh");
        kill.args(["-c", &self.killing()]);
        let _ = self.host.node.namespace.output(&mut kill, b"");
        let _ = self.process.wait();
    }
}

fn spawn(host: &Host, path: &OsStr) -> Child {
    let log = host.folder().join("containerd/log");
    let log = File::options().create(true).append(true).open(log).unwrap();
    let config = host.folder().join("containerd/config.toml");
    let mut command = host.command("sh");
    let script = format!("echo $$ >{PROCESS}; exec containerd --config \"$0\"");
    command
        .args(["-c", &script])
        .arg(config)
        .env("PATH", path)
        .env("CNI_LITE_LOG", host.folder().join("containerd/calls"))
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log);
    host.node.namespace.spawn(&mut command).unwrap()
}

fn config(host: &Host) -> String {
    let folder = host.folder().join("containerd");
    let folder = folder.display();
    let sandbox = SLEEPER.name;
    format!(
        r#"version = 2
root = "{folder}/root"
state = "/run/containerd"

[grpc]
address = "{ADDRESS}"

[plugins."io.containerd.internal.v1.opt"]
path = "{folder}/opt"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{sandbox}"
disable_apparmor = true
restrict_oom_score_adj = true

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/opt/cni/bin"
conf_dir = "/etc/cni/net.d"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
"#
    )
}
