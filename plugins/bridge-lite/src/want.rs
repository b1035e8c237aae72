//! What an attachment should have: the one description that ADD makes so, CHECK compares with what
//! is there, and the result tells. Pure: from the attachment, the configuration and the IPAM's (or
//! the previous) result.

#[cfg(test)]
mod tests;

use std::net::IpAddr;

use cni::{AddResult, Attachment, Dns, Error, IpConfig, Version};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use net::{Link, PortFlags, Route};

use crate::config::BridgeConfig;
use crate::gateway::{self, Gateway};
use crate::identity::Identity;
use crate::sysctls::Sysctl;

/// Place of the pod's interface in the result, after the bridge and the host veth.
const POD_INTERFACE: i64 = 2;

/// Least MTU of a link that IPv6 runs on, in bytes (RFC 8200, section 5).
const IPV6_MIN_MTU: u32 = 1280;

/// `RT_TABLE_MAIN` of linux/rtnetlink.h.
const MAIN_TABLE: u32 = 254;

/// What should exist for an attachment.
#[derive(Debug, Clone)]
pub struct Want<'a> {
    /// What was asked for.
    pub config: &'a BridgeConfig,
    /// Name and marks of the host veth.
    pub identity: Identity,
    /// The pod's interface.
    pub ifname: String,
    /// Its addresses, each with its gateway.
    pub ips: Vec<IpConfig>,
    /// The pod's routes as the result tells them.
    pub routes: Vec<cni::Route>,
    /// Resolver settings.
    pub dns: Dns,
}

impl<'a> Want<'a> {
    /// The links alone: all there is at layer 2, and all that is known before the IPAM answers.
    pub fn links(config: &'a BridgeConfig, attachment: &Attachment) -> Want<'a> {
        Want {
            config,
            identity: Identity::of(attachment),
            ifname: attachment.ifname.clone(),
            ips: Vec::new(),
            routes: Vec::new(),
            dns: config.dns.clone().unwrap_or_default(),
        }
    }

    /// Adds what the IPAM gave.
    ///
    /// # Errors
    /// The IPAM gave no address, or one that cannot be used as the configuration asks.
    pub fn with_ipam(mut self, ipam: AddResult) -> Result<Want<'a>, Error> {
        if ipam.ips.is_empty() {
            return Err(Error::config("IPAM plugin returned missing IP config"));
        }
        self.ips = ipam.ips;
        self.routes = ipam.routes;
        if self.config.dns.is_none() {
            self.dns = ipam.dns;
        }
        self.complete_gateways()?;
        self.usable()?;
        if self.config.is_default_gateway {
            self.add_default_routes();
        }
        Ok(self)
    }

