//! The shapes of a result as it is printed: one of 0.1.0 and 0.2.0, one of everything later.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::{AddResult, Dns, Interface, IpConfig, Route};
use crate::{Error, Version, code, json};

/// From 0.3.0 on.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    #[serde(skip_deserializing)]
    cni_version: &'static str,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    interfaces: Vec<Interface>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ips: Vec<Ip>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    routes: Vec<Route>,
    #[serde(default)]
    dns: Dns,
}

#[derive(Serialize, Deserialize)]
struct Ip {
    /// Up to 0.4.0.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    version: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interface: Option<i64>,
    address: IpNet,
    #[serde(
        default,
        deserialize_with = "optional_address",
        skip_serializing_if = "Option::is_none"
    )]
    gateway: Option<IpAddr>,
}

/// 0.1.0 and 0.2.0.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Paired {
    #[serde(skip_deserializing)]
    cni_version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ip4: Option<OnlyIp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ip6: Option<OnlyIp>,
    #[serde(default)]
    dns: Dns,
}

#[derive(Serialize, Deserialize)]
struct OnlyIp {
    ip: IpNet,
    #[serde(
        default,
        deserialize_with = "optional_address",
        skip_serializing_if = "Option::is_none"
    )]
    gateway: Option<IpAddr>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    routes: Vec<Route>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct OwnVersion {
    cni_version: String,
}

/// An address, where the empty text means none, as other programs print an unset one.
pub(super) fn optional_address<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<IpAddr>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?.unwrap_or_default();
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

fn is_paired(version: Version) -> bool {
    version < Version::V0_3_0
}

pub(super) fn write(result: &AddResult, version: Version) -> Result<Value, Error> {
    let value = if is_paired(version) {
        serde_json::to_value(Paired::from_result(result, version)?)
    } else {
        serde_json::to_value(Listed::from_result(result, version))
    };
    value.map_err(|error| Error::new(code::INTERNAL, format!("cannot print the result: {error}")))
}

pub(super) fn read(
    value: &Value,
    version: Version,
    allowed: &[Version],
) -> Result<AddResult, Error> {
    let undecodable = |msg: String| Error::new(code::DECODING_FAILURE, msg);
    let mismatch = |mismatch: json::Mismatch| undecodable(mismatch.to_string());
    let own = json::read::<OwnVersion>(value)
        .map_err(mismatch)?
        .cni_version;
    let version = if own.is_empty() {
        version
    } else {
        Version::parse(&own)
            .filter(|own| allowed.contains(own))
            .ok_or_else(|| {
                let allowed: Vec<_> = allowed.iter().map(|v| v.as_str()).collect();
                let allowed = allowed.join(" ");
                undecodable(format!(
                    "result type supports [{allowed}] but unmarshalled CNIVersion is {own:?}"
                ))
            })?
    };
    if is_paired(version) {
        json::read(value).map(Paired::into_result)
    } else {
        json::read(value).map(Listed::into_result)
    }
    .map_err(mismatch)
}

impl Listed {
    fn from_result(result: &AddResult, version: Version) -> Self {
        let is_1 = version >= Version::V1_0_0;
        let interfaces = result.interfaces.iter().cloned();
        Self {
            cni_version: version.as_str(),
            interfaces: if is_1 {
                interfaces.collect()
            } else {
                interfaces.map(as_of_0_3).collect()
            },
            ips: result
                .ips
                .iter()
                .map(|ip| Ip {
                    version: (!is_1).then(|| if is_v4(&ip.address) { "4" } else { "6" }),
                    interface: ip.interface,
                    address: ip.address,
                    gateway: ip.gateway,
                })
                .collect(),
            routes: result.routes.clone(),
            dns: result.dns.clone(),
        }
    }

    fn into_result(self) -> AddResult {
        AddResult {
            interfaces: self.interfaces,
            ips: self
                .ips
                .into_iter()
                .map(|ip| IpConfig {
                    address: ip.address,
                    gateway: ip.gateway,
                    interface: ip.interface,
                })
                .collect(),
            routes: self.routes,
            dns: self.dns,
        }
    }
}

impl Paired {
    fn from_result(result: &AddResult, version: Version) -> Result<Self, Error> {
        let first = |v4: bool| {
            let ip = result.ips.iter().find(|ip| is_v4(&ip.address) == v4)?;
            Some(OnlyIp {
                ip: ip.address,
                gateway: ip.gateway,
                routes: result
                    .routes
                    .iter()
                    .filter(|route| is_v4(&route.dst) == v4)
                    .map(|route| plain_route(route.dst, route.gw))
                    .collect(),
            })
        };
        let (ip4, ip6) = (first(true), first(false));
        if ip4.is_none() && ip6.is_none() {
            return Err(Error::config("cannot convert: no valid IP addresses")
                .details(format!("a result of cniVersion {version} needs one")));
        }
        Ok(Self {
            cni_version: version.as_str(),
            ip4,
            ip6,
            dns: result.dns.clone(),
        })
    }

    fn into_result(self) -> AddResult {
        let mut result = AddResult {
            dns: self.dns,
            ..AddResult::default()
        };
        for only in [self.ip4, self.ip6].into_iter().flatten() {
            result.ips.push(IpConfig {
                address: only.ip,
                gateway: only.gateway,
                interface: None,
            });
            let routes = only.routes.into_iter();
            result
                .routes
                .extend(routes.map(|r| plain_route(r.dst, r.gw)));
        }
        result
    }
}

fn is_v4(net: &IpNet) -> bool {
    matches!(net, IpNet::V4(_))
}

/// What an interface was before 1.0.0.
fn as_of_0_3(interface: Interface) -> Interface {
    Interface {
        name: interface.name,
        mac: interface.mac,
        sandbox: interface.sandbox,
        ..Interface::default()
    }
}

/// What a route was before 0.3.0.
fn plain_route(dst: IpNet, gw: Option<IpAddr>) -> Route {
    Route {
        dst,
        gw,
        mtu: None,
        advmss: None,
        priority: None,
        table: None,
        scope: None,
    }
}
