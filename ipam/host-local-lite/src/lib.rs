//! CNI IPAM plugin: gives addresses from local ranges and keeps them in files.

mod allocate;
pub mod config;
mod gc;
mod lock;
mod plugin;
mod range;
mod record;
mod resolv;
mod status;
pub mod store;

pub use plugin::HostLocal;
