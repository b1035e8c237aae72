//! Signals that end the demo: it stops at its next line, and so removes its lab as it always does.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Which signal came, if any.
#[derive(Debug, Clone, Default)]
pub(super) struct Interrupt(Arc<AtomicUsize>);

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
    /// Catches SIGHUP, SIGINT and SIGTERM from now on.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn catch() -> std::io::Result<Interrupt> {
        let caught = Interrupt::default();
        for signal in [SIGHUP, SIGINT, SIGTERM] {
            let number = usize::try_from(signal).unwrap_or_default();
            signal_hook::flag::register_usize(signal, Arc::clone(&caught.0), number)?;
        }
        Ok(caught)
    }

    /// Whether to go on.
    ///
    /// # Errors
    /// The signal that came.
    pub(super) fn check(&self) -> Result<(), Interrupted> {
        match u8::try_from(self.0.load(Ordering::Relaxed)) {
            Ok(signal @ 1..) => Err(Interrupted { signal }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_told_by_its_number() {
        let caught = Interrupt::default();
        assert_eq!(caught.check(), Ok(()));
        caught.0.store(15, Ordering::Relaxed);
        let interrupted = caught.check().unwrap_err();
        assert_eq!(interrupted.exit_status(), 143);
        assert_eq!(interrupted.to_string(), "ended by signal 15");
    }
}
