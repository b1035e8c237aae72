//! Connection tracking entries of UDP ports. Rules are asked only for the first packet of a flow,
//! and for UDP a client that never pauses is one flow: it would be sent to the pod of before, or,
//! when the pod has gone, never to the node.

use std::collections::HashSet;
use std::io::Write as _;
use std::net::IpAddr;

use firewall::Family;
use firewall::hostport::{Mapping, Protocol};
use net::conntrack::{self, Destination};

/// Removes the entries of those ports that are UDP, each in its family. What fails is tried once more,
/// by a socket of its own, and then only told: the flow ends some day.
pub fn remove(forwards: impl IntoIterator<Item = (Family, Mapping)>) {
    let forwards: Vec<_> = forwards.into_iter().collect();
    for family in Family::ALL {
        let destinations = destinations(family, &forwards);
        let delete = || conntrack::delete_udp(family == Family::V6, destinations.clone());
        if let Err(error) = delete().or_else(|_| delete()) {
            let _ = writeln!(
                std::io::stderr(),
                "failed to delete stale UDP conntrack entries for {family}: {error}"
            );
        }
    }
}

/// Every port in every family.
pub fn in_both_families(mappings: &[Mapping]) -> impl Iterator<Item = (Family, Mapping)> {
    mappings
        .iter()
        .flat_map(|mapping| Family::ALL.map(|family| (family, *mapping)))
}

/// What to remove of a family: ports of the node, each with its address where it is a certain one.
fn destinations(family: Family, forwards: &[(Family, Mapping)]) -> HashSet<Destination> {
    let is_v6 = |ip: IpAddr| ip.is_ipv6() == (family == Family::V6);
    let of_family = forwards.iter().filter(|(of, _)| *of == family);
    of_family
        .map(|(_, mapping)| mapping)
        .filter(|mapping| mapping.protocol == Protocol::Udp && mapping.host_ip.is_none_or(is_v6))
        .map(|mapping| {
            let address = mapping.host_ip.filter(|ip| !ip.is_unspecified());
            (mapping.host_port, address)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(host_port: u16, protocol: Protocol, host_ip: &str) -> Mapping {
        Mapping {
            host_port,
            container_port: 1,
            protocol,
            host_ip: host_ip.parse().ok(),
        }
    }

    #[test]
    fn only_udp_in_its_family_and_each_once() {
        let mappings = [
            mapping(53, Protocol::Udp, ""),
            mapping(53, Protocol::Tcp, ""),
            mapping(54, Protocol::Udp, "0.0.0.0"),
            mapping(55, Protocol::Udp, "fd00::1"),
            mapping(53, Protocol::Udp, ""),
        ];
        let forwards: Vec<_> = in_both_families(&mappings).collect();
        let v4 = [(53, None), (54, None)];
        assert_eq!(destinations(Family::V4, &forwards), v4.into());
        let v6 = [(53, None), (55, "fd00::1".parse().ok())];
        assert_eq!(destinations(Family::V6, &forwards), v6.into());
        assert!(destinations(Family::V6, &forwards[..1]).is_empty());
    }
}
