//! Sockets that wait for others to come, and whose they are.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::SocketAddr;

use firewall::hostport::Protocol;
use procfs::net::{TcpNetEntries, TcpState, UdpNetEntries};
use procfs::process::{FDTarget, all_processes};
use procfs::{FromBufReadSI, ProcError, current_system_info};

use crate::Node;
use crate::node::Listener;

/// Of the calling thread's namespace.
const FOLDER: &str = "/proc/thread-self/net";

/// A socket: its protocol, its address, and its inode.
type Found = (Protocol, SocketAddr, u64);

impl Node {
    /// Sockets of SCTP are not read.
    pub(super) fn read_sockets(&mut self) {
        let mut found = Vec::new();
        for (file, protocol) in [
            ("tcp", Protocol::Tcp),
            ("tcp6", Protocol::Tcp),
            ("udp", Protocol::Udp),
            ("udp6", Protocol::Udp),
        ] {
            let sockets = self.seen(
                &format!("sockets in {FOLDER}/{file}"),
                sockets(file, protocol),
            );
            found.extend(sockets.into_iter().flatten());
        }
        let processes = processes(&found);
        let listeners = found
            .into_iter()
            .map(|(protocol, address, inode)| Listener {
                protocol,
                address,
                process: processes.get(&inode).cloned(),
            });
        self.listeners = listeners.collect();
    }
}

/// Those of a file that wait; there is no file where the kernel does not have the family.
fn sockets(file: &str, protocol: Protocol) -> Result<Vec<Found>, String> {
    let bytes = match std::fs::read(format!("{FOLDER}/{file}")) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        bytes => bytes.map_err(|error| error.to_string())?,
    };
    let sockets = match protocol {
        Protocol::Udp => udp(&bytes),
        _ => tcp(&bytes),
    };
    let sockets = sockets.map_err(|error| error.to_string())?;
    let sockets = sockets.into_iter();
    Ok(sockets
        .map(|(address, inode)| (protocol, address, inode))
        .collect())
}

fn tcp(bytes: &[u8]) -> Result<Vec<(SocketAddr, u64)>, ProcError> {
    let TcpNetEntries(all) = TcpNetEntries::from_buf_read(bytes, current_system_info())?;
    let waiting = all
        .into_iter()
        .filter(|socket| socket.state == TcpState::Listen);
    Ok(waiting
        .map(|socket| (socket.local_address, socket.inode))
        .collect())
}

/// A socket of UDP waits for everybody unless it is connected.
fn udp(bytes: &[u8]) -> Result<Vec<(SocketAddr, u64)>, ProcError> {
    let UdpNetEntries(all) = UdpNetEntries::from_buf_read(bytes, current_system_info())?;
    let waiting = all
        .into_iter()
        .filter(|socket| socket.remote_address.port() == 0);
    Ok(waiting
        .map(|socket| (socket.local_address, socket.inode))
        .collect())
}

/// The process of each inode, as far as we may look into processes.
fn processes(found: &[Found]) -> BTreeMap<u64, (i32, String)> {
    let mut owners = BTreeMap::new();
    if found.is_empty() {
        return owners;
    }
    let all = all_processes().into_iter().flatten().filter_map(Result::ok);
    for process in all {
        let files = process.fd().into_iter().flatten().filter_map(Result::ok);
        for file in files {
            let FDTarget::Socket(inode) = file.target else {
                continue;
            };
            if found.iter().any(|(_, _, wanted)| *wanted == inode) {
                let name = process.stat().map(|stat| stat.comm).unwrap_or_default();
                owners.entry(inode).or_insert((process.pid, name));
            }
        }
    }
    owners
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use super::*;

    #[test]
    fn who_waits_and_whose_that_is() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let tcp6 = TcpListener::bind("[::1]:0");
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let connected = UdpSocket::bind("127.0.0.1:0").unwrap();
        connected.connect(udp.local_addr().unwrap()).unwrap();
        let client = TcpStream::connect(tcp.local_addr().unwrap()).unwrap();
        let mut node = Node::default();
        node.read_sockets();
        assert_eq!(node.unread, []);
        let at = |address: SocketAddr| {
            let mut found = node.listeners.iter();
            found.find(|listener| listener.address == address)
        };
        let own = std::process::id().cast_signed();
        for (address, protocol) in [
            (tcp.local_addr(), Protocol::Tcp),
            (udp.local_addr(), Protocol::Udp),
        ] {
            let listener = at(address.unwrap()).unwrap();
            assert_eq!(listener.protocol, protocol);
            assert_eq!(listener.process.as_ref().unwrap().0, own);
        }
        if let Ok(tcp6) = tcp6 {
            assert!(at(tcp6.local_addr().unwrap()).is_some());
        }
        assert_eq!(at(connected.local_addr().unwrap()), None);
        assert_eq!(at(client.local_addr().unwrap()), None);
    }
}
