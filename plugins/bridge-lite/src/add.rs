//! ADD: look, then reserve, then change; undo in reverse.

use attached::{RulesContext, link, owner};
use cni::{AddResult, Command, Context, Error, Request, Undo, code};
use firewall::{Backend, masquerade};
use net::{Errno, Link, Netlink, PortFlags, Veth};

use crate::bridge;
use crate::config::BridgeConfig;
use crate::gateway::Gateway;
use crate::identity::Identity;
use crate::ipam;
use crate::ipv6;
use crate::macspoof;
use crate::names;
use crate::neighbours;
use crate::place::Place;
use crate::pod;
use crate::ready;
use crate::vlan;
use crate::want::Want;

const MASQUERADE_KEY: &str = "ipMasq: true";
const NO_MASQUERADE: &str = "failed to set up masquerade";

/// Makes the attachment.
pub fn add(request: &Request) -> Result<AddResult, Error> {
    let config = BridgeConfig::read(request)?;
    names::of_pod_interface(&request.env.ifname)?;
    let attachment = request.attachment();
    let links = Want::links(&config, &attachment);
    request.step("look");
    let place = Place::open(request)?;
    let ipam = ipam(request)?;
    look(&place, &links)?;
    let masquerade = masquerade_ready(config.masquerade())?;
    macspoof::preflight(&config)?;
    if let Some(masquerade) = &masquerade {
        masquerade.warm_up();
    }

    request.step("ipam");
    let mut undo = Undo::new();
    let want = match &ipam {
        Some(ipam) => {
            let given = ipam.add(request)?;
            undo.push(|| drop(ipam.call(Command::Del, request)));
            links.with_ipam(given)?
        }
        None => links,
    };
    request.step("look");
    ipv6::expect_usable(&want)?;
    let replaced = bridge::addresses_to_replace(&place.node, &want)?;
    let addresses = want.pod_addresses();
    if let Some(masquerade) = &masquerade {
        masquerade.expect(&addresses).context(MASQUERADE_KEY)?;
    }

    request.step("bridge");
    let bridge = bridge::ensure(&place.node, &want, &replaced)?;
    request.step("veth");
    let port = connect(&place, &want, &bridge, &mut undo)?;
    if config.mac_spoof_check {
        request.step("filter");
        macspoof::add(&place, &attachment, &port, &mut undo)?;
    }
    let masquerade = match masquerade {
        Some(masquerade) => {
            request.step("masquerade");
            // Also where it fails half-way, as by a tool that was killed.
            undo.push(|| drop(masquerade::delete(owner(&attachment), &[], true)));
            let begun = masquerade.begin(owner(&attachment), &addresses);
            Some(begun.rules_context(NO_MASQUERADE)?)
        }
        None => None,
    };
    request.step("sysctls");
    ipv6::keep_default_routes(&place.node, &want)?;
    for sysctl in want.node_sysctls() {
        sysctl.set()?;
    }
    request.step("pod");
    let in_pod = pod::configure(&place, &want)?;
    if let Some(masquerade) = masquerade {
        request.step("masquerade");
        masquerade.finish().rules_context(NO_MASQUERADE)?;
    }
    request.step("port");
    if config.container_up {
        ready::port(&place.node, &port)?;
        ready::in_use(&place.pod, in_pod, &addresses)?;
    }
    bridge::await_gateways(&place.node, &want, &bridge)?;
    neighbours::tell(&place.pod, in_pod, &want);
    request.step("result");
    let result = report(&place, want, request)?;
    undo.commit();
    Ok(result)
}

