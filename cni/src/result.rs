//! The result of ADD in every version's shape (specification, section "ADD Success").

#[cfg(test)]
mod properties;
mod route;
mod shape;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Error, Version, code, json};
pub use route::RouteFlaw;

/// What ADD made. Kept in the newest version's shape; printed in the one that was asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddResult {
    /// Interfaces made or used, on the node and in the pod.
    pub interfaces: Vec<Interface>,
    /// Addresses given.
    pub ips: Vec<IpConfig>,
    /// Routes made in the pod.
    pub routes: Vec<Route>,
    /// Resolver settings.
    pub dns: Dns,
}

/// One interface of a result.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its hardware address, or empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mac: String,
    /// In bytes (1.1.0).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// The pod's namespace (`CNI_NETNS`), or empty for an interface of the node.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub sandbox: String,
    /// 1.1.0, handed on.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub socket_path: String,
    /// 1.1.0, handed on.
    #[serde(rename = "pciID", skip_serializing_if = "String::is_empty")]
    pub pci_id: String,
}

/// One address of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IpConfig {
    /// With the prefix of its network; host bits kept.
    pub address: IpNet,
    /// The default gateway of its network.
    pub gateway: Option<IpAddr>,
    /// Index into `interfaces`; whatever a result says, so it may point at none.
    pub interface: Option<i64>,
}

/// One route of a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Route {
    /// Destination: a network, as 10.9.0.0/16.
    #[cfg_attr(test, schemars(with = "String"))]
    pub dst: IpNet,
    /// Next hop: an address. Without it, the gateway of the family, if there is any.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    #[serde(
        default,
        deserialize_with = "shape::optional_address",
        skip_serializing_if = "Option::is_none"
    )]
    pub gw: Option<IpAddr>,
    /// MTU of packets that go there, in bytes: 68 (IPv6: 1280) to 65520. 0, or without it: the
    /// link's (1.1.0).
    #[cfg_attr(test, schemars(extend("anyOf" = [{ "const": 0 }, { "minimum": 68, "maximum": 65520 }])))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Largest TCP segment to advertise, in bytes: 1 to 65495. 0, or without it: the kernel's
    /// choice (1.1.0).
    #[cfg_attr(test, schemars(range(max = 65495)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advmss: Option<u32>,
    /// Metric, as `metric` of `ip route`: of two routes to the same destination the lower one wins.
    /// 0, or without it: the kernel's default (1.1.0).
    #[cfg_attr(test, schemars(range(max = u32::MAX)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
    /// Routing table, as `table` of `ip route`. 0, or without it: the main one, 254 (1.1.0).
    #[cfg_attr(test, schemars(range(max = u32::MAX)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<u32>,
    /// Scope, as `scope` of `ip route` (`rt_scope_t` of linux/rtnetlink.h): from 253, `link`, on an
    /// IPv4 route has no gateway. 0, or without it: the kernel's default (1.1.0).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<u8>,
}

/// Resolver settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Dns {
    /// Addresses of the servers, in the order in which they are asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nameservers: Vec<String>,
    /// The local domain.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub domain: String,
    /// Domains that short names are looked up in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub search: Vec<String>,
    /// Options of the resolver, as resolv.conf(5) has them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}

impl AddResult {
    /// The result in the shape of `version`.
    ///
    /// # Errors
    /// Code 7 where the version cannot say it: 0.1.0 and 0.2.0 need an address.
    pub fn to_json(&self, version: Version) -> Result<Value, Error> {
        shape::write(self, version)
    }

    /// Reads a result in the shape of its own `cniVersion`, or of `version` where it names none.
    ///
    /// # Errors
    /// Code 6 where it does not have that shape, or names a version that we do not know.
    pub fn from_json(value: &Value, version: Version) -> Result<AddResult, Error> {
        shape::read(value, version, Version::ALL)
    }

    /// As [`AddResult::from_json`], from what a plugin printed.
    ///
    /// # Errors
    /// Code 6, also for what is not JSON.
    pub(crate) fn from_bytes(printed: &[u8], version: Version) -> Result<AddResult, Error> {
        let value = json::parse(printed).map_err(|error| {
            let printed = String::from_utf8_lossy(printed);
            Error::new(
                code::DECODING_FAILURE,
                format!("cannot read the plugin's result: {error}"),
            )
            .details(format!("it printed {printed:?}"))
        })?;
        Self::from_json(&value, version)
    }

    /// As [`AddResult::from_json`], where only the versions of `version`'s own shape will do, as
    /// for `prevResult`.
    ///
    /// # Errors
    /// Code 6, also for a result of another family of versions.
    pub fn from_json_of_family(value: &Value, version: Version) -> Result<AddResult, Error> {
        shape::read(value, version, version.family())
    }

    /// The interface that an address is on; `None` where its index is missing or points at none.
    pub fn interface_of(&self, ip: &IpConfig) -> Option<&Interface> {
        self.interfaces.get(usize::try_from(ip.interface?).ok()?)
    }

    /// The addresses of the pod's interface `ifname`: those that are not said to be on another one.
    pub fn ips_of(&self, ifname: &str) -> impl Iterator<Item = &IpConfig> {
        let there = move |i: &Interface| i.name == ifname && !i.sandbox.is_empty();
        let ips = self.ips.iter();
        ips.filter(move |ip| self.interface_of(ip).is_none_or(there))
    }

    /// The interfaces of the node.
    pub fn on_node(&self) -> impl Iterator<Item = &Interface> {
        self.interfaces.iter().filter(|i| i.sandbox.is_empty())
    }
}
