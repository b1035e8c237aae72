//! What is going on, told on standard error.

use std::io::{IsTerminal, Write};
use std::time::Instant;

/// Tells where the benchmark is. It tells a terminal of each round, a file only of what begins.
#[derive(Debug)]
pub struct Progress {
    began: Instant,
    doing: String,
    lines: bool,
    rounds: bool,
}

impl Progress {
    /// On standard error.
    pub fn new() -> Progress {
        Progress {
            began: Instant::now(),
            doing: String::new(),
            lines: true,
            rounds: std::io::stderr().is_terminal(),
        }
    }

    /// To nobody.
    #[cfg(test)]
    pub fn silent() -> Progress {
        Progress {
            lines: false,
            rounds: false,
            ..Progress::new()
        }
    }

    /// Something else begins.
    pub fn begin(&mut self, doing: &str) {
        doing.clone_into(&mut self.doing);
        if self.lines && !self.rounds {
            say(&format!("{:>5}  {doing}\n", self.elapsed()));
        }
    }

    /// A round of it begins.
    pub fn round(&self, round: u32, of: u32) {
        if self.rounds {
            let (elapsed, doing) = (self.elapsed(), &self.doing);
            say(&format!("\r\x1b[K{elapsed:>5}  {doing}: {round}/{of}"));
        }
    }

    /// All is done.
    pub fn end(&self) {
        if self.rounds {
            say("\r\x1b[K");
        }
    }

    fn elapsed(&self) -> String {
        format!("{}s", self.began.elapsed().as_secs())
    }
}

fn say(text: &str) {
    // Who does not listen misses nothing of the results.
    let _ = std::io::stderr().write_all(text.as_bytes());
}
