//! Signals that end the demo: what waits comes back at once, nothing more is shown, and the lab is
//! removed as it always is.

use std::fmt;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Which signal came, if any.
#[derive(Debug, Clone)]
pub(super) struct Interrupt {
    signal: Arc<AtomicUsize>,
    /// Where a byte comes with it.
    woken: Arc<UnixStream>,
}

/// A signal came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interrupted {
    signal: u8,
}

impl Interrupted {
    /// As shells tell it: 128 and the signal's number.
    pub fn exit_status(self) -> u8 {
        self.signal.saturating_add(128)
    }
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ended by signal {}", self.signal)
    }
}

impl std::error::Error for Interrupted {}

impl Interrupt {
    /// None will come, but where it is sent to the other end.
    pub(super) fn new() -> io::Result<(Interrupt, UnixStream)> {
        let (woken, waker) = UnixStream::pair()?;
        let interrupt = Interrupt {
            signal: Arc::default(),
            woken: Arc::new(woken),
        };
        Ok((interrupt, waker))
    }

    /// Catches SIGHUP, SIGINT and SIGTERM from now on.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn catch() -> io::Result<Interrupt> {
        let (caught, waker) = Interrupt::new()?;
        for signal in [SIGHUP, SIGINT, SIGTERM] {
            let number = usize::try_from(signal).unwrap_or_default();
            signal_hook::flag::register_usize(signal, Arc::clone(&caught.signal), number)?;
            signal_hook::low_level::pipe::register(signal, waker.try_clone()?)?;
        }
        Ok(caught)
    }

    /// Whether to go on.
    ///
    /// # Errors
    /// The signal that came.
    pub(super) fn check(&self) -> Result<(), Interrupted> {
        match u8::try_from(self.signal.load(Ordering::Relaxed)) {
            Ok(signal @ 1..) => Err(Interrupted { signal }),
            _ => Ok(()),
        }
    }

    /// Waits so long, or until a signal comes.
    pub(super) fn wait(&self, time: Duration) {
        let end = Instant::now() + time;
        while self.check().is_ok() {
            let left = end.saturating_duration_since(Instant::now());
            // Fails with nothing left.
            if self.woken.set_read_timeout(Some(left)).is_err() {
                return;
            }
            // Whatever it ends by is looked at anew.
            let _ = (&*self.woken).read(&mut [0]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_told_by_its_number() {
        let (caught, _waker) = Interrupt::new().unwrap();
        assert_eq!(caught.check(), Ok(()));
        caught.signal.store(15, Ordering::Relaxed);
        let interrupted = caught.check().unwrap_err();
        assert_eq!(interrupted.exit_status(), 143);
        assert_eq!(interrupted.to_string(), "ended by signal 15");
    }

    #[test]
    fn nobody_waits_any_longer_when_a_signal_comes() {
        const LONG: Duration = Duration::from_secs(3600);
        let caught = Interrupt::catch().unwrap();
        caught.wait(Duration::from_millis(1));
        assert_eq!(caught.check(), Ok(()));
        std::thread::scope(|scope| {
            scope.spawn(|| caught.wait(LONG));
            signal_hook::low_level::raise(SIGHUP).unwrap();
        });
        caught.wait(LONG);
        assert_eq!(caught.check(), Err(Interrupted { signal: 1 }));
    }
}
