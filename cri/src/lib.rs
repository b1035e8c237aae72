//! A container runtime, asked over its socket: the Container Runtime Interface of Kubernetes, version
//! v1, as containerd and CRI-O serve it.
//!
//! To its callers it is synchronous. An answer is whole or an error: who removes what the runtime does
//! not name must never take a part for all.

mod client;
mod endpoint;
mod error;
mod pods;
mod sandbox;

pub use client::{Client, Version};
pub use endpoint::Endpoint;
pub use error::Error;
pub use k8s_cri::v1;
pub use pods::Output;
pub use sandbox::{Sandbox, State};