/// Sees that nothing is in the way, as far as can be seen before the IPAM has answered.
///
/// A host veth of the same attachment has its other end in some pod, wherever `CNI_NETNS` leads
/// now: the kernel removes both ends together. That pod keeps what it has until DEL.
fn look(place: &Place, want: &Want) -> Result<(), Error> {
    let name = &want.identity.name;
    let in_pod = place.pod.link(&want.ifname);
    if in_pod.context("failed to look into the pod")?.is_some() {
        return Err(taken(want));
    }
    let bridge = bridge::find(&place.node, &want.config.bridge)?;
    vlan::can_filter(want.config, bridge.as_ref())?;
    if let Some(gateway) = Gateway::of(want.config) {
        gateway.find(&place.node)?;
    }
    let port = place.node.link(name);
    if let Some(port) = port.context(format!("failed to look for {name:?}"))? {
        if want.identity.owns(&port) {
            return Err(taken(want));
        }
        let msg = format!("failed to make veth pair: {name:?} already exists and is not ours");
        return Err(Error::new(code::ALREADY_EXISTS, msg));
    }
    Ok(())
}

/// Sees that masquerade is possible where it is asked for, be it for one family only.
pub fn masquerade_ready(by: Option<Backend>) -> Result<Option<masquerade::Ready>, Error> {
    let ready = by.map(masquerade::ready).transpose();
    ready.context(MASQUERADE_KEY)
}

fn taken(want: &Want) -> Error {
    let msg = format!(
        "container veth name ({:?}) peer provided ({:?}) already exists",
        want.ifname, want.identity.name
    );
    Error::new(code::ALREADY_EXISTS, msg).details(format!("CNI_IFNAME={}", want.ifname))
}

/// Makes the veth pair, a port of the bridge from its first moment.
fn connect(place: &Place, want: &Want, bridge: &Link, undo: &mut Undo) -> Result<Link, Error> {
    let failed = "failed to make veth pair";
    let identity = &want.identity;
    let made = place.node.create_veth(&Veth {
        name: &identity.name,
        mac: Some(identity.marks.mac),
        group: identity.marks.group,
        mtu: want.config.mtu,
        master: Some(bridge.index),
        peer_name: &want.ifname,
        peer_mac: want.config.mac,
        peer_netns: &place.netns,
    });
    if made.as_ref().is_err_and(|error| error.is(Errno::EEXIST)) {
        // Another ADD was faster: the links are its.
        return Err(taken(want));
    }
    // Also after an error: the kernel may have made it although its answer was lost.
    let own = identity.clone();
    undo.push(move || drop(delete_own(&own)));
    made.context(failed)?;
    let port = link::expect(&place.node, &identity.name)?;
    let alias = place.node.set_alias(port.index, &identity.marks.alias);
    alias.context(format!("failed to set the alias of {:?}", identity.name))?;
    if want.port_flags() != PortFlags::default() {
        let flags = place.node.set_port(port.index, want.port_flags());
        flags.context(format!(
            "failed to set hairpin {} and isolated {} on {:?}",
            want.config.hairpin, want.config.isolated, identity.name
        ))?;
    }
    if let Some(vlans) = &want.config.vlans {
        let membership = vlans.of_pod(vlan::default_of(bridge));
        membership.set(&place.node, &port)?;
    }
    Ok(port)
}

/// On a socket of its own: the other may be what failed.
fn delete_own(identity: &Identity) -> net::Result<()> {
    let node = Netlink::current()?;
    let link = node.link(&identity.name)?;
    if let Some(link) = link.filter(|link| identity.owns(link)) {
        node.delete_link(link.index)?;
    }
    Ok(())
}

/// The result; hardware addresses are read last, since udev may have set others.
fn report(place: &Place, want: Want, request: &Request) -> Result<AddResult, Error> {
    let bridge = link::expect(&place.node, &want.config.bridge)?;
    let port = link::expect(&place.node, &want.identity.name)?;
    let pod = link::expect(&place.pod, &want.ifname)?;
    let gateway = Gateway::of(want.config)
        .map(|gateway| link::expect(&place.node, &gateway.name))
        .transpose()?;
    let (links, version) = ([&bridge, &port, &pod], request.config.cni_version);
    Ok(want.result(links, gateway.as_ref(), &request.env.sandbox(), version))
}
