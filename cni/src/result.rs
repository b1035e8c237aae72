//! The result of ADD in every version's shape (specification, section "ADD Success").

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::Value;

use crate::{Error, Version};

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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its hardware address, or empty.
    pub mac: String,
    /// In bytes (1.1.0).
    pub mtu: Option<u32>,
    /// The pod's namespace (`CNI_NETNS`), or empty for an interface of the node.
    pub sandbox: String,
    /// 1.1.0, handed on.
    pub socket_path: String,
    /// 1.1.0, handed on.
    pub pci_id: String,
}

/// One address of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IpConfig {
    /// With the prefix of its network; host bits kept.
    pub address: IpNet,
    /// The default gateway of its network.
    pub gateway: Option<IpAddr>,
    /// Index into `interfaces`.
    pub interface: Option<i64>,
}

/// One route of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Destination.
    pub dst: IpNet,
    /// Next hop; `None` means the gateway of the family, if any.
    pub gw: Option<IpAddr>,
    /// In bytes (1.1.0).
    pub mtu: Option<u32>,
    /// Maximal segment size to advertise, in bytes (1.1.0).
    pub advmss: Option<u32>,
    /// Metric, lower wins (1.1.0).
    pub priority: Option<u32>,
    /// Routing table (1.1.0).
    pub table: Option<u32>,
    /// `rt_scope_t` of linux/rtnetlink.h (1.1.0).
    pub scope: Option<u8>,
}

/// Resolver settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dns {
    /// Servers' addresses.
    pub nameservers: Vec<String>,
    /// Local domain.
    pub domain: String,
    /// Search list.
    pub search: Vec<String>,
    /// Resolver options.
    pub options: Vec<String>,
}

impl AddResult {
    /// The result in the shape of `version`.
    ///
    /// # Errors
    /// Code 7 where the version cannot say it: 0.1.0 and 0.2.0 need an address.
    pub fn to_json(&self, version: Version) -> Result<Value, Error> {
        let _ = version;
        todo!()
    }

    /// Reads a result in the shape of its own `cniVersion`, or of `version` where it names none.
    ///
    /// # Errors
    /// Code 6 where it does not have that shape or is of another family of versions.
    pub fn from_json(value: &Value, version: Version) -> Result<AddResult, Error> {
        let _ = (value, version);
        todo!()
    }
}
