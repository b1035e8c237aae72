//! The pod's side of an attachment: sysctls, addresses, link, routes.

use cni::{Context, Error};
use net::{Errno, Route};

use crate::place::Place;
use crate::ready;
use crate::want::{Want, is_ipv6};

/// Makes the pod's interface as wanted; its index.
pub fn configure(place: &Place, want: &Want) -> Result<u32, Error> {
    let ifname = &want.ifname;
    let link = place.pod.link(ifname);
    let index = link
        .context(format!("failed to look up {ifname:?} in the pod"))?
        .ok_or_else(|| Error::system(format!("link {ifname:?} vanished from the pod")))?
        .index;
    set_sysctls(place, want)?;
    for net in want.pod_addresses() {
        let nodad = is_ipv6(net) && !want.config.dad;
        let added = place.pod.add_address(index, net, nodad);
        added.context(format!("failed to add IP addr {net} to {ifname:?}"))?;
    }
    if want.config.container_up {
        let up = place.pod.set_up(index);
        up.context(format!("failed to set {ifname:?} up"))?;
    }
    for route in want.pod_routes(index) {
        match place.pod.add_route(&route) {
            // Wanted twice, or just what the kernel makes of the address.
            Err(error) if error.is(Errno::EEXIST) => {}
            Err(error) => return Err(no_route(want, &route, error)),
            Ok(()) => {}
        }
    }
    if want.config.dad && want.has_ipv6() {
        ready::addresses(&place.pod, index, ifname)?;
    }
    Ok(index)
}

/// Why a route could not be made; of a gateway that nothing leads to, where it came from.
fn no_route(want: &Want, route: &Route, error: net::Error) -> Error {
    let ifname = &want.ifname;
    let unreachable = error.is(Errno::ENETUNREACH) || error.is(Errno::EHOSTUNREACH);
    let gateway = route.gateway.filter(|_| unreachable);
    let error = Error::system(format!("failed to add route to {ifname:?}: {error}"));
    match gateway {
        Some(gateway) => error.details(format!(
            "{}: {gateway} is on no network that {ifname} leads to",
            want.source_of(gateway)
        )),
        None => error,
    }
}

fn set_sysctls(place: &Place, want: &Want) -> Result<(), Error> {
    let sysctls = want.pod_sysctls();
    if sysctls.is_empty() {
        return Ok(());
    }
    let set = || sysctls.iter().try_for_each(crate::sysctls::Sysctl::set);
    place.netns.enter(set).context("failed to enter the pod")?
}
