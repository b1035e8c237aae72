//! What every test of the chain needs: the built binaries, a lab, and a runtime's calls.
//!
//! A test begins with `let Some(node) = Node::new("label") else { return };`: where the kernel or
//! the machine cannot run it, that says so, counts it, and gives `None`.

// A harness fails as its tests do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod answer;
mod binaries;
mod chain;
mod node;

pub use answer::Answer;
pub use binaries::{binary_folder, plugin_folder};
pub use node::{Node, Pod};
