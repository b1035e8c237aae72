//! What a test of a real runtime needs: a node that is a whole machine to it, the plugins installed
//! there, and images without a registry.
//!
//! A test begins with `let Some(host) = Host::new("label", &["podman"]) else { return };`: where the
//! machine has no such client, that says so, counts it, and gives `None`.
//!
//! Which plugins are tested says `CLIENTS_PLUGINS`, a folder; without it, those that are built.

// A harness fails as its tests do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod containerd;
mod cri;
mod host;
mod image;
mod kubelet;
mod machine;
mod network;
mod plugins;
mod podman;
mod required;

pub use containerd::{CONTAINERD, Containerd};
pub use cri::{Cri, HostPort, pod, with_dns, with_rates};
pub use host::Host;
pub use image::{Image, SERVER, SLEEPER};
pub use kubelet::Kubelet;
pub use network::{chain, fetch};
pub use plugins::{Names, are_ours};
pub use podman::{PODMAN, Podman};
pub use required::{are_here, patiently};
