//! The gateway of a VLAN: a veth of the node, `BRIDGE.VLAN`, whose other end is a port of the bridge
//! in that VLAN alone. The bridge itself is in another one.
//!
//! All pods of the VLAN share it, whatever their network. As the bridge, it is never undone once it
//! is made. Both names follow from bridge and VLAN: of several ADDs that make it at once one
//! succeeds, and what a killed one has left undone the next one does.

#[cfg(test)]
mod tests;

use attached::marks;
use cni::{Context, Error, code};
use net::{Errno, Link, Netlink, Netns, Veth};
use sha2::{Digest, Sha256};

use crate::bridge::random_mac;
use crate::config::{BridgeConfig, Vlans};
use crate::sysctls::Sysctl;
use crate::vlan::{self, Membership};

/// How a VLAN's gateway is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gateway<'a> {
    vlans: &'a Vlans,
    vlan: u16,
    /// The bridge's name.
    bridge: &'a str,
    /// The interface with the gateways' addresses.
    pub name: String,
    /// Its other end, a port of the bridge.
    pub port: String,
}

/// Both ends of a gateway that is there.
#[derive(Debug)]
pub struct Ends {
    /// The interface with the gateways' addresses.
    pub link: Link,
    /// The port of the bridge.
    pub port: Link,
}

/// Name of the link that has the gateways' addresses: a VLAN's gateway, else the bridge.
pub fn holder_name(config: &BridgeConfig) -> String {
    Gateway::of(config).map_or_else(|| config.bridge.clone(), |gateway| gateway.name)
}

/// That link, given the bridge, as far as they are there.
///
/// # Errors
/// Those of [`Gateway::find`].
pub fn holder(
    node: &Netlink,
    config: &BridgeConfig,
    bridge: Option<Link>,
) -> Result<Option<Link>, Error> {
    match Gateway::of(config) {
        Some(gateway) => Ok(gateway.find(node)?.map(|ends| ends.link)),
        None => Ok(bridge),
    }
}

