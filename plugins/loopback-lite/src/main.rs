//! CNI plugin `loopback`: brings a pod's loopback interface up.
//!
//! containerd runs it for every sandbox, beside the network. [`want`] says what a pod's loopback
//! has; [`add`], [`check`] and [`del`] make it so, compare it and take it down. On the node it makes
//! nothing, so that GC has nothing to remove.

mod add;
mod check;
mod del;
mod place;
#[cfg(test)]
mod schema;
mod want;

use std::process::ExitCode;

use cni::{AddResult, Error, Plugin, Request};

/// The interface that every call is about, whatever `CNI_IFNAME` says: runtimes that call the
/// plugin in a chain name the pod's other interface.
const NAME: &str = "lo";

struct Loopback;

impl Plugin for Loopback {
    const NAME: &'static str = "loopback";

    fn add(&self, request: &Request) -> Result<AddResult, Error> {
        add::add(request)
    }

    fn del(&self, request: &Request) -> Result<(), Error> {
        del::del(request)
    }

    fn check(&self, request: &Request) -> Result<(), Error> {
        check::check(request)
    }

    /// What it changes goes with the pod's namespace.
    fn gc(&self, request: &Request) -> Result<(), Error> {
        request.valid_attachments().map(drop)
    }
}

#[global_allocator]
static ALLOCATOR: cni::Allocator = cni::Allocator;

fn main() -> ExitCode {
    cni::run(&Loopback)
}
