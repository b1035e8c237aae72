//! Plugins are exchanged while pods come and go: no call fails of it.

// What helps a test fails as the test does.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cni::runtime::{Exec, NetworkList, Runtime, RuntimeConf};
use serde_json::{Map, Value, json};
use tests::{Answer, Node, Pod, binary_folder, podnet, sh};

const PROGRAMS: [&str; 6] = [
    "bridge-lite",
    "portmap-lite",
    "bandwidth-lite",
    "loopback-lite",
    "host-local-lite",
    "podnet",
];
/// How long pods come and go, at least.
const TIME: Duration = Duration::from_secs(3);
/// How often programs are exchanged, at least.
const TIMES: usize = 2;
const PODS: u16 = 4;

/// A node with plugins that are no links, and two builds of them.
struct Upgrade {
    node: Node,
    list: NetworkList,
    builds: [PathBuf; 2],
    over: AtomicBool,
    /// How many calls were made.
    calls: Arc<AtomicUsize>,
}

/// Starts plugins at once or not at all, as a runtime that does not know of programs being written. Every
/// answer must be one.
#[derive(Debug)]
struct Impatient(Arc<AtomicUsize>);

impl Exec for Impatient {
    fn run(
        &self,
        program: &Path,
        variables: &[(&str, &OsStr)],
        stdin: &[u8],
    ) -> io::Result<Output> {
        let mut child = Command::new(program)
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        // One that does not read it says why.
        let _ = child.stdin.take().map(|mut pipe| pipe.write_all(stdin));
        let output = child.wait_with_output()?;
        self.0.fetch_add(1, Ordering::Relaxed);
        match Answer::from(output.clone()).is_unclear(true) {
            Some(unclear) => Err(io::Error::other(unclear)),
            None => Ok(output),
        }
    }
}

impl Upgrade {
    fn new(label: &str) -> Option<Upgrade> {
        let mut node = Node::new(label)?;
        let builds = ["old", "new"].map(|name| node.folder().join(name));
        let built = binary_folder().canonicalize().unwrap();
        for (build, more) in builds.iter().zip(["", "; echo >> $new"]) {
            fs::create_dir(build).unwrap();
            for program in PROGRAMS {
                let (from, to) = (built.join(program), build.join(program));
                let (from, to) = (from.display(), to.display());
                // Not by this process, whose children could hold what it writes open.
                sh(&node.namespace, &format!("new={to}; cp {from} $new{more}"));
            }
        }
        node.bin = node.folder().join("installed");
        let list = node.conflist("10-k8nd.conflist");
        let upgrade = Upgrade {
            node,
            list,
            builds,
            over: AtomicBool::new(false),
            calls: Arc::default(),
        };
        upgrade.install(0);
        Some(upgrade)
    }

    fn install(&self, build: usize) {
        let path = |path: &Path| path.display().to_string();
        let (from, bin) = (path(&self.builds[build]), path(&self.node.bin));
        let conf = path(&self.node.configurations());
        let words = [
            "install",
            "--standard-names",
            "--from",
            &from,
            "--bin-dir",
            &bin,
            "--conf-dir",
            &conf,
        ];
        let answer = podnet(self.node.folder(), &words, "");
        assert_eq!(answer.status, 0, "{answer:?}");
        let length = |file: PathBuf| fs::metadata(file).unwrap().len();
        let (is, must) = (
            self.node.bin.join("bridge"),
            self.builds[build].join("bridge-lite"),
        );
        assert_eq!(length(is), length(must), "build {build} is not there");
    }

    /// One pod after the other, until it is over; how many.
    fn come_and_go(&self, pod: &Pod, port: u16, runtime: &Runtime) -> usize {
        let asked = json!({
            "portMappings": [{ "hostPort": port, "containerPort": 80, "protocol": "tcp" }],
            "bandwidth": { "ingressRate": 100_000_000, "ingressBurst": 8_000_000 }
        });
        let conf = |asked: Map<String, Value>| RuntimeConf {
            container_id: pod.id.clone(),
            netns: Some(pod.namespace.path().to_owned()),
            ifname: pod.ifname.clone(),
            args: Vec::new(),
            capability_args: asked,
        };
        let (asked, known) = (conf(asked.as_object().cloned().unwrap()), conf(Map::new()));
        let list = &self.list;
        let mut rounds = 0;
        self.node
            .namespace
            .run(|| {
                while !self.over.load(Ordering::Relaxed) {
                    let added = runtime.add(list, &asked).map(drop);
                    let steps = [
                        ("ADD", added),
                        ("CHECK", runtime.check(list, &known)),
                        ("DEL", runtime.del(list, &known)),
                    ];
                    for (step, done) in steps {
                        done.unwrap_or_else(|error| panic!("{} {step} {rounds}: {error}", pod.id));
                    }
                    rounds += 1;
                }
            })
            .unwrap();
        rounds
    }

