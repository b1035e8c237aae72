//! CNI plugin `bridge`: connects a pod to a bridge on the node.
//!
//! [`config`] says what was asked for, [`want`] what should then exist; [`add`], [`del`] and
//! [`check`] make it, unmake it and compare it. [`gc`] unmakes what nobody has asked to unmake.

mod add;
mod bridge;
mod check;
mod compare;
mod config;
mod del;
#[cfg(test)]
mod fixture;
mod gateway;
mod gc;
mod identity;
mod ipv6;
mod macspoof;
mod names;
mod neighbours;
mod place;
mod pod;
mod ready;
mod status;
mod sysctls;
mod vlan;
mod want;

use std::process::ExitCode;

use cni::{AddResult, Command, Delegate, Error, Plugin, Request};

struct BridgePlugin;

impl Plugin for BridgePlugin {
    const NAME: &'static str = "bridge";

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
    cni::run(&BridgePlugin)
}

/// The IPAM plugin that the configuration names; `None` at layer 2.
fn ipam(request: &Request) -> Result<Option<Delegate>, Error> {
    match request.config.ipam_type.as_str() {
        "" => Ok(None),
        kind => Delegate::find(kind, request).map(Some),
    }
}

/// Calls the IPAM plugin, if there is one, with the same verb.
fn hand_on(command: Command, request: &Request) -> Result<(), Error> {
    request.step("ipam");
    ipam(request)?.map_or(Ok(()), |ipam| ipam.call(command, request))
}
