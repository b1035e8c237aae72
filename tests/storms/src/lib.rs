//! Storms: attachments are added, checked and deleted by many workers at once, over networks of every
//! backend, with plugins killed and namespaces vanishing at random moments, results lost and ADDs made
//! twice. A model knows what must be there after each step.
//!
//! A [`Plan`] says which steps are made; it is a pure function of its seed. The model (`model`) says what a
//! step has to come to. A [`Ground`] is the node with its networks. A hand (`hand`) runs plugins for the
//! runtime and kills them on the way; a sight (`sight`) is what of an attachment is on the node. [`run`]
//! makes the storm.

mod ground;
mod hand;
mod lesson;
mod model;
mod network;
mod options;
mod plan;
mod queue;
mod sight;
mod storm;
mod sweep;
mod tally;
mod tenant;
mod turn;

pub use ground::Ground;
pub use options::Options;
pub use plan::{Action, Fault, Layout, Plan, Step, What};
pub use storm::run;
pub use tally::{Flaw, Tally};

use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Why something could not be tried: no word about the plugins.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// Makes the storm that is asked for, and prints what came of it.
pub fn main(options: &Options) -> ExitCode {
    tests::conclude("storms", run(options), Tally::findings)
}

/// A worker that has panicked leaves what it held as it is; the panic itself ends the storm.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
