//! The pod as the previous result tells of it.

use std::path::Path;

use cni::{AddResult, Context, Error, Request, code};
use firewall::Family;
use ipnet::IpNet;
use net::Netns;

/// The addresses that the ports lead to: the first of each family that is not said to be on
/// another interface than the pod's `ifname`.
pub fn addresses(previous: &AddResult, ifname: &str) -> Vec<IpNet> {
    let on_interface = |index: Option<i64>| {
        let index = index.and_then(|index| usize::try_from(index).ok());
        let interface = index.and_then(|index| previous.interfaces.get(index));
        interface.is_none_or(|found| found.name == ifname && !found.sandbox.is_empty())
    };
    let mut addresses: Vec<IpNet> = Vec::new();
    for ip in previous.ips.iter().filter(|ip| on_interface(ip.interface)) {
        let family = Family::of(&ip.address);
        if addresses.iter().all(|found| Family::of(found) != family) {
            addresses.push(ip.address);
        }
    }
    addresses
}

/// Refuses a pod whose namespace is none, or our own: its ports need nobody to lead to them.
///
/// # Errors
/// Code 4.
pub fn refuse_own_netns(request: &Request) -> Result<(), Error> {
    let path = request.env.netns.as_deref().unwrap_or(Path::new(""));
    let invalid = |msg: String| {
        Error::new(code::INVALID_ENVIRONMENT, msg).details(format!("CNI_NETNS={}", path.display()))
    };
    let netns = Netns::open(path).map_err(|error| invalid(error.to_string()))?;
    let our_own = Netns::current().and_then(|current| current.same_as(&netns));
    if our_own.context("failed to compare namespaces")? && !request.env.netns_override {
        return Err(invalid(
            "plugin's netns and netns from CNI_NETNS should not be the same".into(),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use cni::{Interface, IpConfig};

    use super::*;

    fn previous(ips: &[(&str, Option<i64>)]) -> AddResult {
        let interface = |name: &str, sandbox: &str| Interface {
            name: name.into(),
            sandbox: sandbox.into(),
            ..Interface::default()
        };
        AddResult {
            interfaces: vec![
                interface("eth0", ""),
                interface("eth0", "/run/netns/x"),
                interface("net1", "/run/netns/x"),
            ],
            ips: ips
                .iter()
                .map(|(address, interface)| IpConfig {
                    address: address.parse().unwrap(),
                    gateway: None,
                    interface: *interface,
                })
                .collect(),
            ..AddResult::default()
        }
    }

    fn chosen(ips: &[(&str, Option<i64>)]) -> Vec<String> {
        let addresses = addresses(&previous(ips), "eth0");
        addresses.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_first_of_each_family() {
        let ips = [
            ("fd00::2/64", Some(1)),
            ("10.0.0.2/24", Some(1)),
            ("10.0.0.3/24", Some(1)),
            ("fd00::3/64", Some(1)),
        ];
        assert_eq!(chosen(&ips), ["fd00::2/64", "10.0.0.2/24"]);
        assert_eq!(chosen(&[]), [""; 0]);
    }

    #[test]
    fn not_of_another_interface_nor_of_the_node() {
        let ips = [("10.0.0.2/24", Some(0)), ("10.0.0.3/24", Some(2))];
        assert_eq!(chosen(&ips), [""; 0]);
    }

    #[test]
    fn without_a_valid_index_it_counts() {
        for index in [None, Some(3), Some(-1), Some(i64::MAX)] {
            assert_eq!(chosen(&[("10.0.0.2/24", index)]), ["10.0.0.2/24"]);
        }
    }
}
