//! CNI plugin `portmap`: makes ports of the node lead to a pod.
//!
//! [`config`] says what was asked for, [`pod`] where it leads; [`add`], [`del`] and [`check`] make
//! it, unmake it and compare it; [`gc`] unmakes what nobody has asked to unmake. The rules are the
//! crate `firewall`'s.

mod add;
mod check;
mod config;
mod del;
mod gc;
mod localnet;
mod pod;
mod stale;
mod status;

use std::process::ExitCode;

use cni::{AddResult, Error, Plugin, Request};

struct PortmapPlugin;

impl Plugin for PortmapPlugin {
    const NAME: &'static str = "portmap";

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
    cni::run(&PortmapPlugin)
}
