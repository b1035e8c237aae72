//! Faults made on purpose, one at a time, at each system call of a plugin and of all that it starts: a
//! kill, an error, netlink that refuses or is interrupted. Then one DEL or GC, and the machine is compared
//! with what it was before.
//!
//! A [`Case`] is one fault at one point, and its name is enough to make it again. A [`Machine`] is a node
//! that has served a pod and serves another. [`trial`] makes one case; [`run`] makes all.

mod case;
mod fault;
mod machine;
mod options;
mod point;
mod run;
mod tally;
mod trial;

pub use case::{After, Case, Verb};
pub use fault::{Fault, Kind};
pub use machine::{Machine, Setting};
pub use options::Options;
pub use point::Point;
pub use run::run;
pub use tally::Tally;
pub use trial::trial;

use std::process::ExitCode;

/// Why something could not be tried: no word about the plugins.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// Makes the faults that are asked for, and prints what came of them.
pub fn main(options: &Options) -> ExitCode {
    tests::conclude("faults", run(options), Tally::findings)
}
