//! How many bits pass between two namespaces.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use socket2::SockRef;

use crate::error::Doing;
use crate::{DEADLINE, Namespace, Result};

/// What is measured, and what is let go by before: a token bucket passes its burst unshaped.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// Not counted.
    pub warm_up: Duration,
    /// Counted.
    pub counted: Duration,
}

/// The bits per second of payload that arrive by one TCP connection from `from` at `address` in
/// `to`. Port 0 takes a free one.
///
/// # Errors
/// No connection within [`DEADLINE`], or nothing arrives for as long.
pub fn throughput(
    from: &Namespace,
    to: &Namespace,
    address: SocketAddr,
    window: Window,
) -> Result<f64> {
    let doing = || format!("measure throughput from {} to {address}", from.name());
    let listener = to.run(|| TcpListener::bind(address))?.doing(doing())?;
    let address = listener.local_addr().doing(doing())?;
    let stop = AtomicBool::new(false);
    let received = thread::scope(|scope| {
        let source = scope.spawn(|| from.run(|| pour(address, &stop)));
        let received = accept(&listener).and_then(|stream| measure(stream, window));
        stop.store(true, Ordering::Relaxed);
        // A source that could not even connect says why nothing arrived.
        match source.join() {
            Ok(poured) => poured.map(|poured| poured.and(received)),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })?;
    received.doing(doing())
}

/// Sends as fast as the connection takes it, until told to stop or the other end closes.
fn pour(target: SocketAddr, stop: &AtomicBool) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&target, DEADLINE)?;
    stream.set_write_timeout(Some(Duration::from_millis(100)))?;
    let chunk = [0; 64 * 1024];
    while !stop.load(Ordering::Relaxed) {
        match stream.write(&chunk) {
            Err(error) if !is_time_out(&error) => break,
            _ => {}
        }
    }
    Ok(())
}

fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    SockRef::from(listener).set_read_timeout(Some(DEADLINE))?;
    let (stream, _) = listener.accept()?;
    stream.set_read_timeout(Some(DEADLINE))?;
    Ok(stream)
}

/// Bits per second that arrive within the window. It is timed from arrival to arrival, so that a
/// slow rate's last, incomplete stretch does not count.
fn measure(mut stream: impl Read, window: Window) -> io::Result<f64> {
    let mut buffer = vec![0; 256 * 1024];
    let mut read = || match stream.read(&mut buffer) {
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        other => other,
    };
    let begin = Instant::now();
    while begin.elapsed() < window.warm_up {
        read()?;
    }
    let first = Instant::now();
    let mut bytes = 0;
    loop {
        bytes += read()?;
        let elapsed = first.elapsed();
        if elapsed >= window.counted {
            return Ok(bits_per_second(bytes, elapsed));
        }
    }
}

fn is_time_out(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

#[allow(clippy::cast_precision_loss)] // Exact up to 2^53 bytes.
fn bits_per_second(bytes: usize, elapsed: Duration) -> f64 {
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
    fn a_source_that_ends_early_gives_no_rate() {
        let window = Window {
            warm_up: Duration::ZERO,
            counted: DEADLINE,
        };
        let error = measure(io::Cursor::new([0; 100]), window).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn the_warm_up_does_not_count() {
        /// Gives a burst first, then one byte a millisecond.
        struct Bucket(usize);
        impl Read for Bucket {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                thread::sleep(Duration::from_millis(1));
                let burst = std::mem::replace(&mut self.0, 1);
                Ok(burst.min(buffer.len()))
            }
        }
        let window = Window {
            warm_up: Duration::from_millis(20),
            counted: Duration::from_millis(50),
        };
        let rate = measure(Bucket(200_000), window).unwrap();
        assert!(rate <= 8_001.0, "{rate}");
    }
}
