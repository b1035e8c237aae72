//! Servers that tell a client how they see it.

use std::fmt;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::error::Doing;
use crate::probe::insist;
use crate::{Error, Namespace, Result};

/// How long a server waits before it looks whether it is to end; it is woken earlier as a rule.
const LOOK: Duration = Duration::from_millis(200);

/// What a server saw of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sighting {
    /// Where the packets seemed to come from.
    pub peer: SocketAddr,
    /// Where they arrived: the server's own address.
    pub local: SocketAddr,
}

impl fmt::Display for Sighting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.peer, self.local)
    }
}

impl FromStr for Sighting {
    type Err = Error;

    fn from_str(text: &str) -> Result<Sighting> {
        let parse = |part: Option<&str>| part.and_then(|part| part.parse().ok());
        let mut parts = text.split_whitespace();
        match (parse(parts.next()), parse(parts.next()), parts.next()) {
            (Some(peer), Some(local), None) => Ok(Sighting { peer, local }),
            _ => Err(Error::Failed(format!("no sighting: {text:?}"))),
        }
    }
}

/// A server on a thread of its own, in one namespace, until it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    socket: Socket,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the thread; a UDP socket says that it is not connected, and wakes all the same.
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Within which a server's port is free after its end: a process that another thread is just starting has the
/// sockets of this one until it runs its program.
const FREED: Duration = Duration::from_secs(2);

impl Namespace {
    /// A TCP server that sends each client its [`Sighting`] and closes. Port 0 takes a free one.
    ///
    /// # Errors
    /// The address cannot be had.
    pub fn serve_tcp(&self, at: SocketAddr) -> Result<Server> {
        self.serve_stream(at, Protocol::TCP)
            .doing(format!("listen on {at}/tcp"))
    }

    /// As [`Namespace::serve_tcp`], for SCTP.
    ///
    /// # Errors
    /// The kernel has no SCTP, or the address cannot be had.
    pub fn serve_sctp(&self, at: SocketAddr) -> Result<Server> {
        self.serve_stream(at, Protocol::SCTP)
            .doing(format!("listen on {at}/sctp"))
    }

    fn serve_stream(&self, at: SocketAddr, protocol: Protocol) -> io::Result<Server> {
        let open = || Socket::new(Domain::for_address(at), Type::STREAM, Some(protocol));
        let socket = self.run(open).map_err(io::Error::other)??;
        socket.set_reuse_address(true)?;
        socket.bind(&at.into())?;
        socket.listen(128)?;
        let listener = TcpListener::from(socket.try_clone()?);
        let address = listener.local_addr()?;
        start(address, socket, move || {
            let (mut client, _) = listener.accept()?;
            let sighting = Sighting {
                peer: canonical(client.peer_addr()?),
                local: canonical(client.local_addr()?),
            };
            client.set_write_timeout(Some(LOOK))?;
            client.write_all(sighting.to_string().as_bytes())
        })
    }

    /// A UDP server that answers each datagram with its [`Sighting`]. Port 0 takes a free one.
    ///
    /// # Errors
    /// The address cannot be had.
    pub fn serve_udp(&self, at: SocketAddr) -> Result<Server> {
        let udp = self
            .run(|| insist(FREED, || UdpSocket::bind(at)))?
            .doing(format!("listen on {at}/udp"))?;
        let address = udp.local_addr().doing("listen")?;
        let socket = SockRef::from(&udp).try_clone().doing("listen")?;
        let started = start(address, socket, move || {
            let (_, from) = udp.recv_from(&mut [0; 16])?;
            let sighting = Sighting {
                peer: canonical(from),
                local: canonical(address),
            };
            udp.send_to(sighting.to_string().as_bytes(), from)?;
            Ok(())
        });
        started.doing("listen")
    }
}

/// Answers one client after the other until the server is dropped.
fn start(
    address: SocketAddr,
    socket: Socket,
    mut answer: impl FnMut() -> io::Result<()> + Send + 'static,
) -> io::Result<Server> {
    socket.set_read_timeout(Some(LOOK))?;
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let thread = thread::spawn(move || {
        while !stopped.load(Ordering::Relaxed) {
            // No client yet, or one that has gone: the next may fare better.
            let _ = answer();
        }
    });
    Ok(Server {
        address,
        socket,
        stop,
        thread: Some(thread),
    })
}

/// An IPv4 client of an IPv6 socket, by its IPv4 address.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sighting_is_read_as_it_was_written() {
        for (peer, local) in [
            ("10.1.0.2:4", "10.1.0.1:80"),
            ("[fd00::2]:4", "[fd00::1]:80"),
        ] {
            let sighting = Sighting {
                peer: peer.parse().unwrap(),
                local: local.parse().unwrap(),
            };
            assert_eq!(sighting.to_string().parse::<Sighting>().unwrap(), sighting);
        }
        assert!("10.1.0.2:4".parse::<Sighting>().is_err());
        assert!("a b".parse::<Sighting>().is_err());
        assert!("1.1.1.1:1 1.1.1.1:1 x".parse::<Sighting>().is_err());
    }

    #[test]
    fn an_ipv4_client_of_an_ipv6_socket_is_an_ipv4_client() {
        let mapped = "[::ffff:10.0.0.1]:5".parse().unwrap();
        assert_eq!(canonical(mapped), "10.0.0.1:5".parse().unwrap());
    }
}
