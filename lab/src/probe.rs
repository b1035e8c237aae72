//! Clients that ask a [`crate::Server`], and a ping.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
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
        let mut answer = String::new();
        self.run(|| -> io::Result<()> {
            let mut stream = TcpStream::connect_timeout(&target, deadline)?;
            stream.set_read_timeout(Some(deadline))?;
            stream.read_to_string(&mut answer)?;
            Ok(())
        })?
        .doing(format!("ask {target}/tcp from {}", self.name()))?;
        answer.parse()
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
        let unspecified = match target {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let mut buffer = [0; 256];
        let length = self
            .run(|| UdpSocket::bind((unspecified, 0)))?
            .and_then(|socket| {
                socket.connect(target)?;
                socket.set_read_timeout(Some(RESEND))?;
                insist(deadline, || {
                    socket.send(b"?")?;
                    socket.recv(&mut buffer)
                })
            })
            .doing(format!("ask {target}/udp from {}", self.name()))?;
        String::from_utf8_lossy(buffer.get(..length).unwrap_or_default()).parse()
    }

    /// Equivalent to `ping -c 1 TARGET`: the time to the answer.
    ///
    /// # Errors
    /// No answer within [`DEADLINE`].
    pub fn ping(&self, target: IpAddr) -> Result<Duration> {
        let (domain, protocol) = match target {
            IpAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4),
            IpAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6),
        };
        let echo = Echo::new(target.is_ipv6(), std::process::id());
        self.run(|| Socket::new(domain, Type::RAW, Some(protocol)))?
            .and_then(|mut socket| {
                // From then on only the target's packets are received.
                socket.connect(&SocketAddr::new(target, 0).into())?;
                socket.set_read_timeout(Some(RESEND))?;
                insist(DEADLINE, || {
                    let sent = Instant::now();
                    socket.write_all(&echo.request())?;
                    let mut packet = [0; 256];
                    loop {
                        let length = socket.read(&mut packet)?;
                        if echo.is_answered_by(packet.get(..length).unwrap_or_default()) {
                            return Ok(sent.elapsed());
                        }
                        if sent.elapsed() > RESEND {
                            return Err(ErrorKind::TimedOut.into());
                        }
                    }
                })
            })
            .doing(format!("ping {target} from {}", self.name()))
    }
}

/// Tries again what got no answer in time, or was refused on the way, until the deadline.
fn insist<T>(deadline: Duration, mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
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
