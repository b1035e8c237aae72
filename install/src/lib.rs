//! Puts files into a node's folders, and takes them back.
//!
//! All of an installation appears, or nothing does: what stands in the way is found before anything
//! is changed, each file is written beside its place and renamed, and a failure puts back what was
//! there. What another has put under a name is kept beside it, as `NAME.bak`. A list in each folder
//! says which files are ours, by their checksums; by it [`remove()`] knows them again, and brings
//! back what was kept. [`hand_over()`] leaves to a package what it has put into the same folder.
//!
//! [`put()`] and [`remove()`] do this; what is to be done with a name is decided over values
//! (`decide`). [`programs`] and [`configuration`] say what an installation consists of.

mod decide;
mod error;
mod found;
mod list;
mod lock;
mod order;
mod place;
mod put;
mod remove;

pub use error::{Error, Result};
pub use order::{Content, Item, PLUGINS, configuration, configuration_name, loopback, programs};
pub use put::{Done, Put, hand_over, put};
pub use remove::{Removed, Undone, remove};
