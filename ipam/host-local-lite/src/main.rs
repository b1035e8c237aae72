//! CNI IPAM plugin: gives addresses from local ranges and keeps them in files.

mod allocate;
mod config;
mod gc;
mod lock;
mod plugin;
mod range;
mod record;
mod resolv;
mod status;
mod store;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: cni::Allocator = cni::Allocator;

fn main() -> ExitCode {
    cni::run(&plugin::HostLocal)
}
