//! What CHECK calls a difference: pure comparisons of what is there with what is wanted and with
//! what the chain's ADD returned. Additions by others are no difference, and neither is what that
//! result itself says otherwise.

#[cfg(test)]
mod tests;

use cni::{AddResult, Error, Interface, code};
use ipnet::IpNet;
use net::{Address, Link, Mac, Route};

use crate::vlan;
use crate::want::{Want, is_ipv6};

/// The final result of the chain's ADD.
#[derive(Debug)]
pub struct Previous<'a> {
    result: &'a AddResult,
    pod: &'a Interface,
}

impl<'a> Previous<'a> {
    /// Finds the pod's interface in it.
    pub fn of(result: &'a AddResult, want: &Want, sandbox: &str) -> Result<Self, Error> {
        let named = |i: &&Interface| i.name == want.ifname && !i.sandbox.is_empty();
        let mut candidates = result.interfaces.iter().filter(named);
        let Some(first) = candidates.next() else {
            let msg = format!("interface {} is not in prevResult", want.ifname);
            return Err(Error::check(msg));
        };
        let here = |i: &&Interface| i.sandbox == sandbox;
        let pod = std::iter::once(first).chain(candidates).find(here);
        let pod = pod.ok_or_else(|| {
            Error::check(format!(
                "Sandbox in prevResult {} doesn't match configured netns: {sandbox}",
                first.sandbox
            ))
        })?;
        Ok(Previous { result, pod })
    }

    fn node_link(&self, name: &str) -> Option<&Interface> {
        self.result.on_node().find(|i| i.name == name)
    }
}

/// The bridge: up, promiscuous where asked, with the MAC that was told.
pub fn bridge(want: &Want, previous: &Previous, bridge: &Link) -> Result<(), Error> {
    let name = &bridge.name;
    let told = previous.node_link(name).map_or("", |told| &told.mac);
    if bridge.kind != "bridge" {
        let msg = format!("Interface {name} does not have link type of bridge");
        return Err(Error::check(msg));
    }
    if !bridge.up {
        return Err(Error::check(format!("bridge {name} is down")));
    }
    if want.config.promiscuous && !bridge.promiscuous {
        let msg = format!(
            "Bridge interface {name} configured promisc Mode true doesn't match current state: false"
        );
        return Err(Error::check(msg));
    }
    if !same_mac(told, bridge.mac) {
        let msg = format!("Bridge interface {name} Mac doesn't match: {told}");
        return Err(Error::check(msg));
    }
    vlan::filters(want.config, bridge).map_err(|error| Error {
        code: code::CHECK_FAILED,
        ..error
    })
}

/// The gateway of a VLAN: with the MAC and MTU that were told.
pub fn gateway(previous: &Previous, link: &Link) -> Result<(), Error> {
    let (name, told) = (&link.name, previous.node_link(&link.name));
    let mac = told.map_or("", |told| &told.mac);
    if !same_mac(mac, link.mac) {
        let msg = format!("vlan gateway {name} Mac doesn't match: {mac}");
        return Err(Error::check(msg));
    }
    let mtu = told.and_then(|told| told.mtu);
    same_mtu(mtu.filter(|mtu| *mtu != 0), link)
}

/// The host veth is gone, or none of ours.
pub fn no_port(want: &Want) -> Error {
    Error::check(format!(
        "CNI veth created for bridge {} was not found",
        want.config.bridge
    ))
}

/// The two ends belong together, and the host's is the one that the result tells by its name.
pub fn pair(want: &Want, previous: &Previous, pod: &Link, port: &Link) -> Result<(), Error> {
    let name = &want.ifname;
    if pod.kind != "veth" {
        let msg = format!("Error: Container interface {name} not of type veth");
        return Err(Error::check(msg));
    }
    if previous.node_link(&port.name).is_none() {
        let msg = format!("prevResult tells no interface {} of the node", port.name);
        return Err(no_port(want).details(msg));
    }
    let ends = pod.peer == Some(port.index) && port.peer == Some(pod.index);
    if port.kind != "veth" || !ends {
        return Err(no_port(want).details(format!("{name} and {} are no pair", port.name)));
    }
    Ok(())
}

/// The host veth: up, a port of the bridge, with its flags and marks. Its MAC is not looked
/// at: udev may set another, and nothing depends on it.
pub fn port(want: &Want, port: &Link, bridge: u32) -> Result<(), Error> {
    let (config, marks, name) = (want.config, &want.identity.marks, &port.name);
    if port.master != Some(bridge) {
        let msg = format!("{name} is no port of {}", config.bridge);
        return Err(no_port(want).details(msg));
    }
    if !port.up {
        return Err(Error::check(format!("interface {name} is down")));
    }
    if config.container_up && !port.oper_up {
        return Err(Error::check(format!("interface {name} has no carrier")));
    }
    let flags = port.port.unwrap_or_default();
    if flags != want.port_flags() {
        return Err(Error::check(format!(
            "port {name} has hairpin {} and isolated {}, not {} and {}",
            flags.hairpin, flags.isolated, config.hairpin, config.isolated
        )));
    }
    // A link that a reference plugin made carries no marks.
    let ours = port.name == want.identity.name;
    if ours && (port.group != marks.group || port.alias != marks.alias) {
        return Err(Error::check(format!(
            "interface {name} has group {} and alias {:?}, not {} and {:?}",
            port.group, port.alias, marks.group, marks.alias
        )));
    }
    Ok(())
}