    /// Takes addresses and routes from what the chain's ADD returned: a later plugin may have
    /// changed them, and no default route is added to what it left.
    ///
    /// # Errors
    /// As [`Want::with_ipam`].
    pub fn with_previous(mut self, previous: &AddResult) -> Result<Want<'a>, Error> {
        if self.config.layer3 {
            self.ips = previous.ips_of(&self.ifname).cloned().collect();
            self.routes = previous.routes.clone();
            self.complete_gateways()?;
        }
        Ok(self)
    }

    /// Every address is the pod interface's; on a gateway, one that has no gateway gets the first
    /// address of its network.
    fn complete_gateways(&mut self) -> Result<(), Error> {
        for ip in &mut self.ips {
            ip.interface = Some(POD_INTERFACE);
            if ip.gateway.is_none() && self.config.is_gateway {
                let gateway = next(ip.address.network());
                ip.gateway = Some(gateway.ok_or_else(|| no_gateway(ip.address))?);
            }
        }
        Ok(())
    }

    /// Refuses what the kernel would refuse half-way.
    fn usable(&self) -> Result<(), Error> {
        self.routes.iter().try_for_each(valid)?;
        let addresses = self
            .ips
            .iter()
            .map(|ip| (ip.gateway, "address", ip.address));
        let routes = self.routes.iter();
        let routes = routes.map(|route| (route.gw, "route destination", route.dst));
        for (gateway, what, net) in addresses.chain(routes) {
            if let Some(gateway) = gateway.filter(|gateway| gateway.is_ipv6() != is_ipv6(net)) {
                return Err(Error::config(format!(
                    "gateway {gateway} and {what} {net} are not of one family"
                )));
            }
        }
        self.assignable()?;
        match self.config.mtu {
            Some(mtu) if mtu < IPV6_MIN_MTU && self.has_ipv6() => Err(Error::config(format!(
                "mtu: {mtu} is too small for IPv6"
            ))
            .details(format!(
                "allowed with an IPv6 address: {IPV6_MIN_MTU} or more"
            ))),
            _ => Ok(()),
        }
    }

    /// Refuses addresses that no interface can have, of the pod and of a bridge that is a gateway.
    fn assignable(&self) -> Result<(), Error> {
        for ip in &self.ips {
            if !is_assignable(ip.address.addr()) {
                let msg = format!("no interface can have address {} of the IPAM", ip.address);
                return Err(Error::config(msg).details(NOT_ASSIGNABLE));
            }
            let of_bridge = ip.gateway.filter(|_| self.config.is_gateway);
            if let Some(gateway) = of_bridge.filter(|gateway| !is_assignable(*gateway)) {
                return Err(Error::config(format!(
                    "no bridge can have gateway {gateway} of address {}",
                    ip.address
                ))
                .details(format!(
                    "{NOT_ASSIGNABLE}; isGateway is true; a gateway that the IPAM does not give is \
                     the first address of its network"
                )));
            }
        }
        Ok(())
    }

    /// A default route by the first gateway of each family that has none yet. One without a
    /// gateway of its own counts: it gets that gateway too.
    fn add_default_routes(&mut self) {
        for ipv6 in [false, true] {
            let found = self.routes.iter().any(|route| {
                is_ipv6(route.dst) == ipv6
                    && route.dst.prefix_len() == 0
                    && matches!(route.table, None | Some(0 | MAIN_TABLE))
            });
            let Some(gateway) = self.gateway(ipv6).filter(|_| !found) else {
                continue;
            };
            self.routes.push(cni::Route {
                dst: match gateway {
                    IpAddr::V4(_) => Ipv4Net::default().into(),
                    IpAddr::V6(_) => Ipv6Net::default().into(),
                },
                gw: Some(gateway),
                mtu: None,
                advmss: None,
                priority: None,
                table: None,
                scope: None,
            });
        }
    }

    /// The gateway of a family: that of its first address that has one.
    pub fn gateway(&self, ipv6: bool) -> Option<IpAddr> {
        let mut gateways = self.ips.iter().filter_map(|ip| ip.gateway);
        gateways.find(|gateway| gateway.is_ipv6() == ipv6)
    }

    /// Where a gateway that the pod's routes go by comes from.
    pub fn source_of(&self, gateway: IpAddr) -> String {
        let of_ip = self.ips.iter().find(|ip| ip.gateway == Some(gateway));
        match of_ip.map(|ip| ip.address) {
            Some(net) if self.config.is_gateway && next(net.network()) == Some(gateway) => {
                format!("isGateway: the first address of the network of {net}")
            }
            Some(net) => format!("gateway of {net}, as the IPAM gave it"),
            None => "ipam.routes[].gw".to_owned(),
        }
    }

    /// Whether the pod has an IPv6 address.
    pub fn has_ipv6(&self) -> bool {
        self.ips.iter().any(|ip| is_ipv6(ip.address))
    }

    /// Addresses of the pod's interface.
    pub fn pod_addresses(&self) -> Vec<IpNet> {
        self.ips.iter().map(|ip| ip.address).collect()
    }

    /// The gateways' addresses on the node, each in its address's network; none unless it is one.
    pub fn gateway_addresses(&self) -> Vec<IpNet> {
        let mut addresses = Vec::new();
        for ip in self.ips.iter().filter(|_| self.config.is_gateway) {
            let gateway = ip
                .gateway
                .and_then(|gateway| IpNet::new(gateway, ip.address.prefix_len()).ok());
            if let Some(gateway) = gateway.filter(|gateway| !addresses.contains(gateway)) {
                addresses.push(gateway);
            }
        }
        addresses
    }

    /// The pod's routes as the kernel gets them, by the link of that index.
    pub fn pod_routes(&self, index: u32) -> Vec<Route> {
        let given = |value: Option<u32>| value.filter(|value| *value != 0);
        self.routes
            .iter()
            .map(|route| Route {
                dst: route.dst.trunc(),
                gateway: match route.gw {
                    // To the kernel `0.0.0.0` and `::` are no gateway, and it tells of none.
                    Some(gateway) => Some(gateway).filter(|it| !it.is_unspecified()),
                    None => self
                        .gateway(is_ipv6(route.dst))
                        .filter(|_| !route.is_on_link()),
                },
                index,
                priority: given(route.priority),
                table: given(route.table),
                scope: route.scope,
                mtu: given(route.mtu),
                advmss: given(route.advmss),
            })
            .collect()
    }

    /// Flags of the host veth as a port of the bridge.
    pub fn port_flags(&self) -> PortFlags {
        PortFlags {
            hairpin: self.config.hairpin,
            isolated: self.config.isolated,
        }
    }

    /// Sysctls of the node's namespace.
    pub fn node_sysctls(&self) -> Vec<Sysctl> {
        let mut sysctls = vec![
            Sysctl::no_router_advertisements(&self.config.bridge),
            Sysctl::no_router_advertisements(&self.identity.name),
        ];
        if let Some(gateway) = Gateway::of(self.config) {
            let ends = [&gateway.name, &gateway.port];
            sysctls.extend(ends.map(|name| Sysctl::no_router_advertisements(name)));
        }
        let holder = gateway::holder_name(self.config);
        let gateways = self.gateway_addresses();
        for ipv6 in [false, true] {
            if gateways.iter().any(|gateway| is_ipv6(*gateway) == ipv6) {
                sysctls.extend(Sysctl::forwarding(&holder, ipv6));
            }
        }
        sysctls
    }

    /// Sysctls of the pod's namespace; none at layer 2.
    pub fn pod_sysctls(&self) -> Vec<Sysctl> {
        if self.ips.is_empty() {
            return Vec::new();
        }
        Sysctl::of_pod_interface(&self.ifname, self.has_ipv6(), self.config.dad)
    }

    /// The result, with the links as they are in the end: bridge, host veth, the pod's, and a VLAN's
    /// gateway.
    pub fn result(
        self,
        links: [&Link; 3],
        gateway: Option<&Link>,
        sandbox: &str,
        version: Version,
    ) -> AddResult {
        let [bridge, port, pod] = links;
        let interface = |link, sandbox| attached::link::interface(link, sandbox, version);
        let mut interfaces = vec![
            interface(bridge, ""),
            interface(port, ""),
            interface(pod, sandbox),
        ];
        interfaces.extend(gateway.map(|gateway| interface(gateway, "")));
        AddResult {
            interfaces,
            ips: self.ips,
            routes: self.routes,
            dns: self.dns,
        }
    }
}

