//! What the kernel itself costs, measured in the same rounds: the program `floor`, on our own node, which
//! is prepared for it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use lab::Namespace;

use crate::node::{Node, milliseconds};
use crate::rounds::Sample;
use crate::{Outcome, Rules};

/// The program, beside the plugins.
const PROGRAM: &str = "floor";

/// The bridge that its pods are on.
const LINKS: &str = "
ip link add cni0 address 02:00:0a:40:00:01 type bridge
ip address add 10.64.0.1/22 dev cni0
ip link set cni0 up
echo 1 > /proc/sys/net/ipv4/ip_forward
";

/// What its pods share, by iptables.
const CHAINS: &str = "*nat
-N FLOOR-SETMARK
-N FLOOR-MASQ
-N FLOOR-DNAT
-A FLOOR-SETMARK -j MARK --set-xmark 0x2000/0x2000
-A FLOOR-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE
-A POSTROUTING -j FLOOR-MASQ
-A PREROUTING -m addrtype --dst-type LOCAL -j FLOOR-DNAT
-A OUTPUT -m addrtype --dst-type LOCAL -j FLOOR-DNAT
COMMIT
";

/// What its pods share, in nftables: a pod is an element of each map.
const TABLE: &str = "table ip floor {
    map ports { type inet_proto . inet_service : ipv4_addr . inet_service; }
    map sources { type inet_proto . inet_service : verdict; }
    map pods { type ipv4_addr : verdict; }
    chain marked {
        ip saddr 10.64.0.0/22 meta mark set meta mark or 0x2000
        ip saddr 127.0.0.1 meta mark set meta mark or 0x2000
    }
    chain outside {
        ip daddr 10.64.0.0/22 accept
        ip daddr != 224.0.0.0/4 masquerade
    }
    chain hostports {
        meta l4proto . th dport vmap @sources
        dnat ip to meta l4proto . th dport map @ports
    }
    chain prerouting {
        type nat hook prerouting priority dstnat
        fib daddr type local jump hostports
    }
    chain output {
        type nat hook output priority -100
        fib daddr type local jump hostports
    }
    chain postrouting {
        type nat hook postrouting priority srcnat
        meta mark & 0x2000 == 0x2000 masquerade
        ip saddr vmap @pods
    }
}
";

/// A node on which the floor is measured as well.
#[derive(Debug)]
pub struct Floor<'a> {
    node: &'a Node,
    program: PathBuf,
    store: PathBuf,
}

/// A namespace that becomes a pod of the floor.
#[derive(Debug)]
pub struct FloorPod {
    number: u8,
    namespace: Namespace,
}

impl FloorPod {
    /// The namespace.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }
}

impl Floor<'_> {
    /// The program of a folder of plugins, if it is there.
    pub fn program(folder: &Path) -> Option<PathBuf> {
        let program = folder.join(PROGRAM).canonicalize().ok()?;
        program.is_file().then_some(program)
    }

    /// Prepares a node that has no pod yet.
    ///
    /// # Errors
    /// The file system's, or a tool's.
    pub fn new<'a>(program: &Path, node: &'a Node) -> Outcome<Floor<'a>> {
        let store = node.floor_store();
        std::fs::create_dir_all(&store)?;
        let floor = Floor {
            node,
            program: program.to_owned(),
            store,
        };
        floor.run("sh", &["-e"], LINKS)?;
        match node.rules {
            Rules::Nftables => floor.run("nft", &["-f", "-"], TABLE)?,
            _ => floor.run("iptables-restore", &["--noflush"], CHAINS)?,
        };
        Ok(floor)
    }

    /// A pod to be.
    ///
    /// # Errors
    /// The lab's.
    pub fn pod(&self, number: u8) -> Outcome<FloorPod> {
        Ok(FloorPod {
            number,
            namespace: self.node.namespace_of(&format!("floor{number}"))?,
        })
    }

    /// ADD and DEL of a pod.
    ///
    /// # Errors
    /// The program's.
    pub fn life(&self, pod: &FloorPod) -> Outcome<Vec<Sample>> {
        let sample = |verb: &str, took| (verb.to_owned(), milliseconds(took));
        let add = sample("ADD", self.time("add", pod)?);
        Ok(vec![add, sample("DEL", self.time("del", pod)?)])
    }

    /// What one call takes: `add` or `del`.
    ///
    /// # Errors
    /// The program's.
    pub fn time(&self, verb: &str, pod: &FloorPod) -> Outcome<Duration> {
        let rules = match self.node.rules {
            Rules::Nftables => "nftables",
            _ => "iptables",
        };
        let mut command = Command::new(&self.program);
        command
            .args([verb, rules])
            .arg(&self.store)
            .arg(pod.namespace.path())
            .arg(pod.number.to_string())
            .env("PATH", &self.node.path);
        let (took, output) = self.node.namespace.run(|| {
            let began = Instant::now();
            let output = command.output();
            (began.elapsed(), output)
        })?;
        let output = output?;
        if output.status.success() {
            return Ok(took);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("{verb} ({}): {}", self.node.rules.name(), said.trim()).into())
    }

    /// Runs a tool on the node: one that plugins may use, or any other of the machine's.
    fn run(&self, program: &str, arguments: &[&str], input: &str) -> Outcome<()> {
        let others = std::env::var_os("PATH").unwrap_or_default();
        let mut command = Command::new("env");
        command
            .arg(format!(
                "PATH={}:{}",
                self.node.path.display(),
                others.display()
            ))
            .arg(program)
            .args(arguments);
        let output = self.node.namespace.output(&mut command, input.as_bytes())?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("{program}: {}", said.trim()).into())
    }
}
