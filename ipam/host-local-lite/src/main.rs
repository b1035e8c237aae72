//! CNI IPAM plugin: gives addresses from local ranges and keeps them in files.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: cni::Allocator = cni::Allocator;

fn main() -> ExitCode {
    cni::run(&host_local_lite::HostLocal)
}
