//! `podnet agent` as it runs on a node of a segment.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lab::Namespace;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::{Api, Node, Segment, binary_folder, eventually_within, sh};

/// How long a node may take until all is right again, on a machine that is busy.
const SOON: Duration = Duration::from_secs(20);

/// The routes of the first node of [`api_nodes`] to the pods of the second.
pub const TO_WORKER_1: [&str; 2] = [
    "10.200.1.0/24 192.168.199.211",
    "fd00:200:0:1::/64 fd99::211",
];
/// To those of the third.
pub const TO_WORKER_2: [&str; 2] = [
    "10.200.2.0/24 192.168.199.212",
    "fd00:200:0:2::/64 fd99::212",
];
/// To both.
pub const TO_BOTH: [&str; 4] = [
    TO_WORKER_1[0],
    TO_WORKER_2[0],
    TO_WORKER_1[1],
    TO_WORKER_2[1],
];

/// A segment, and an API on its first node that knows its nodes; `None`, said aloud and counted, where this
/// machine cannot.
pub fn segment_with_api() -> Option<(Segment, Api)> {
    let segment = Segment::new("agent")?;
    let api = Api::with_nodes(&segment.nodes[0].namespace);
    Some((segment, api))
}

/// A Node of the API, with InternalIPs.
pub fn api_node(name: &str, ranges: &[&str], addresses: &[&str]) -> Value {
    let addresses = addresses
        .iter()
        .map(|address| json!({ "type": "InternalIP", "address": address }));
    json!({
        "kind": "Node",
        "metadata": { "name": name, "creationTimestamp": "2026-01-01T00:00:00Z" },
        "spec": { "podCIDR": ranges.first(), "podCIDRs": ranges },
        "status": { "addresses": addresses.collect::<Vec<_>>() },
    })
}

/// The nodes of a [`crate::Segment`], with a range of each family.
pub fn api_nodes() -> Vec<Value> {
    let nodes = (0..3).map(|number| {
        api_node(
            &format!("k8sworker{number}"),
            &[
                &format!("10.200.{number}.0/24"),
                &format!("fd00:200:0:{number}::/64"),
            ],
            &[
                &format!("192.168.199.21{number}"),
                &format!("fd99::21{number}"),
            ],
        )
    });
    nodes.collect()
}

/// An agent that runs. It ends with its test.
#[derive(Debug)]
pub struct Agent<'a> {
    node: &'a Node,
    child: Child,
    log: PathBuf,
}

impl Drop for Agent<'_> {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("the agent's log:\n{}", self.log());
        }
    }
}

impl<'a> Agent<'a> {
    /// Starts it as `k8sworker0`, beside that API.
    pub fn start(node: &'a Node, api: &Api, words: &[&str]) -> Agent<'a> {
        let kubeconfig = api.kubeconfig(node.folder());
        Agent::start_as(node, "k8sworker0", &kubeconfig, words)
    }

    /// Starts it as the node of that name, with that kubeconfig.
    pub fn start_as(
        node: &'a Node,
        name: &str,
        kubeconfig: &std::path::Path,
        words: &[&str],
    ) -> Agent<'a> {
        Agent::start_by(node, &[], name, kubeconfig, words)
    }

    /// The same, by a command line that runs what stands after it.
    pub fn start_by(
        node: &'a Node,
        by: &[&str],
        name: &str,
        kubeconfig: &std::path::Path,
        words: &[&str],
    ) -> Agent<'a> {
        let log = node.folder().join("agent.log");
        let options = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .unwrap();
        let podnet = binary_folder().canonicalize().unwrap().join("podnet");
        let mut line: Vec<&OsStr> = by.iter().map(OsStr::new).collect();
        line.push(podnet.as_os_str());
        let mut podnet = Command::new(line[0]);
        podnet
            .args(&line[1..])
            .args(["agent", "--node-name", name, "--kubeconfig"])
            .arg(kubeconfig)
            .args(words)
            .env_clear()
            .env("PATH", &node.path)
            .env("CNI_PATH", &node.bin)
            .env("NETCONFPATH", node.configurations())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(options);
        let child = node.namespace.spawn(&mut podnet).unwrap();
        Agent { node, child, log }
    }

    /// Kills it, as a machine that fails would.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Ends it as a service manager does; its exit status.
    pub fn end(&mut self) -> Option<i32> {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap());
        kill(pid, Signal::SIGTERM).unwrap();
        self.child.wait().unwrap().code()
    }

    /// Lets it have so many files open at most; those that it has stay.
    pub fn may_open(&self, files: u32) {
        let mut prlimit = Command::new("prlimit");
        prlimit.args([
            format!("--pid={}", self.child.id()),
            format!("--nofile={files}:"),
        ]);
        assert!(prlimit.status().unwrap().success(), "{prlimit:?}");
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// The most memory that it ever had, in MB, and the processor time that it took, in seconds.
    pub fn usage(&self) -> (f64, f64) {
        let path = format!("/proc/{}/status", self.child.id());
        let status = fs::read_to_string(path).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|peak| peak.split_whitespace().next()?.parse::<f64>().ok());
        (peak.unwrap() * 1024.0 / 1e6, processor(&self.child))
    }

    /// What it has said.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Waits until it has said that.
    #[track_caller]
    pub fn says(&self, words: &str) {
        soon(|| self.log().contains(words), || self.log());
    }

    /// Waits until the node has these routes of the agent's and no others.
    #[track_caller]
    pub fn routes(&self, expected: &[&str]) {
        let routes = || agent_routes(&self.node.namespace);
        soon(|| routes() == expected, || format!("{:#?}", routes()));
    }

    /// What is served at a path; status and text.
    pub fn get(&self, path: &str) -> (u16, String) {
        let get = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect("127.0.0.1:9462")?;
            write!(
                stream,
                "GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
            )?;
            let mut text = String::new();
            stream.read_to_string(&mut text)?;
            Ok(text)
        };
        let text = self.node.namespace.run(get).unwrap().unwrap_or_default();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_default();
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        (status.unwrap_or_default(), body.to_owned())
    }
}

/// The processor time that a process has taken, in seconds.
pub fn processor(child: &Child) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    // utime and stime, in hundredths of a second.
    let ticks = fields.split(' ').skip(11).take(2);
    let ticks = ticks.filter_map(|ticks| ticks.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}

/// Waits until something is so; else says what it found last.
#[track_caller]
pub fn soon(is_so: impl Fn() -> bool, found: impl FnOnce() -> String) {
    let is_so = eventually_within(SOON, || is_so().then_some(()).ok_or(()));
    assert!(is_so.is_ok(), "still not so: {}", found());
}

/// The routes with the agent's mark, of both families: destination and next hop.
pub fn agent_routes(namespace: &Namespace) -> Vec<String> {
    let lines = sh(
        namespace,
        "ip -4 route show proto 145; ip -6 route show proto 145",
    );
    let lines = lines.lines().map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        format!("{} {}", words[0], words[2])
    });
    lines.collect()
}
