//! Connection tracking entries of UDP ports. Rules are asked only for the first packet of a flow,
//! and for UDP a client that never pauses is one flow: it would be sent to the pod of before, or,
//! when the pod has gone, never to the node.

use std::io::Write as _;
use std::net::IpAddr;

use firewall::Family;
use firewall::hostport::{Mapping, Protocol};
use net::conntrack;

/// Removes the entries of those ports that are UDP, each in its family. What fails is only told: the
/// flow ends some day.
pub fn remove(forwards: impl IntoIterator<Item = (Family, Mapping)>) {
    for (family, port, address) in targets(forwards) {
        if let Err(error) = conntrack::delete_udp(family == Family::V6, port, address) {
            let _ = writeln!(
                std::io::stderr(),
                "failed to delete stale UDP conntrack entries for {family} port {port}: {error}"
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

/// What to remove, each once: family, port of the node, and its address where it is a certain one.
fn targets(
    forwards: impl IntoIterator<Item = (Family, Mapping)>,
) -> Vec<(Family, u16, Option<IpAddr>)> {
    let mut targets = Vec::new();
    for (family, mapping) in forwards {
        let of_family = mapping
            .host_ip
            .is_none_or(|ip| ip.is_ipv6() == (family == Family::V6));
        let address = mapping.host_ip.filter(|ip| !ip.is_unspecified());
        let target = (family, mapping.host_port, address);
        if mapping.protocol == Protocol::Udp && of_family && !targets.contains(&target) {
            targets.push(target);
        }
    }
    targets
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
        assert_eq!(
            targets(in_both_families(&mappings)),
            [
                (Family::V4, 53, None),
                (Family::V6, 53, None),
                (Family::V4, 54, None),
                (Family::V6, 55, "fd00::1".parse().ok()),
            ]
        );
    }
}
