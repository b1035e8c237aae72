//! Values of the cluster file, each checked as it is read.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::Deserialize;

use crate::{names, range, taints};

/// A range without bits beyond its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(try_from = "String")]
pub struct Range(#[cfg_attr(test, schemars(with = "String"))] pub IpNet);

impl TryFrom<String> for Range {
    type Error = String;

    fn try_from(text: String) -> Result<Range, String> {
        range::parse(&text).map(Range)
    }
}

/// An address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(try_from = "String")]
pub struct Address(#[cfg_attr(test, schemars(with = "String"))] pub IpAddr);

impl TryFrom<String> for Address {
    type Error = String;

    fn try_from(text: String) -> Result<Address, String> {
        let address = text.parse().map(Address);
        address.map_err(|_| format!("{text:?} is neither an IPv4 nor an IPv6 address"))
    }
}

/// The name of an interface.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(try_from = "String")]
pub struct Device(pub String);

impl TryFrom<String> for Device {
    type Error = String;

    fn try_from(text: String) -> Result<Device, String> {
        names::check_device(&text).map(|()| Device(text))
    }
}

/// The name of a pod network (specification, section "Configuration format").
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(try_from = "String")]
pub struct NetworkName(pub String);

impl TryFrom<String> for NetworkName {
    type Error = String;

    fn try_from(text: String) -> Result<NetworkName, String> {
        if cni::is_identifier(&text) {
            return Ok(NetworkName(text));
        }
        Err(format!(
            "{text:?} is no network's name: expected a letter or digit, then letters, digits, `_`, \
             `.` and `-`"
        ))
    }
}

/// The name of a cloud's network.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(try_from = "String")]
pub struct CloudName(pub String);

impl TryFrom<String> for CloudName {
    type Error = String;

    fn try_from(text: String) -> Result<CloudName, String> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_./:".contains(c);
        let begins = text.starts_with(|c: char| c.is_ascii_alphanumeric());
        if begins && text.chars().all(allowed) {
            return Ok(CloudName(text));
        }
        Err(format!(
            "{text:?} is no cloud network's name: expected letters, digits, `-`, `_`, `.`, `/` and `:`"
        ))
    }
}

/// The name of a node.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(try_from = "String")]
pub struct NodeName(pub String);

impl TryFrom<String> for NodeName {
    type Error = String;

    fn try_from(text: String) -> Result<NodeName, String> {
        names::check_node(&text).map(|()| NodeName(text))
    }
}

/// The key of a taint.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(try_from = "String")]
pub struct TaintKey(pub String);

impl TryFrom<String> for TaintKey {
    type Error = String;

    fn try_from(text: String) -> Result<TaintKey, String> {
        names::check_taint(&text)?;
        taints::check_own(&text)?;
        Ok(TaintKey(text))
    }
}
