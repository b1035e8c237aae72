//! The bridge that all pods of a network share. Once made it is never undone: another ADD may be
//! using it already.

use std::hash::{BuildHasher, RandomState};

use cni::{Context, Error, code};
use ipnet::IpNet;
use net::{Address, Bridge, Errno, Link, Mac, Netlink};

use crate::gateway::{self, Gateway};
use crate::ready;
use crate::sysctls::Sysctl;
use crate::vlan;
use crate::want::{Want, is_ipv6};

/// The link of that name, if there is one.
///
/// # Errors
/// It is not a bridge.
pub fn find(node: &Netlink, name: &str) -> Result<Option<Link>, Error> {
    let link = node
        .link(name)
        .context(format!("failed to look for bridge {name:?}"))?;
    match link {
        Some(link) if link.kind != "bridge" => Err(Error::new(
            code::ALREADY_EXISTS,
            format!(
                "failed to create bridge {name:?}: {name:?} already exists but is not a bridge"
            ),
        )
        .details(format!(
            "bridge: {name:?}; it is a link of kind {:?}",
            link.kind
        ))),
        link => Ok(link),
    }
}

/// Addresses that have to go from the link with the gateways' before it can have these: none, unless
/// `forceAddress` is set.
///
/// # Errors
/// There are some and `forceAddress` is not set.
pub fn addresses_to_replace(node: &Netlink, want: &Want) -> Result<Vec<IpNet>, Error> {
    let wanted = want.gateway_addresses();
    let bridge = find(node, &want.config.bridge)?;
    let link = gateway::holder(node, want.config, bridge)?;
    let Some(Link { name, index, .. }) = link.filter(|_| !wanted.is_empty()) else {
        return Ok(Vec::new());
    };
    let existing = node
        .addresses(index)
        .context(format!("failed to list addresses of {name:?}"))?;
    let conflicts = conflicts(&existing, &wanted);
    match conflicts.first() {
        Some((old, new)) if !want.config.force_address => Err(Error::new(
            code::ALREADY_EXISTS,
            format!(
                "failed to set bridge addr: {name:?} already has an IP address different from {new}"
            ),
        )
        .details(format!(
            "it has {old}; forceAddress: false; allowed: true, to replace {old} by {new}"
        ))),
        _ => Ok(conflicts.into_iter().map(|(old, _)| old).collect()),
    }
}

/// Pairs of an address that is there and the wanted one that it is in the way of: for IPv4 any
/// other, for IPv6 one of an overlapping network.
fn conflicts(existing: &[Address], wanted: &[IpNet]) -> Vec<(IpNet, IpNet)> {
    let mut conflicts = Vec::new();
    for Address {
        net: old, global, ..
    } in existing
    {
        let in_the_way = |new: &&IpNet| match (old, new) {
            (IpNet::V4(_), IpNet::V4(_)) => true,
            (IpNet::V6(_), IpNet::V6(_)) => {
                *global && (old.contains(&new.addr()) || new.contains(&old.addr()))
            }
            _ => false,
        };
        if let Some(new) = wanted
            .iter()
            .find(in_the_way)
            .filter(|_| !wanted.contains(old))
        {
            conflicts.push((*old, *new));
        }
    }
    conflicts
}

/// Makes the bridge where it is missing, and makes it as wanted: up, promiscuous where asked, with
/// the gateways' addresses in place of `replaced`; or these on the VLAN's gateway, made likewise.
///
/// # Errors
/// The kernel's.
pub fn ensure(node: &Netlink, want: &Want, replaced: &[IpNet]) -> Result<Link, Error> {
    let name = &want.config.bridge;
    let failed = format!("failed to create bridge {name:?}");
    let bridge = match find(node, name)? {
        Some(bridge) => bridge,
        None => create(node, want)?,
    };
    // Again: another ADD may have made it meanwhile, without VLANs.
    vlan::filters(want.config, &bridge)?;
    if !bridge.up {
        if !want.config.dad {
            // Else the node could not ask for a pod's link-layer address, which it does from its
            // own link-local one, in the first seconds.
            Sysctl::accept_dad(name, false).set()?;
        }
        node.set_up(bridge.index).context(&failed)?;
    }
    if want.config.promiscuous && !bridge.promiscuous {
        node.set_promiscuous(bridge.index)
            .context(format!("could not set promiscuous mode on {name:?}"))?;
    }
    let wanted = want.gateway_addresses();
    let gateway = match wanted.is_empty() {
        true => None,
        false => Gateway::of(want.config),
    };
    let gateway = gateway.map(|gateway| gateway.ensure(node, &bridge, want.config.dad));
    let gateway = gateway.transpose()?;
    let holder = gateway.as_ref().unwrap_or(&bridge);
    let added = set_addresses(node, holder, want, &wanted, replaced);
    let added = added.context("failed to set bridge addr")?;
    if !bridge.has_fixed_mac().unwrap_or(!added) {
        pin_mac(node, &bridge).context(format!("failed to fix the MAC of {name:?}"))?;
    }
    Ok(bridge)
}

