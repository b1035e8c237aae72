//! A system call of a program or of what it starts.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt;

use lab::trace::Entry;

/// Which call: the process's place among those that were started, what it calls, and how often it has
/// called that before. How often it waits, and how its threads take turns, differs from run to run: by
/// their places among all calls they would not be found again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    /// 0 is the plugin itself.
    pub process: usize,
    /// The call's number, as in asm/unistd.h.
    pub number: u64,
    /// The first one is 1.
    pub nth: u64,
    /// The name of the program that makes it.
    pub program: String,
}

/// Counts the calls of a program and of what it starts.
#[derive(Debug, Default)]
pub struct Counter(HashMap<(usize, u64), u64>);

impl Counter {
    /// The call that is about to be made.
    pub fn point(&mut self, entry: &Entry) -> Point {
        let number = entry.number().unwrap_or(u64::MAX);
        let program = entry.process.program.file_name();
        let nth = self.0.entry((entry.place, number)).or_default();
        *nth += 1;
        Point {
            process: entry.place,
            number,
            nth: *nth,
            program: program
                .map(OsStr::to_string_lossy)
                .unwrap_or_default()
                .into_owned(),
        }
    }
}

impl Point {
    /// Whether it is the same call of another run.
    pub fn is(&self, other: &Point) -> bool {
        (self.process, self.number, self.nth) == (other.process, other.number, other.nth)
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.process, self.number, self.nth)
    }
}
