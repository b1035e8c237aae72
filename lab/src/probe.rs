//! Clients that ask a [`crate::Server`], and a ping.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

use crate::error::Doing;
use crate::icmp::Echo;
use crate::{Namespace, Result, Sighting};

/// How long a probe tries before it gives up.
pub const DEADLINE: Duration = Duration::from_secs(5);
/// After how long a datagram counts as lost and is sent again.
const RESEND: Duration = Duration::from_millis(300);

impl Namespace {
    /// Connects to a server and returns how it sees us.
    ///
    /// # Errors
    /// No connection, or no answer, within [`DEADLINE`].
    pub fn ask_tcp(&self, target: SocketAddr) -> Result<Sighting> {
        self.ask_tcp_within(target, DEADLINE)
    }

    /// As [`Namespace::ask_tcp`], with a deadline of its own: for what is expected to fail.
    ///
    /// # Errors
    /// No connection, or no answer, within it.
    pub fn ask_tcp_within(&self, target: SocketAddr, deadline: Duration) -> Result<Sighting> {
        self.ask_stream(target, Protocol::TCP, deadline)
            .doing(format!("ask {target}/tcp from {}", self.name()))?
            .parse()
    }

    /// As [`Namespace::ask_tcp`], by SCTP.
    ///
    /// # Errors
    /// The kernel has no SCTP; no connection, or no answer, within [`DEADLINE`].
    pub fn ask_sctp(&self, target: SocketAddr) -> Result<Sighting> {
        self.ask_stream(target, Protocol::SCTP, DEADLINE)
            .doing(format!("ask {target}/sctp from {}", self.name()))?
            .parse()
    }

    fn ask_stream(
        &self,
        target: SocketAddr,
        protocol: Protocol,
        deadline: Duration,
    ) -> io::Result<String> {
        let open = || Socket::new(Domain::for_address(target), Type::STREAM, Some(protocol));
        let mut socket = self.run(open).map_err(io::Error::other)??;
        socket.connect_timeout(&target.into(), deadline)?;
        socket.set_read_timeout(Some(deadline))?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// Sends datagrams to a server until it answers, and returns how it sees us.
    ///
    /// # Errors
    /// No answer within [`DEADLINE`].
    pub fn ask_udp(&self, target: SocketAddr) -> Result<Sighting> {
        self.ask_udp_within(target, DEADLINE)
    }

    /// As [`Namespace::ask_udp`], with a deadline of its own: for what is expected to fail.
    ///
    /// # Errors
    /// No answer within it.
    pub fn ask_udp_within(&self, target: SocketAddr, deadline: Duration) -> Result<Sighting> {
        self.udp_client(target)?.ask_within(deadline)
    }

    /// A client whose datagrams to the server are all of one flow.
    ///
    /// # Errors
    /// The kernel's.
    pub fn udp_client(&self, target: SocketAddr) -> Result<UdpClient> {
        let unspecified = match target {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let connect = || {
            let socket = UdpSocket::bind((unspecified, 0))?;
            socket.connect(target)?;
            Ok(socket)
        };
        let doing = format!("ask {target}/udp from {}", self.name());
        let socket = self.run(connect)?.doing(&doing)?;
        Ok(UdpClient { socket, doing })
    }

    /// Equivalent to `ping -c 1 TARGET`: the time to the answer.
    ///
    /// # Errors
    /// No answer within [`DEADLINE`].
    pub fn ping(&self, target: IpAddr) -> Result<Duration> {
        self.ping_within(target, DEADLINE)
    }

    /// As [`Namespace::ping`], by one packet that is not sent again: for what must not be lost.
    ///
    /// # Errors
    /// No answer within [`DEADLINE`].
    pub fn ping_once(&self, target: IpAddr) -> Result<Duration> {
        self.echo(target, DEADLINE, Duration::ZERO)
    }

    /// As [`Namespace::ping`], with a deadline of its own: for what is expected to fail.
    ///
    /// # Errors
    /// No answer within it.
    pub fn ping_within(&self, target: IpAddr, deadline: Duration) -> Result<Duration> {
        self.echo(target, RESEND, deadline)
    }

    /// Sends echo requests until the deadline, at least one; each counts as lost after `patience`.
    fn echo(&self, target: IpAddr, patience: Duration, deadline: Duration) -> Result<Duration> {
        let (domain, protocol) = match target {
            IpAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4),
            IpAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6),
        };
        let echo = Echo::new(target.is_ipv6(), std::process::id());
        self.run(|| Socket::new(domain, Type::RAW, Some(protocol)))?
            .and_then(|mut socket| {
                // From then on only the target's packets are received.
                socket.connect(&SocketAddr::new(target, 0).into())?;
                socket.set_read_timeout(Some(patience))?;
                insist(deadline, || {
                    let sent = Instant::now();
                    socket.write_all(&echo.request())?;
                    let mut packet = [0; 256];
                    loop {
                        let length = socket.read(&mut packet)?;
                        if echo.is_answered_by(packet.get(..length).unwrap_or_default()) {
                            return Ok(sent.elapsed());
                        }
                        if sent.elapsed() > patience {
                            return Err(ErrorKind::TimedOut.into());
                        }
                    }
                })
            })
            .doing(format!("ping {target} from {}", self.name()))
    }
}

/// A client that keeps its socket, and with it its port.
#[derive(Debug)]
pub struct UdpClient {
    socket: UdpSocket,
    doing: String,
}

impl UdpClient {
    /// Sends datagrams until the server answers, and returns how it sees us.
    ///
    /// # Errors
    /// No answer within [`DEADLINE`].
    pub fn ask(&self) -> Result<Sighting> {
        self.ask_within(DEADLINE)
    }

    /// As [`UdpClient::ask`], with a deadline of its own: for what is expected to fail.
    ///
    /// # Errors
    /// No answer within it.
    pub fn ask_within(&self, deadline: Duration) -> Result<Sighting> {
        let mut buffer = [0; 256];
        let length = self
            .forget()
            .and_then(|()| {
                self.socket.set_read_timeout(Some(RESEND))?;
                insist(deadline, || {
                    self.socket.send(b"?")?;
                    self.socket.recv(&mut buffer)
                })
            })
            .doing(&self.doing)?;
        String::from_utf8_lossy(buffer.get(..length).unwrap_or_default()).parse()
    }

    /// Throws away answers to what was asked before, and what the network said of it.
    fn forget(&self) -> io::Result<()> {
        self.socket.set_nonblocking(true)?;
        loop {
            match self.socket.recv(&mut [0; 1]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                _ => {}
            }
        }
        self.socket.set_nonblocking(false)
    }
}

/// Tries again what got no answer in time, or was refused on the way, until the deadline.
pub(crate) fn insist<T>(
    deadline: Duration,
    mut attempt: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    let end = Instant::now() + deadline;
    loop {
        let started = Instant::now();
        match attempt() {
            Ok(value) => return Ok(value),
            Err(error) if Instant::now() >= end => return Err(error),
            // A refusal comes at once: what is not there yet may be in a moment.
            Err(_) => std::thread::sleep(RESEND.saturating_sub(started.elapsed())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_is_tried_again_until_the_deadline() {
        let mut attempts = 0;
        let third = insist(DEADLINE, || {
            attempts += 1;
            if attempts == 3 {
                Ok(attempts)
            } else {
                Err(ErrorKind::WouldBlock.into())
            }
        });
        assert_eq!(third.unwrap(), 3);

        let never: io::Result<()> = insist(Duration::ZERO, || Err(ErrorKind::WouldBlock.into()));
        assert_eq!(never.unwrap_err().kind(), ErrorKind::WouldBlock);
    }
}