/// Makes the bridge; another ADD may be quicker, which is as good.
fn create(node: &Netlink, want: &Want) -> Result<Link, Error> {
    let name = &want.config.bridge;
    let failed = format!("failed to create bridge {name:?}");
    let made = node.create_bridge(&Bridge {
        name,
        mac: Some(random_mac()),
        mtu: want.config.mtu,
        vlan_filtering: want.config.vlans.is_some(),
    });
    match made {
        Err(error) if !error.is(Errno::EEXIST) => return Err(error).context(failed),
        _ => {}
    }
    find(node, name)?.ok_or_else(|| Error::system(format!("{failed}: it vanished")))
}

/// Gives it the addresses that it lacks; whether there were such.
fn set_addresses(
    node: &Netlink,
    link: &Link,
    want: &Want,
    wanted: &[IpNet],
    replaced: &[IpNet],
) -> net::Result<bool> {
    if wanted.is_empty() {
        return Ok(false);
    }
    for old in replaced {
        match node.delete_address(link.index, *old) {
            // Another ADD with forceAddress was quicker.
            Err(error) if error.is(Errno::EADDRNOTAVAIL) => {}
            other => other?,
        }
    }
    let existing = node.addresses(link.index)?;
    let mut added = false;
    for new in wanted {
        if existing.iter().any(|address| address.net == *new) {
            continue;
        }
        // Without `nodad` a pod's first packets would wait for the gateway's detection to end.
        match node.add_address(link.index, *new, is_ipv6(*new) && !want.config.dad) {
            Err(error) if error.is(Errno::EEXIST) => {}
            other => other?,
        }
        added = true;
    }
    Ok(added)
}

/// Waits until the gateways' IPv6 addresses are in use, where duplicate detection is on until it has ended:
/// else a pod's first packets would have to.
///
/// # Errors
/// One of them is a duplicate, or the kernel's.
pub fn await_gateways(node: &Netlink, want: &Want, bridge: &Link) -> Result<(), Error> {
    let gateways = want.gateway_addresses();
    if !gateways.iter().any(|net| is_ipv6(*net)) {
        return Ok(());
    }
    let Some(holder) = gateway::holder(node, want.config, Some(bridge.clone()))? else {
        return Ok(());
    };
    if want.config.dad {
        ready::addresses(node, holder.index, &holder.name)?;
    }
    ready::in_use(node, holder.index, &gateways)
}

/// A bridge that was made without a MAC takes the least of its ports' and loses it with the last
/// one, and with it goes every pod's neighbour entry for its gateway.
fn pin_mac(node: &Netlink, bridge: &Link) -> net::Result<()> {
    let given = bridge.mac.filter(|mac| *mac != Mac([0; 6]));
    node.set_mac(bridge.index, given.unwrap_or_else(random_mac))
}

/// On no other node that shares the layer 2.
pub fn random_mac() -> Mac {
    let random = RandomState::new().hash_one(std::process::id());
    let [a, b, c, d, e, f, ..] = random.to_ne_bytes();
    Mac::local([a, b, c, d, e, f])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(net: &str) -> Address {
        Address {
            net: net.parse().unwrap(),
            tentative: false,
            dad_failed: false,
            global: !net.starts_with("fe80"),
        }
    }

    #[test]
    fn what_is_in_the_way_of_a_gateway() {
        let table: [(&[&str], &[&str], &[&str]); 9] = [
            (&[], &["10.1.0.1/16"], &[]),
            (&["10.1.0.1/16"], &["10.1.0.1/16"], &[]),
            (&["10.1.0.1/24"], &["10.1.0.1/16"], &["10.1.0.1/24"]),
            (&["10.2.0.1/16"], &["10.1.0.1/16"], &["10.2.0.1/16"]),
            (&["10.1.0.1/24"], &["10.1.0.1/24", "10.2.0.1/24"], &[]),
            (&["fd00::1/64"], &["10.1.0.1/16"], &[]),
            (&["fd01::1/64"], &["fd00::1/64"], &[]),
            (&["fd00::2/64"], &["fd00::1/64"], &["fd00::2/64"]),
            (&["fe80::5/64"], &["fe80::1/64"], &[]),
        ];
        for (existing, wanted, expected) in table {
            let existing: Vec<Address> = existing.iter().map(|net| address(net)).collect();
            let wanted: Vec<IpNet> = wanted.iter().map(|net| net.parse().unwrap()).collect();
            let old = conflicts(&existing, &wanted)
                .iter()
                .map(|(old, _)| old.to_string())
                .collect::<Vec<_>>();
            assert_eq!(old, expected, "{existing:?} {wanted:?}");
        }
    }

    #[test]
    fn random_macs_are_unicast_and_differ() {
        let (one, other) = (random_mac(), random_mac());
        assert_ne!(one, other);
        let Mac([first, ..]) = one;
        assert_eq!(first & 0x03, 0x02);
    }
}