impl<'a> Gateway<'a> {
    /// The one that the configuration asks for: pods in a VLAN, and the node their gateway.
    pub fn of(config: &'a BridgeConfig) -> Option<Gateway<'a>> {
        let vlans = config.vlans.as_ref();
        let vlans = vlans.filter(|_| config.is_gateway && config.layer3)?;
        let vlan = vlans.access?;
        let name = format!("{}.{vlan}", config.bridge);
        // An attachment's text has slashes: no host veth gets this name.
        let port = marks::name("veth", &Sha256::digest(&name));
        Some(Gateway {
            vlans,
            vlan,
            bridge: &config.bridge,
            name,
            port,
        })
    }

    /// Finds it.
    ///
    /// # Errors
    /// One of its names is another link's.
    pub fn find(&self, node: &Netlink) -> Result<Option<Ends>, Error> {
        let look = |name: &str| {
            let link = node.link(name);
            link.context(format!("failed to look for {name:?}"))
        };
        // First: where another ADD makes both meanwhile, the port alone would seem to be there.
        let port_there = look(&self.port)?.is_some();
        let Some(link) = look(&self.name)? else {
            return match port_there {
                true => Err(self.taken(&self.port, "it is no end of the gateway's veth pair")),
                false => Ok(None),
            };
        };
        let port = match link.peer.filter(|_| !link.peer_elsewhere) {
            Some(peer) => node.link_by_index(peer),
            None => Ok(None),
        };
        let port = port.context(format!(
            "failed to look for the other end of {:?}",
            self.name
        ))?;
        let ends = port.filter(|_| link.kind == "veth");
        let Some(port) = ends else {
            let why = format!(
                "it is a link of kind {:?}, not a veth pair of the node",
                link.kind
            );
            return Err(self.taken(&self.name, &why));
        };
        let ends = Ends { link, port };
        // Last: another ADD may have made bridge and gateway meanwhile.
        let bridge = look(self.bridge)?;
        match self.misused(&ends, bridge.as_ref()) {
            Some(why) => Err(self.taken(&self.name, &why)),
            None => Ok(Some(ends)),
        }
    }

    /// What a veth pair is used for instead, if it is. A port that has lost its bridge is fine.
    fn misused(&self, ends: &Ends, bridge: Option<&Link>) -> Option<String> {
        let (bridge, port) = (bridge.map(|bridge| bridge.index), &ends.port);
        if ends.link.master.is_some() {
            return Some("it is a port of a bridge itself".to_owned());
        }
        let elsewhere = port.master.is_some() && port.master != bridge;
        elsewhere.then(|| format!("its other end is no port of {:?}", self.bridge))
    }

    fn taken(&self, name: &str, why: &str) -> Error {
        let msg = format!(
            "failed to create vlan gateway {:?}: {name:?} already exists and is not its",
            self.name
        );
        Error::new(code::ALREADY_EXISTS, msg).details(format!(
            "vlan: {} of bridge {:?}; {why}; allowed: no such link, or isGateway: false",
            self.vlan, self.bridge
        ))
    }

    /// What the port behind it should be a member of.
    fn membership(&self, bridge: &Link) -> Membership {
        self.vlans.of_gateway(self.vlan, vlan::default_of(bridge))
    }

    /// Makes what is missing of it; without duplicate detection unless `dad`.
    ///
    /// # Errors
    /// The kernel's, or those of [`Gateway::find`].
    pub fn ensure(&self, node: &Netlink, bridge: &Link, dad: bool) -> Result<Link, Error> {
        let failed = format!("failed to create vlan gateway {:?}", self.name);
        let Ends { link, port } = match self.find(node)? {
            Some(ends) => ends,
            None => self.create(node, bridge)?,
        };
        if port.master.is_none() {
            node.set_master(port.index, bridge.index).context(&failed)?;
        }
        if port.alias.is_empty() {
            let alias = format!("port of {}", self.name);
            node.set_alias(port.index, &alias).context(&failed)?;
        }
        self.membership(bridge).set(node, &port)?;
        if !port.up {
            node.set_up(port.index).context(&failed)?;
        }
        if !link.up {
            // Nothing can come in before.
            if !dad {
                Sysctl::accept_dad(&self.name, false).set()?;
            }
            node.set_up(link.index).context(&failed)?;
        }
        Ok(link)
    }

    /// Makes the pair; another ADD may be quicker, which is as good.
    fn create(&self, node: &Netlink, bridge: &Link) -> Result<Ends, Error> {
        let failed = format!("failed to create vlan gateway {:?}", self.name);
        let made = node.create_veth(&Veth {
            name: &self.port,
            mac: Some(random_mac()),
            group: 0,
            mtu: Some(bridge.mtu),
            master: Some(bridge.index),
            peer_name: &self.name,
            peer_mac: Some(random_mac()),
            peer_netns: &Netns::current().context(&failed)?,
        });
        match made {
            Err(error) if !error.is(Errno::EEXIST) => return Err(error).context(failed),
            _ => {}
        }
        let made = self.find(node)?;
        made.ok_or_else(|| Error::system(format!("{failed}: it vanished")))
    }

    /// Compares it with what is there, for CHECK; the interface with the addresses.
    ///
    /// # Errors
    /// It is not as [`Gateway::ensure`] makes it.
    pub fn check(&self, node: &Netlink, bridge: &Link) -> Result<Link, Error> {
        let found = self.find(node).map_err(|error| Error {
            code: code::CHECK_FAILED,
            ..error
        })?;
        let gone = || Error::check(format!("vlan gateway {} was not found", self.name));
        let Ends { link, port } = found.ok_or_else(gone)?;
        if port.master.is_none() {
            let msg = format!(
                "{}, behind {}, is no port of {}",
                port.name, self.name, self.bridge
            );
            return Err(Error::check(msg));
        }
        if let Some(down) = [&link, &port].into_iter().find(|link| !link.up) {
            return Err(Error::check(format!("interface {} is down", down.name)));
        }
        let membership = self.membership(bridge);
        membership
            .tolerant(port.alias.is_empty())
            .check(node, &port)?;
        Ok(link)
    }
}
