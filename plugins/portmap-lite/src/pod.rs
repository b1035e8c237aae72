//! The pod as the previous result tells of it.

use cni::AddResult;
use firewall::Family;
use ipnet::IpNet;

/// The addresses that the ports lead to: the first of each family of the pod's `ifname`.
pub fn addresses(previous: &AddResult, ifname: &str) -> Vec<IpNet> {
    let mut addresses: Vec<IpNet> = Vec::new();
    for ip in previous.ips_of(ifname) {
        let family = Family::of(&ip.address);
        if addresses.iter().all(|found| Family::of(found) != family) {
            addresses.push(ip.address);
        }
    }
    addresses
}

#[cfg(test)]
mod tests {
    use cni::{Interface, IpConfig};

    use super::*;

    #[test]
    fn the_first_of_each_family_on_the_interface() {
        let interface = |name: &str| Interface {
            name: name.into(),
            sandbox: "/run/netns/x".into(),
            ..Interface::default()
        };
        let ip = |address: &str, interface: i64| IpConfig {
            address: address.parse().unwrap(),
            gateway: None,
            interface: Some(interface),
        };
        let previous = AddResult {
            interfaces: vec![interface("net1"), interface("eth0")],
            ips: vec![
                ip("10.0.0.1/24", 0),
                ip("fd00::2/64", 1),
                ip("10.0.0.2/24", 1),
                ip("10.0.0.3/24", 1),
                ip("fd00::3/64", 1),
            ],
            ..AddResult::default()
        };
        let chosen = |ifname| {
            let addresses = addresses(&previous, ifname);
            let texts = addresses.iter().map(ToString::to_string);
            texts.collect::<Vec<_>>()
        };
        assert_eq!(chosen("eth0"), ["fd00::2/64", "10.0.0.2/24"]);
        assert_eq!(chosen("eth1"), [""; 0]);
    }
}
