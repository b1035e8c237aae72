//! The CNI protocol: what a runtime and its plugins say to each other.
//!
//! The plugin's side is [`run`], which turns a [`Plugin`] into a process: it reads the environment
//! ([`Env`]) and the configuration ([`Config`]) into a [`Request`], calls the verb, and prints the
//! [`AddResult`] or the [`Error`] in the version that was asked for. The runtime's side is
//! [`runtime`]. Nothing here knows of the kernel.

mod attachment;
mod config;
mod delegate;
mod env;
mod error;
mod exec;
mod json;
mod log;
mod plugin;
mod result;
pub mod runtime;
mod steps;
mod undo;
mod valid;
mod version;

pub use attachment::Attachment;
pub use config::Config;
pub use delegate::Delegate;
pub use env::{Command, Env, is_identifier};
pub use error::{Context, Error, code, one_line};
pub use json::pretty;
pub use plugin::{Plugin, Request, run};
pub use result::{AddResult, Dns, Interface, IpConfig, Route, RouteFlaw};
pub use undo::Undo;
pub use version::Version;

/// What every plugin allocates by. A plugin lives for a few milliseconds, and with musl's own allocator a
/// third of these went into asking the kernel for pages and giving them back.
pub use dlmalloc::GlobalDlmalloc as Allocator;
