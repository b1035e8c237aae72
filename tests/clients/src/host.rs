//! A node with an outside host, on which runtimes run.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use lab::{Namespace, Snapshot};
use serde_json::Value;
use tests::Node;

use crate::machine::Machine;
use crate::{are_here, plugins};

/// Kills all but the first process and its `cat`, which keeps that one alive; then undoes what runtimes have
/// mounted, as a start of the machine would.
const CRASH: &str = r#"
kill_all() {
    found=
    for process in /proc/[0-9]*; do
        pid=${process#/proc/}
        read -r _ name state parent _ <"$process/stat" 2>/dev/null || continue
        case "$pid.$parent.$name.$state" in
        1.* | $$.* | *.1.'(cat)'.* | *.Z) ;;
        *) kill -KILL "$pid" 2>/dev/null && found="$found $name" ;;
        esac
    done
}
for attempt in $(seq 100); do
    kill_all
    [ -n "$found" ] || break
    sleep 0.1
done
[ -z "$found" ] || { echo "still there:$found" >&2; exit 1; }
tac /proc/mounts | while read -r _ place _; do
    case $place in
    /run/netns/* | /run/containerd/* | */kubelet/root/*) umount "$place" ;;
    esac
done
rm -rf /run/containerd /run/netns/*
"#;

/// A node that is a machine to the runtimes on it: it has processes of its own, and its own `/run`,
/// `/etc/cni`, `/opt/cni` and `/var/lib/cni`. All that runs on it ends with it.
#[derive(Debug)]
pub struct Host {
    // Dropped first: its processes use what the others are.
    machine: Machine,
    /// The host outside, 192.0.2.1 and 2001:db8::1.
    pub outside: Namespace,
    /// The node, 192.0.2.10 and 2001:db8::10. Its plugins are in `/opt/cni/bin`, its reservations in
    /// `/var/lib/cni/networks`, its runtimes' caches in `/var/lib/cni`.
    pub node: Node,
}

impl Host {
    /// A node on which these programs can run; `None`, said aloud and counted, where this machine
    /// cannot make one, or has no such programs (see [`are_here`]).
    #[track_caller]
    pub fn new(label: &str, programs: &[&str]) -> Option<Host> {
        if !are_here(programs) {
            return None;
        }
        let node = Node::new(label)?;
        let outside = node.outside();
        let host = Host::of(node, outside);
        plugins::install(&host.node.bin);
        Some(host)
    }

    /// A node that is there already, as one of several on a segment, and a host outside. It has no plugins yet.
    pub fn of(mut node: Node, outside: Namespace) -> Host {
        let folder = node.folder().to_owned();
        let own = [
            ("run", "/run"),
            ("etc", "/etc/cni"),
            ("opt", "/opt/cni"),
            ("var", "/var/lib/cni"),
        ];
        node.bin = folder.join("opt/bin");
        node.data = folder.join("var/networks");
        node.cache = folder.join("var");
        std::fs::create_dir_all(&node.bin).unwrap();
        std::fs::create_dir_all(folder.join("etc/net.d")).unwrap();
        Host {
            outside,
            machine: Machine::new(&node.namespace, &folder, &own),
            node,
        }
    }

    /// Kills all that runs there, as a crash of the machine does; pods' namespaces end with it.
    ///
    /// # Panics
    /// Something stays.
    #[track_caller]
    pub fn crash(&self) {
        self.read("sh", &["-c", CRASH]);
    }

    /// A folder for what belongs to this test, at the same path on the node.
    pub fn folder(&self) -> &Path {
        self.node.folder()
    }

    /// Puts a network's list into the node's `/etc/cni/net.d`, under the list's name.
    pub fn configure(&self, list: &Value) {
        let name = list["name"].as_str().unwrap();
        let file = self.folder().join(format!("etc/net.d/{name}.conflist"));
        std::fs::write(file, list.to_string()).unwrap();
    }

    /// A command line that runs the program on the node. It is to be started by [`Host::output`] or
    /// by the node's namespace.
    pub fn command(&self, program: &str) -> Command {
        self.machine.command(program)
    }

    /// Runs a program on the node to its end.
    ///
    /// # Panics
    /// It takes more than a minute.
    #[track_caller]
    pub fn output(&self, program: &str, arguments: &[&str]) -> Output {
        let mut command = self.command(program);
        self.node
            .namespace
            .output(command.args(arguments), b"")
            .unwrap_or_else(|error| panic!("{program} {}: {error}", arguments.join(" ")))
    }

    /// Runs a program on the node; what it prints, without the white space around it.
    ///
    /// # Panics
    /// It fails.
    #[track_caller]
    pub fn read(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.output(program, arguments);
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        assert!(
            output.status.success(),
            "{program} {}: {said} {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        said
    }

    /// The network namespace that has this path on the node: `/run/netns/…`, or `/proc/PID/ns/net` of
    /// a process there.
    ///
    /// # Panics
    /// There is none.
    #[track_caller]
    pub fn netns(&self, path: &str) -> Namespace {
        Namespace::open(&self.path(path)).unwrap()
    }

    /// Where a file of the node is found from outside, be it in what is mounted there alone.
    pub fn path(&self, file: &str) -> PathBuf {
        self.machine.path(file)
    }

    /// The names of the network namespaces that are bound on the node.
    pub fn namespaces(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.path("/run/netns")).unwrap();
        let name = |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        let mut names: Vec<_> = entries.map(|entry| name(entry.unwrap())).collect();
        names.sort();
        names
    }

    /// What the node holds, with the reservations of one network.
    #[track_caller]
    pub fn snapshot(&self, network: &str) -> Snapshot {
        self.node.snapshot(network)
    }

    /// That the node holds what it held before: nothing more, nothing less.
    ///
    /// # Panics
    /// It does not; what is left, and what is lost, is told.
    #[track_caller]
    pub fn expect_as_before(&self, case: &str, before: &Snapshot, network: &str) {
        let now = self.snapshot(network);
        let (left, lost) = (now.since(before), before.since(&now));
        let same = left.is_empty() && lost.is_empty();
        assert!(same, "{case}: left:\n{left}\nlost:\n{lost}");
    }

    /// The node's own addresses, by which its host ports are reached.
    pub fn addresses(&self) -> [IpAddr; 2] {
        ["192.0.2.10", "2001:db8::10"].map(tests::at)
    }
}
