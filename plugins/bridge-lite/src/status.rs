//! STATUS: whether an ADD could be served, as far as that is known before it is asked for.

use cni::{Command, Context, Error, Request, code};
use net::{Address, Link, Netlink};

use crate::add::masquerade_ready;
use crate::bridge;
use crate::config::BridgeConfig;
use crate::gateway;
use crate::ipam;
use crate::macspoof;
use crate::sysctls::Sysctl;
use crate::vlan;
use crate::want::is_ipv6;

/// Finds what every ADD would fail for; then asks the IPAM plugin, whose error becomes ours.
///
/// # Errors
/// Code 50, or 51 where pods that are there suffer too, with the reason; or what is wrong with the
/// configuration.
pub fn status(request: &Request) -> Result<(), Error> {
    let config = BridgeConfig::read(request)?;
    request.step("look");
    let node = Netlink::current().context("failed to open a netlink socket");
    let node = node.map_err(Error::not_available)?;
    let bridge = bridge::find(&node, &config.bridge).map_err(Error::not_available)?;
    vlan::can_filter(&config, bridge.as_ref()).map_err(Error::not_available)?;
    masquerade_ready(config.masquerade()).map_err(Error::not_available)?;
    macspoof::preflight(&config).map_err(Error::not_available)?;
    if config.is_gateway && config.layer3 {
        let holder = gateway::holder(&node, &config, bridge).map_err(Error::not_available)?;
        can_forward(&node, &config, holder.as_ref())?;
    }
    request.step("ipam");
    match ipam(request).map_err(Error::not_available)? {
        Some(ipam) => ipam.call(Command::Status, request),
        None => Ok(()),
    }
}

/// Sees that the node forwards, or can be made to. `holder` has the gateways' addresses, if it is
/// there.
fn can_forward(node: &Netlink, config: &BridgeConfig, holder: Option<&Link>) -> Result<(), Error> {
    let name = gateway::holder_name(config);
    let addresses = match holder {
        Some(holder) => node.addresses(holder.index),
        None => Ok(Vec::new()),
    };
    let addresses = addresses.context(format!("failed to list addresses of {name:?}"));
    let addresses = addresses.map_err(Error::not_available)?;
    let possible = |ipv6: bool| {
        let sysctls = Sysctl::forwarding(&name, ipv6);
        sysctls.iter().try_for_each(Sysctl::can_be_set)
    };
    forwarding(&addresses, possible)
}

/// The families of the addresses that are there already are needed. Where there are none, only the
/// IPAM plugin knows which will be, and one is enough.
fn forwarding(
    addresses: &[Address],
    possible: impl Fn(bool) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut used = addresses.iter().filter(|address| address.global).peekable();
    if used.peek().is_none() {
        let either = possible(false).or_else(|v4| possible(true).map_err(|_| v4));
        return either.map_err(Error::not_available);
    }
    used.try_for_each(|address| {
        possible(is_ipv6(address.net)).map_err(|error| Error {
            code: code::LIMITED_CONNECTIVITY,
            ..error
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forwarding(nets: &[&str], possible: [bool; 2]) -> Result<(), u32> {
        let addresses: Vec<Address> = nets
            .iter()
            .map(|net| Address {
                net: net.parse().unwrap(),
                tentative: false,
                dad_failed: false,
                global: !net.starts_with("fe80"),
            })
            .collect();
        let possible = |ipv6: bool| match possible[usize::from(ipv6)] {
            true => Ok(()),
            false => Err(Error::system("read-only")),
        };
        super::forwarding(&addresses, possible).map_err(|error| error.code)
    }

    #[test]
    fn the_families_in_use_must_forward() {
        let (v4, v6) = ("10.1.0.1/24", "fd00::1/64");
        for (nets, possible, expected) in [
            (&[v4][..], [true, false], Ok(())),
            (&[v4], [false, true], Err(51)),
            (&[v6, "fe80::1/64"], [false, true], Ok(())),
            (&[v4, v6], [true, true], Ok(())),
            (&[v4, v6], [true, false], Err(51)),
            (&[], [true, false], Ok(())),
            (&["fe80::1/64"], [false, true], Ok(())),
            (&[], [false, false], Err(50)),
        ] {
            assert_eq!(
                forwarding(nets, possible),
                expected,
                "{nets:?} {possible:?}"
            );
        }
    }
}
