//! What a pod's loopback has: pure functions over values.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use cni::{AddResult, Error, Interface, IpConfig, code};
use ipnet::IpNet;

use crate::NAME;

/// The addresses that the kernel gives a loopback that comes up (`inetdev_event` of
/// net/ipv4/devinet.c, `init_loopback` of net/ipv6/addrconf.c).
pub fn addresses(ipv6: bool) -> Vec<IpNet> {
    let net = |address: IpAddr, length| IpNet::new_assert(address, length);
    let v4 = net(Ipv4Addr::LOCALHOST.into(), 8);
    let v6 = net(Ipv6Addr::LOCALHOST.into(), 128);
    std::iter::once(v4).chain(ipv6.then_some(v6)).collect()
}

/// Refuses an interface on which somebody has put an address for others: it is in use already.
///
/// # Errors
/// Code 103, with the address.
pub fn expect_loopback(found: &[IpNet]) -> Result<(), Error> {
    let Some(other) = found.iter().find(|net| !net.addr().is_loopback()) else {
        return Ok(());
    };
    let msg = format!(
        "loopback interface found with non-loopback address {:?}",
        other.addr().to_string()
    );
    let details = format!("{NAME:?} has {other}; allowed: 127.0.0.0/8 and ::1");
    Err(Error::new(code::ALREADY_EXISTS, msg).details(details))
}

/// The result of an ADD that is the first of its chain.
pub fn result(mac: String, sandbox: &str, addresses: &[IpNet]) -> AddResult {
    let ip = |address: &IpNet| IpConfig {
        interface: Some(0),
        address: *address,
        gateway: None,
    };
    AddResult {
        interfaces: vec![Interface {
            name: NAME.to_owned(),
            mac,
            sandbox: sandbox.to_owned(),
            ..Interface::default()
        }],
        ips: addresses.iter().map(ip).collect(),
        ..AddResult::default()
    }
}

/// The addresses that CHECK expects: those that the chain's result tells of the interface, and
/// where it tells nothing of it, those that ADD makes.
pub fn expected(previous: Option<&AddResult>, ipv6: bool) -> Vec<IpNet> {
    let is_it = |interface: &Interface| interface.name == NAME && !interface.sandbox.is_empty();
    let Some(previous) = previous.filter(|result| result.interfaces.iter().any(is_it)) else {
        return addresses(ipv6);
    };
    let on_it = |ip: &&IpConfig| previous.interface_of(ip).is_some_and(is_it);
    previous
        .ips
        .iter()
        .filter(on_it)
        .map(|ip| ip.address)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nets(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    const BOTH: [&str; 2] = ["127.0.0.1/8", "::1/128"];

    #[test]
    fn one_of_each_family_that_the_pod_has() {
        assert_eq!(addresses(true), nets(&BOTH));
        assert_eq!(addresses(false), nets(&BOTH[..1]));
    }

    #[test]
    fn an_address_for_others_is_refused() {
        for good in [&[] as &[&str], &BOTH, &["127.0.0.5/32"]] {
            assert_eq!(expect_loopback(&nets(good)), Ok(()));
        }
        let error = expect_loopback(&nets(&["127.0.0.1/8", "10.1.1.1/32"])).unwrap_err();
        assert_eq!(error.code, code::ALREADY_EXISTS);
        assert_eq!(
            error.msg,
            "loopback interface found with non-loopback address \"10.1.1.1\""
        );
        assert!(expect_loopback(&nets(&["2001:db8::1/128"])).is_err());
    }

    #[test]
    fn a_result_that_tells_of_it_says_what_is_expected() {
        let both = nets(&BOTH);
        let told = result(String::new(), "/run/netns/x", &both[..1]);
        assert_eq!(expected(Some(&told), true), both[..1]);
        let none = result(String::new(), "/run/netns/x", &[]);
        assert_eq!(expected(Some(&none), true), []);
        // Of the pod's other interface, and of the node's loopback.
        let mut others = result(String::new(), "/run/netns/x", &nets(&["10.1.0.2/24"]));
        others.interfaces[0].name = "eth0".to_owned();
        let on_node = result(String::new(), "", &nets(&["127.0.0.9/8"]));
        for silent in [None, Some(&others), Some(&on_node)] {
            assert_eq!(expected(silent, true), both);
        }
    }

    #[test]
    fn addresses_of_other_interfaces_are_not_expected() {
        let both = nets(&BOTH);
        let mut told = result(String::new(), "/run/netns/x", &both);
        told.interfaces.push(Interface {
            name: "eth0".to_owned(),
            sandbox: "/run/netns/x".to_owned(),
            ..Interface::default()
        });
        told.ips.push(IpConfig {
            interface: Some(1),
            address: "10.1.0.2/24".parse().unwrap(),
            gateway: None,
        });
        assert_eq!(expected(Some(&told), true), both);
    }
}