fn valid(route: &cni::Route) -> Result<(), Error> {
    route.validate().map_err(|flaw| {
        let of = format!("the route to {}", route.dst);
        Error::config(format!("ipam.routes[].{flaw}")).details(of)
    })
}

/// Whether an address, network or destination is of IPv6.
pub fn is_ipv6(net: IpNet) -> bool {
    net.addr().is_ipv6()
}

/// What [`is_assignable`] refuses.
const NOT_ASSIGNABLE: &str = "it is unspecified, or of IPv6 and loopback or multicast";

/// Whether an interface other than the loopback can have it (`ipv6_add_addr` of the kernel's
/// net/ipv6/addrconf.c; of IPv4 `__inet_insert_ifa` of net/ipv4/devinet.c drops 0.0.0.0 in silence).
fn is_assignable(ip: IpAddr) -> bool {
    !ip.is_unspecified() && !(ip.is_ipv6() && (ip.is_loopback() || ip.is_multicast()))
}

/// The address after this one; `None` after the last.
fn next(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(v4) => Some(IpAddr::V4(u32::from(v4).checked_add(1)?.into())),
        IpAddr::V6(v6) => Some(IpAddr::V6(u128::from(v6).checked_add(1)?.into())),
    }
}

fn no_gateway(address: IpNet) -> Error {
    Error::config(format!("no gateway can be derived from address {address}")).details(
        "isGateway is true, the IPAM gave no gateway, and no address follows the network's",
    )
}
