//! CNI plugin `bandwidth`: shapes a pod's traffic with token buckets.
//!
//! Towards the pod, the bucket is at the root of the host's end of its veth pair. From the pod,
//! what comes in there is redirected to an ifb with a bucket at its root. [`config`] says what was
//! asked for, [`want`] what should then exist; [`add`], [`del`] and [`check`] make it, unmake it
//! and compare it. [`gc`] unmakes what nobody has asked to unmake.

mod add;
mod check;
mod config;
mod del;
mod gc;
mod identity;
mod place;
mod status;
mod tbf;
mod want;

use std::process::ExitCode;

use cni::{AddResult, Error, Plugin, Request, Version};

/// What the kernel reports as the target of a redirect whose link is gone.
const GONE: u32 = 0;

struct Bandwidth;

impl Plugin for Bandwidth {
    const NAME: &'static str = "bandwidth";
    /// Those that know chaining.
    const VERSIONS: &'static [Version] = &[
        Version::V0_3_0,
        Version::V0_3_1,
        Version::V0_4_0,
        Version::V1_0_0,
        Version::V1_1_0,
    ];

    fn add(&self, request: &Request) -> Result<AddResult, Error> {
        add::add(request)
    }

    fn del(&self, request: &Request) -> Result<(), Error> {
        del::del(request)
    }

    fn check(&self, request: &Request) -> Result<(), Error> {
        check::check(request)
    }

    fn gc(&self, request: &Request) -> Result<(), Error> {
        gc::gc(request)
    }

    fn status(&self, request: &Request) -> Result<(), Error> {
        status::status(request)
    }
}

#[global_allocator]
static ALLOCATOR: cni::Allocator = cni::Allocator;

fn main() -> ExitCode {
    cni::run(&Bandwidth)
}
