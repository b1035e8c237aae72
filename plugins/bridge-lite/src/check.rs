//! CHECK: reads what there is and has [`compare`] compare it with what ADD made.

use attached::{RulesContext, owner};
use cni::{AddResult, Command, Context, Error, Request};
use firewall::masquerade;
use net::{Link, Netlink};

use crate::compare::{self, Previous};
use crate::config::BridgeConfig;
use crate::gateway::Gateway;
use crate::hand_on;
use crate::macspoof;
use crate::place::Place;
use crate::sysctls::{Need, Sysctl};
use crate::vlan;
use crate::want::Want;

/// Whether all is as ADD made it.
pub fn check(request: &Request) -> Result<(), Error> {
    let config = BridgeConfig::read(request)?;
    let attachment = request.attachment();
    request.step("look");
    let place = Place::open(request)?;
    hand_on(Command::Check, request)?;
    let result: AddResult = request
        .config
        .prev_result()?
        .ok_or_else(|| Error::config("Required prevResult missing"))?;
    let want = Want::links(&config, &attachment).with_previous(&result)?;
    let previous = Previous::of(&result, &want, &request.env.sandbox())?;

    request.step("compare");
    let bridge = node_bridge(&place.node, &want, &previous)?;
    let (pod, port) = pair(&place, &want)?;
    compare::pair(&want, &previous, &pod, &port)?;
    compare::pod_link(&want, &previous, &pod)?;
    compare::port(&want, &port, bridge.index)?;
    compare::mtus(&want, &previous, &pod, &port)?;
    if let Some(vlans) = &config.vlans {
        let membership = vlans.of_pod(vlan::default_of(&bridge));
        let membership = membership.tolerant(!want.identity.owns(&port));
        membership.check(&place.node, &port)?;
    }
    pod_network(&place, &want, pod.index)?;
    if config.mac_spoof_check {
        request.step("filter");
        macspoof::check(&attachment, &pod, &port)?;
    }
    want.node_sysctls().iter().try_for_each(Sysctl::check)?;
    let mut sysctls = want.pod_sysctls();
    if !want.identity.owns(&port) {
        // A reference plugin, before its version 1.9, sets no more than is required.
        sysctls.retain(|sysctl| matches!(sysctl.need, Need::Required(_)));
    }
    let same = || sysctls.iter().try_for_each(Sysctl::check);
    place
        .netns
        .enter(same)
        .context("failed to enter the pod")??;
    if let Some(backend) = config.masquerade() {
        request.step("masquerade");
        let addresses = want.pod_addresses();
        let checked = masquerade::check(backend, owner(&attachment), &addresses);
        match checked {
            Err(busy) if busy.is_busy() => Err(busy).rules_context("ipMasq: true")?,
            other => other.map_err(|error| Error::check(error.to_string()))?,
        }
    }
    Ok(())
}

fn node_bridge(node: &Netlink, want: &Want, previous: &Previous) -> Result<Link, Error> {
    let name = &want.config.bridge;
    let bridge = node.link(name);
    let bridge = bridge.context(format!("failed to look up {name:?}"))?;
    let bridge = bridge.ok_or_else(|| Error::check(format!("bridge {name} was not found")))?;
    compare::bridge(want, previous, &bridge)?;
    let wanted = want.gateway_addresses();
    if !wanted.is_empty() {
        let gateway = Gateway::of(want.config).map(|gateway| gateway.check(node, &bridge));
        let gateway = gateway.transpose()?;
        if let Some(gateway) = &gateway {
            compare::gateway(previous, gateway)?;
        }
        let Link { name, index, .. } = gateway.as_ref().unwrap_or(&bridge);
        let existing = node.addresses(*index);
        let existing = existing.context(format!("failed to list addresses of {name:?}"))?;
        compare::addresses(name, &wanted, &existing)?;
    }
    Ok(bridge)
}

/// Both ends of the veth pair: the pod's, and the host's by its derived name or, where a reference
/// plugin made it, as the pod's end's peer.
fn pair(place: &Place, want: &Want) -> Result<(Link, Link), Error> {
    let ifname = &want.ifname;
    let pod = place.pod.link(ifname);
    let pod = pod
        .context(format!("failed to look up {ifname:?}"))?
        .ok_or_else(|| Error::check(format!("interface {ifname} was not found in the pod")))?;
    let failed = "failed to look up the host veth";
    let port = match place.node.link(&want.identity.name).context(failed)? {
        Some(port) => Some(port),
        None => match pod.peer {
            Some(peer) => place.node.link_by_index(peer).context(failed)?,
            None => None,
        },
    };
    Ok((pod, port.ok_or_else(|| compare::no_port(want))?))
}

fn pod_network(place: &Place, want: &Want, index: u32) -> Result<(), Error> {
    if want.ips.is_empty() {
        return Ok(());
    }
    let addresses = place.pod.addresses(index);
    let addresses = addresses.context("failed to list the pod's addresses")?;
    compare::addresses(&want.ifname, &want.pod_addresses(), &addresses)?;
    let routes = place.pod.routes(index);
    let mut routes = routes.context("failed to list the pod's routes")?;
    if compare::routes(want, index, &routes).is_err() {
        // A later plugin may lead some by another link.
        let links = place
            .pod
            .links()
            .context("failed to list the pod's links")?;
        for link in links.iter().filter(|link| link.index != index) {
            let more = place.pod.routes(link.index);
            routes.extend(more.context("failed to list the pod's routes")?);
        }
    }
    compare::routes(want, index, &routes)
}
