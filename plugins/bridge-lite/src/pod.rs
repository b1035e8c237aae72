//! The pod's side of an attachment: sysctls, addresses, link, routes.

use std::time::Duration;

use cni::{Context, Error};
use net::{Errno, Route};

use crate::place::Place;
use crate::want::{Want, is_ipv6};

/// Duplicate detection takes one to two seconds (RFC 4862, section 5.1).
const DAD: Duration = Duration::from_secs(5);

/// Makes the pod's interface as wanted.
pub fn configure(place: &Place, want: &Want) -> Result<(), Error> {
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
        await_addresses(place, index, ifname)?;
    }
    Ok(())
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

/// Waits until duplicate detection has ended. It cannot end on a link that is not up, which is no
/// failure of the address.
fn await_addresses(place: &Place, index: u32, ifname: &str) -> Result<(), Error> {
    let Err(error) = place.pod.wait_addresses(index, DAD) else {
        return Ok(());
    };
    let failed = |what: net::Result<bool>| what.unwrap_or(true);
    let duplicate = place.pod.addresses(index);
    let duplicate = failed(duplicate.map(|all| all.iter().any(|address| address.dad_failed)));
    let up = failed(
        place
            .pod
            .link_by_index(index)
            .map(|link| link.is_none_or(|link| link.oper_up)),
    );
    if duplicate || up {
        return Err(error).context(format!("addresses of {ifname:?}"));
    }
    Ok(())
}
