//! `floor`: what ADD and DEL of a chain cost the kernel itself.
//!
//! One process does what the plugins of the chain bring about for one pod: a reservation, a veth pair,
//! the pod's address and route, sysctls, masquerade and a host port, both rates. It looks at nothing
//! first, checks nothing and repairs nothing: no chain can be faster by more than that is wrong with
//! the way it goes about it. The node is prepared by the benchmark. There is no parser of options
//! either, since the start is measured as well:
//!
//! ```text
//! floor add|del iptables|nftables STORE NETNS NUMBER
//! ```

mod links;
mod message;
mod rules;
mod shaping;
mod socket;
mod store;

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::ExitCode;

use nix::net::if_::if_nametoindex;
use nix::sched::{CloneFlags, setns};

use socket::Socket;

/// The bridge that all pods are on, and its address.
const BRIDGE: &str = "cni0";
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 64, 0, 1);
/// Length of the network's prefix.
const PREFIX: u8 = 22;

/// What the pod's interface is told, and what makes host ports work on the node itself.
const POD_SYSCTLS: [&str; 3] = [
    "net/ipv4/conf/eth0/arp_notify",
    "net/ipv6/conf/eth0/ndisc_notify",
    "net/ipv6/conf/eth0/enhanced_dad",
];
const NODE_SYSCTL: &str = "net/ipv4/conf/cni0/route_localnet";

/// One pod: everything that it has is named by its number.
#[derive(Debug, Clone, Copy)]
struct Pod {
    number: u8,
}

impl Pod {
    /// The upper end of the bridge's network.
    fn address(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 64, 3, self.number)
    }

    fn host_port(self) -> u16 {
        30_000 + u16::from(self.number)
    }

    fn veth(self) -> String {
        format!("floor{}", self.number)
    }

    fn ifb(self) -> String {
        format!("floorifb{}", self.number)
    }

    /// The link group of both.
    fn group(self) -> u32 {
        0xf100 + u32::from(self.number)
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("floor: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[String]) -> io::Result<()> {
    let [verb, rules, store, netns, number] = words else {
        return Err(usage());
    };
    let number = number.parse().map_err(|_| usage())?;
    let (pod, nftables) = (Pod { number }, rules == "nftables");
    match verb.as_str() {
        "add" => add(pod, nftables, Path::new(store), Path::new(netns)),
        "del" => del(pod, nftables, Path::new(store)),
        _ => Err(usage()),
    }
}

fn usage() -> io::Error {
    io::Error::other("floor add|del iptables|nftables STORE NETNS NUMBER (up to 255)")
}

fn add(pod: Pod, nftables: bool, store: &Path, netns: &Path) -> io::Result<()> {
    store::reserve(store, pod)?;
    let (own, netns) = (File::open("/proc/self/ns/net")?, File::open(netns)?);
    let mut node = Socket::route()?;
    node.send(&links::veth_pair(pod, if_nametoindex(BRIDGE)?, &netns))?;

    setns(&netns, CloneFlags::CLONE_NEWNET)?;
    let mut inside = Socket::route()?;
    let eth0 = if_nametoindex("eth0")?;
    for sysctl in POD_SYSCTLS {
        write_sysctl(sysctl)?;
    }
    setns(&own, CloneFlags::CLONE_NEWNET)?;
    // The pair is not ready for it in the message that makes it, nor an address in that one.
    inside.send(&links::up(eth0))?;
    inside.send(&links::address_and_route(pod, eth0))?;

    write_sysctl(NODE_SYSCTL)?;
    rules::add(pod, nftables)?;
    let veth = if_nametoindex(pod.veth().as_str())?;
    node.send(&shaping::into_the_pod(pod, veth))?;
    let ifb = if_nametoindex(pod.ifb().as_str())?;
    node.send(&shaping::out_of_the_pod(veth, ifb))
}

/// Rules first: the end of their transaction then waits together with that of the links.
fn del(pod: Pod, nftables: bool, store: &Path) -> io::Result<()> {
    rules::del(pod, nftables)?;
    Socket::route()?.send(&links::deletion(pod))?;
    store::release(store, pod)
}

fn write_sysctl(sysctl: &str) -> io::Result<()> {
    match std::fs::write(Path::new("/proc/sys").join(sysctl), "1") {
        // A kernel without IPv6.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        written => written,
    }
}