    /// Pods come and go at once while `meanwhile` is done again and again; how often each.
    fn under_load(&self, runtime: &Runtime, mut meanwhile: impl FnMut()) -> (usize, usize) {
        let pods: Vec<Pod> = (0..PODS)
            .map(|pod| self.node.pod(&format!("pod{pod}")))
            .collect();
        let untouched = self.node.snapshot(&self.list.name);
        let counts = std::thread::scope(|scope| {
            let workers: Vec<_> = (8000..)
                .zip(&pods)
                .map(|(port, pod)| scope.spawn(move || self.come_and_go(pod, port, runtime)))
                .collect();
            let over = Over(&self.over);
            let began = Instant::now();
            let mut times = 0;
            let is_work_done = |times| times >= TIMES && began.elapsed() >= TIME;
            while !is_work_done(times) && !workers.iter().any(|worker| worker.is_finished()) {
                meanwhile();
                times += 1;
            }
            drop(over);
            let rounds = workers.into_iter().map(|worker| worker.join().unwrap());
            (rounds.sum(), times)
        });
        let left = self.node.snapshot(&self.list.name).since(&untouched);
        assert!(
            left.reservations.is_empty() && left.qdiscs.is_empty(),
            "left:\n{left}"
        );
        assert!(
            left.links.iter().all(|link| link.starts_with("cni0 ")),
            "left:\n{left}"
        );
        counts
    }
}

/// Lets the workers end, also where something fails meanwhile.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn by_install_no_call_ever_fails() {
    let Some(upgrade) = Upgrade::new("upgrade") else {
        return;
    };
    let runtime = Runtime {
        exec: Arc::new(Impatient(Arc::clone(&upgrade.calls))),
        ..upgrade.node.runtime()
    };
    let mut build = 0;
    let (rounds, installed) = upgrade.under_load(&runtime, || {
        build = 1 - build;
        upgrade.install(build);
    });
    let calls = upgrade.calls.load(Ordering::Relaxed);
    println!("{installed} installations, {rounds} pods, {calls} calls, none refused");
    assert!(
        installed >= TIMES && rounds >= usize::from(PODS),
        "{installed}, {rounds}"
    );
}

/// By `cp` over the files that are there, and by one that holds them open for writing: the kernel starts no
/// program meanwhile.
#[test]
fn while_others_write_in_place_calls_wait() {
    let Some(upgrade) = Upgrade::new("upgrade-busy") else {
        return;
    };
    if !is_running_text_kept() {
        return lab::skip("this kernel lets programs be written that run");
    }
    let runtime = upgrade.node.runtime();
    let mut busy = 0;
    let mut build = 0;
    let (rounds, written) = upgrade.under_load(&runtime, || {
        build = 1 - build;
        for program in PROGRAMS.iter().filter(|program| **program != "podnet") {
            let name = program.trim_end_matches("-lite");
            let (from, to) = (
                upgrade.builds[build].join(program),
                upgrade.node.bin.join(name),
            );
            let mut writer = write_slowly(&from, &to);
            busy += usize::from(is_busy(&to));
            writer.wait().unwrap();
        }
    });
    println!("{written} times written in place, {rounds} pods, {busy} times seen busy");
    assert!(busy > 0 && rounds >= usize::from(PODS), "{busy}, {rounds}");
}

/// Copies over a file that is there, and holds it open some time more. One that runs cannot be opened.
fn write_slowly(from: &Path, to: &Path) -> Child {
    let script = r#"exec 3> "$1"; cat "$0" >&3 && sleep 0.03"#;
    let mut shell = Command::new("sh");
    shell
        .args(["-c", script])
        .arg(from)
        .arg(to)
        .stderr(Stdio::null());
    shell.spawn().unwrap()
}

/// Whether the program cannot be started just now.
fn is_busy(program: &Path) -> bool {
    let end = Instant::now() + Duration::from_millis(20);
    while Instant::now() < end {
        let mut command = Command::new(program);
        let version = command.env("CNI_COMMAND", "VERSION").stdin(Stdio::null());
        match version.stdout(Stdio::null()).stderr(Stdio::null()).status() {
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => return true,
            Err(error) => panic!("{}: {error}", program.display()),
            Ok(_) => {}
        }
    }
    false
}

/// Whether the kernel keeps programs that run from being written. Some did not for a while.
fn is_running_text_kept() -> bool {
    let own = std::env::current_exe().unwrap();
    let opened = OpenOptions::new().write(true).open(own);
    opened.is_err_and(|error| error.kind() == ErrorKind::ExecutableFileBusy)
}
