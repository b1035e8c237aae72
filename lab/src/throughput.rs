//! How many bits pass between two namespaces.

use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use socket2::SockRef;

use crate::error::Doing;
use crate::{DEADLINE, Error, Namespace, Result};

/// What is measured, and what is let go by before: a token bucket passes its burst unshaped.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// Not counted.
    pub warm_up: Duration,
    /// Counted.
    pub counted: Duration,
}

/// So many that the others fill the gap when one waits after a loss.
const CONNECTIONS: usize = 4;

/// The bits per second that reach the links of `to`, headers included, while a few TCP connections
/// from `from` to `address` in `to` send all they can. Port 0 takes a free one.
///
/// It counts at the links, and not what a connection delivers: after a loss that comes late, and
/// then all at once.
///
/// # Errors
/// No connection within [`DEADLINE`].
pub fn throughput(
    from: &Namespace,
    to: &Namespace,
    address: SocketAddr,
    window: Window,
) -> Result<f64> {
    throughput_with(from, to, address, window, thread::sleep)
}

/// As [`throughput`], with what waits so long: it may come back earlier where nobody wants to know
/// the rate any more.
///
/// # Errors
/// As [`throughput`].
pub fn throughput_with(
    from: &Namespace,
    to: &Namespace,
    address: SocketAddr,
    window: Window,
    wait: impl Fn(Duration),
) -> Result<f64> {
    let doing = || format!("connect from {} to {address}", from.name());
    let listener = to.run(|| TcpListener::bind(address))?.doing(doing())?;
    SockRef::from(&listener)
        .set_read_timeout(Some(DEADLINE))
        .doing(doing())?;
    let address = listener.local_addr().doing(doing())?;
    let mut pairs = Vec::new();
    for _ in 0..CONNECTIONS {
        let source = from.run(|| TcpStream::connect_timeout(&address, DEADLINE))?;
        let source = source.doing(doing())?;
        let (sink, _) = listener.accept().doing(doing())?;
        pairs.push((source, sink));
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for (source, sink) in pairs {
            scope.spawn(|| pour(source, &stop));
            scope.spawn(|| drain(sink));
        }
        let rate = measure(to, window, wait);
        stop.store(true, Ordering::Relaxed);
        rate
    })
}

/// Sends as fast as the connection takes it, until told to stop. That it breaks shows in the rate.
fn pour(mut source: TcpStream, stop: &AtomicBool) -> io::Result<()> {
    source.set_write_timeout(Some(Duration::from_millis(100)))?;
    // What is still queued at the end is thrown away, and the sink need not wait for it.
    SockRef::from(&source).set_linger(Some(Duration::ZERO))?;
    let chunk = [0; 64 * 1024];
    while !stop.load(Ordering::Relaxed) {
        match source.write(&chunk) {
            // Time to look whether it is to stop.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error),
            Ok(_) => {}
        }
    }
    Ok(())
}

/// Reads a connection to its end.
fn drain(mut sink: TcpStream) -> io::Result<u64> {
    sink.set_read_timeout(Some(DEADLINE))?;
    io::copy(&mut sink, &mut io::sink())
}

fn measure(to: &Namespace, window: Window, wait: impl Fn(Duration)) -> Result<f64> {
    wait(window.warm_up);
    let (begin, before) = (Instant::now(), received(to)?);
    wait(window.counted);
    let (elapsed, after) = (begin.elapsed(), received(to)?);
    Ok(bits_per_second(after.saturating_sub(before), elapsed))
}

/// The bytes that all links of the namespace have received, its loopback excepted.
fn received(namespace: &Namespace) -> Result<u64> {
    let file = "/proc/thread-self/net/dev";
    let table = namespace
        .run(|| std::fs::read_to_string(file))?
        .doing(format!("read {file}"))?;
    sum_received(&table).ok_or_else(|| Error::Failed(format!("{file} is not understood:\n{table}")))
}

/// Sums the first column of `/proc/net/dev`, which has two lines of headings.
fn sum_received(table: &str) -> Option<u64> {
    table
        .lines()
        .skip(2)
        .map(|line| line.split_once(':'))
        .filter(|split| !split.is_some_and(|(link, _)| link.trim() == "lo"))
        .map(|split| split?.1.split_whitespace().next()?.parse::<u64>().ok())
        .sum()
}

#[allow(clippy::cast_precision_loss, reason = "exact up to 2^53 bytes")]
fn bits_per_second(bytes: u64, elapsed: Duration) -> f64 {
    bytes as f64 * 8.0 / elapsed.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_in_bits_per_second() {
        let rate = bits_per_second(250_000, Duration::from_millis(500));
        assert!((rate - 4_000_000.0).abs() < 1.0);
    }

    #[test]
    fn what_the_links_received_is_summed() {
        let table = "Inter-|   Receive      |  Transmit\n \
                     face |bytes    packets |bytes    packets\n    \
                     lo: 7 1 7 1\n  eth0: 1000 10 5 1\n  eth1:24 1 0 0\n";
        assert_eq!(sum_received(table), Some(1024));
        assert_eq!(sum_received("a\nb\neth0: x"), None);
        assert_eq!(sum_received("a\nb\neth0"), None);
    }
}
