//! `macspoofchk`: of what comes in by the host veth only frames pass that have the pod's MAC as
//! their source.

use attached::{RulesContext, owner};
use cni::{Attachment, Context, Error, Request, Undo};
use firewall::{Owner, macspoof};
use net::{Link, Mac, Netlink};

use crate::config::BridgeConfig;
use crate::place::Place;

/// Sees that the filter is possible where it is asked for.
pub fn preflight(config: &BridgeConfig) -> Result<(), Error> {
    if !config.mac_spoof_check {
        return Ok(());
    }
    macspoof::preflight().rules_context("macspoofchk: true")
}

/// Makes the filter, with the MAC that the pod's interface has now.
pub fn add<'a>(
    place: &Place,
    attachment: &'a Attachment,
    port: &Link,
    undo: &mut Undo<'a>,
) -> Result<(), Error> {
    let pod = attached::link::expect(&place.pod, &attachment.ifname)?;
    let Mac(mac) = mac_of(&pod)?;
    // Also after an error: the kernel may have made it although its answer was lost.
    undo.push(|| drop(macspoof::delete(owner(attachment), true)));
    macspoof::add(owner(attachment), &port.name, mac)
        .rules_context("failed to set up the filter of macspoofchk")
}

/// Whether the filter is there, for the links as they are.
pub fn check(attachment: &Attachment, pod: &Link, port: &Link) -> Result<(), Error> {
    let Mac(mac) = mac_of(pod)?;
    let checked = macspoof::check(owner(attachment), &port.name, mac);
    checked.map_err(|error| Error::check(error.to_string()))
}

/// Removes the filter. That it cannot be looked for is an error only where it was `expected`.
pub fn del(request: &Request, expected: bool) -> Result<(), Error> {
    request.step("filter");
    let attachment = request.attachment();
    macspoof::delete(owner(&attachment), expected)
        .rules_context(format!("filter of {attachment} may still be there"))
}

/// Removes the filters that are of the network and of no valid attachment, and those that nobody
/// can be using any more.
pub fn gc(request: &Request, valid: &[Owner]) -> Result<(), Error> {
    request.step("filter");
    let network = &request.config.name;
    let failed = format!("filters of network {network}");
    let node = Netlink::current().context(&failed)?;
    // What cannot be looked for may be there.
    let is_link = |name: &str| !matches!(node.link(name), Ok(None));
    macspoof::gc(network, valid, is_link).rules_context(failed)
}

fn mac_of(pod: &Link) -> Result<Mac, Error> {
    let none = || Error::system(format!("interface {} has no MAC", pod.name));
    pod.mac.ok_or_else(none)
}
