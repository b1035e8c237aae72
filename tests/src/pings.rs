//! Pings that go on while something else happens, counted.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use lab::Namespace;

/// How far apart they are.
const APART: Duration = Duration::from_millis(200);

/// Pings from one namespace, each of one packet that is not sent again.
#[derive(Debug)]
pub struct Pings {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Counted>,
}

/// What became of them.
#[derive(Debug, Default)]
pub struct Counted {
    /// How many were sent.
    pub sent: usize,
    /// Those without an answer: when, and why.
    pub lost: Vec<String>,
}

impl Pings {
    /// Begins, once a first one was answered.
    #[track_caller]
    pub fn start(from: &Namespace, to: IpAddr) -> Pings {
        from.ping(to).unwrap();
        let from = Namespace::open(from.path()).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&stop);
        let begun = Instant::now();
        let thread = std::thread::spawn(move || {
            let mut counted = Counted::default();
            while !ended.load(Ordering::Relaxed) {
                counted.sent += 1;
                if let Err(error) = from.ping_once(to) {
                    let at = begun.elapsed().as_secs_f32();
                    counted.lost.push(format!("at {at:.1} s: {error}"));
                }
                sleep(APART);
            }
            counted
        });
        Pings { stop, thread }
    }

    /// That none was lost; how many there were.
    #[track_caller]
    pub fn expect_none_lost(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        let counted = self.thread.join().unwrap();
        assert!(counted.lost.is_empty(), "lost: {counted:#?}");
        counted.sent
    }
}