/// The pod's interface: up, with the MAC that was told.
pub fn pod_link(want: &Want, previous: &Previous, link: &Link) -> Result<(), Error> {
    let name = &link.name;
    if want.config.container_up && !link.up {
        return Err(Error::check(format!("interface {name} of the pod is down")));
    }
    let told = &previous.pod.mac;
    if !same_mac(told, link.mac) {
        let is = link.mac.map(|mac| mac.to_string()).unwrap_or_default();
        return Err(Error::check(format!(
            "Interface {name} Mac {told} doesn't match container Mac: {is}"
        )));
    }
    Ok(())
}

/// Each end of the veth pair has the MTU that was told, else the one that was asked for. Where there
/// is neither, as before version 1.1.0, it is the kernel's default, the same for both.
pub fn mtus(want: &Want, previous: &Previous, pod: &Link, port: &Link) -> Result<(), Error> {
    let ends = [
        (pod, Some(previous.pod)),
        (port, previous.node_link(&port.name)),
    ];
    let told = ends.map(|(_, told)| told.and_then(|told| told.mtu).filter(|mtu| *mtu != 0));
    let common = Some(port.mtu).filter(|_| told == [None, None]);
    for ((link, _), told) in ends.into_iter().zip(told) {
        same_mtu(told.or(want.config.mtu).or(common), link)?;
    }
    Ok(())
}

/// Whether a link has this MTU; one that is not known may be any.
fn same_mtu(known: Option<u32>, link: &Link) -> Result<(), Error> {
    match known {
        Some(mtu) if mtu != link.mtu => {
            let msg = format!("interface {} has mtu {}, not {mtu}", link.name, link.mtu);
            Err(Error::check(msg))
        }
        _ => Ok(()),
    }
}

/// Whether a link has the MAC that was told; an empty one tells nothing.
fn same_mac(told: &str, mac: Option<Mac>) -> bool {
    told.is_empty() || told.parse().is_ok_and(|told: Mac| mac == Some(told))
}

/// Every wanted address is on the interface and usable.
pub fn addresses(link: &str, wanted: &[IpNet], existing: &[Address]) -> Result<(), Error> {
    for net in wanted {
        let Some(address) = existing.iter().find(|address| address.net == *net) else {
            let msg = format!("Failed to match addr {net} on interface {link}");
            return Err(Error::check(msg));
        };
        if address.dad_failed {
            return Err(Error::check(format!(
                "link {link} has address {net} in DADFAILED state"
            )));
        }
    }
    Ok(())
}

/// Every wanted route is there, and the one that leads to each address's own network.
pub fn routes(want: &Want, index: u32, existing: &[Route]) -> Result<(), Error> {
    let networks = want.pod_addresses();
    let connected = networks
        .iter()
        .filter(|net| has_connected_route(net))
        .map(|net| Route::new(net.trunc(), None, index));
    for wanted in connected.chain(want.pod_routes(index)) {
        // A gateway in none of the pod's networks here is reached by what a later plugin made.
        let by_others = wanted
            .gateway
            .is_some_and(|gateway| !networks.iter().any(|net| net.contains(&gateway)));
        let serves =
            |route: &Route| (route.index == index || by_others) && is_as_wanted(route, &wanted);
        if !existing.iter().any(serves) {
            return Err(missing_route(&wanted));
        }
    }
    Ok(())
}

/// Whether the kernel makes a route to the network of an address: not for a single address, and not
/// where an IPv4 network begins with 0.0.0.0 (`fib_add_ifaddr` of net/ipv4/fib_frontend.c).
fn has_connected_route(net: &IpNet) -> bool {
    let from_zero = !is_ipv6(*net) && net.network().is_unspecified();
    net.prefix_len() < net.max_prefix_len() && !from_zero
}

/// Whether a route is the wanted one. A table, metric, MTU or scope that was not asked for may be
/// anything: later plugins move routes into tables of their own.
fn is_as_wanted(route: &Route, wanted: &Route) -> bool {
    fn as_asked<T: PartialEq>(asked: Option<T>, is: Option<T>) -> bool {
        asked.is_none() || asked == is
    }
    route.dst == wanted.dst
        && route.gateway == wanted.gateway
        && as_asked(wanted.table, route.table.or(Some(254)))
        && as_asked(wanted.priority, route.priority)
        && as_asked(wanted.mtu, route.mtu)
        && as_asked(wanted.advmss, route.advmss)
        // The kernel keeps no scope for IPv6.
        && (is_ipv6(wanted.dst) || as_asked(wanted.scope, route.scope.or(Some(0))))
}

fn missing_route(wanted: &Route) -> Error {
    let mut route = wanted.dst.to_string();
    if let Some(gateway) = wanted.gateway {
        route += &format!(" via {gateway}");
    }
    for (name, asked) in [
        ("metric", wanted.priority),
        ("mtu", wanted.mtu),
        ("advmss", wanted.advmss),
        ("table", wanted.table),
        ("scope", wanted.scope.map(u32::from)),
    ] {
        if let Some(asked) = asked {
            route += &format!(" {name} {asked}");
        }
    }
    Error::check(format!(
        "Expected Route {{{route}}} not found in routing table"
    ))
}
