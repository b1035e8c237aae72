//! The plugin's configuration: the keys as written, and what they mean with every default applied.

#[cfg(test)]
mod schema;
#[cfg(test)]
mod tests;

use std::fmt::Display;
use std::net::IpAddr;

use cni::{Error, Request};
use firewall::hostport::{self, HostPorts, Mapping, Mark, Protocol};
use firewall::{Backend, Family};
use ipnet::IpNet;
use serde::Deserialize;

/// Bit of the packet mark where the configuration names none.
const DEFAULT_MARK_BIT: u8 = 13;
/// Keys that errors name.
const CONDITIONS_V4: &str = "conditionsV4";
const CONDITIONS_V6: &str = "conditionsV6";
/// The kernel's `XT_EXTENSION_MAXNAMELEN` (linux/netfilter/x_tables.h) without the final zero.
const MAX_CHAIN_LEN: usize = 28;

/// The keys of a configuration of portmap, as they are written.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(title = "portmap"))]
#[serde(rename_all = "camelCase", default)]
struct Keys {
    /// By what rules are made: `iptables` or `nftables`. Without it iptables, or nftables where no
    /// iptables is installed.
    #[cfg_attr(test, schemars(extend("enum" = ["", "iptables", "nftables"])))]
    backend: String,
    /// Connections from the pod itself, from its network and from 127.0.0.1 get the node's address,
    /// without which no answer finds its way back.
    #[cfg_attr(test, schemars(extend("default" = true)))]
    snat: Option<bool>,
    /// With `snat`: connections from anywhere get the node's address.
    masq_all: bool,
    /// The bit of the packet mark, 0 to 31, by which such connections are marked. Not with
    /// `externalSetMarkChain`.
    #[cfg_attr(test, schemars(range(min = 0, max = 31), extend("default" = 13)))]
    mark_masq_bit: Option<i64>,
    /// A chain of iptables' table `nat` of another program that marks such connections, and
    /// masquerades them: up to 28 characters, not a built-in one. Only with the backend `iptables`.
    #[cfg_attr(test, schemars(length(max = 28)))]
    external_set_mark_chain: String,
    /// What else must be true of a connection to an IPv4 address: words of iptables, or of `nft`
    /// with the backend `nftables`.
    conditions_v4: Vec<String>,
    /// As `conditionsV4`, for IPv6.
    conditions_v6: Vec<String>,
    /// What the runtime knows of the pod.
    runtime_config: RuntimeConfig,
}

/// `runtimeConfig`, what the runtime knows of the pod.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
struct RuntimeConfig {
    /// The pod's ports: the capability `portMappings`.
    port_mappings: Vec<PortKeys>,
}

/// One of `portMappings`.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(
    test,
    derive(schemars::JsonSchema),
    schemars(extend("required" = ["hostPort", "containerPort"]))
)]
#[serde(rename_all = "camelCase", default)]
struct PortKeys {
    /// The node's port, 1 to 65535.
    #[cfg_attr(test, schemars(range(min = 1, max = 65535)))]
    host_port: i64,
    /// The pod's port, 1 to 65535.
    #[cfg_attr(test, schemars(range(min = 1, max = 65535)))]
    container_port: i64,
    /// `tcp`, `udp` or `sctp`, in any case. Without it, tcp.
    #[cfg_attr(
        test,
        schemars(regex(pattern = "^([Tt][Cc][Pp]|[Uu][Dd][Pp]|[Ss][Cc][Tt][Pp])?$"))
    )]
    protocol: String,
    /// The node's address that answers; `0.0.0.0` and `::` are any of their family. Without it, any.
    #[serde(rename = "hostIP")]
    host_ip: String,
}

/// What ADD and CHECK work by: validated, every default applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortmapConfig {
    /// By what the rules are made.
    pub backend: Backend,
    /// The ports; empty where the pod has none.
    pub mappings: Vec<Mapping>,
    /// Connections whose answers would not find their way back get the node's address.
    pub snat: bool,
    masq_all: bool,
    mark: MarkKey,
    conditions_v4: Vec<String>,
    conditions_v6: Vec<String>,
}

/// [`Mark`] with its text.
#[derive(Debug, Clone, PartialEq, Eq)]
enum MarkKey {
    Bit(u8),
    Chain(String),
}

impl PortmapConfig {
    /// Reads and validates the configuration.
    ///
    /// # Errors
    /// Code 6 for a wrong type, 7 for an invalid value.
    pub fn read(request: &Request) -> Result<PortmapConfig, Error> {
        PortmapConfig::from_keys(request.config.read()?, Backend::of_node)
    }

    fn from_keys(keys: Keys, of_node: impl Fn() -> Backend) -> Result<PortmapConfig, Error> {
        let backend = match backend(&keys.backend)? {
            Some(backend) => backend,
            None => of_node(),
        };
        for_backend(backend, &keys)?;
        conditions(backend, Family::V4, CONDITIONS_V4, &keys.conditions_v4)?;
        conditions(backend, Family::V6, CONDITIONS_V6, &keys.conditions_v6)?;
        Ok(PortmapConfig {
            backend,
            mark: mark(keys.mark_masq_bit, keys.external_set_mark_chain)?,
            mappings: keys
                .runtime_config
                .port_mappings
                .iter()
                .enumerate()
                .map(|(index, port)| mapping(index, port))
                .collect::<Result<_, _>>()?,
            snat: keys.snat.unwrap_or(true),
            masq_all: keys.masq_all,
            conditions_v4: keys.conditions_v4,
            conditions_v6: keys.conditions_v6,
        })
    }

    /// The conditions of a family, with their key.
    pub fn conditions(&self, family: Family) -> (&'static str, &[String]) {
        match family {
            Family::V4 => (CONDITIONS_V4, &self.conditions_v4),
            Family::V6 => (CONDITIONS_V6, &self.conditions_v6),
        }
    }

    /// The host ports of a pod with these addresses.
    pub fn host_ports<'a>(&'a self, addresses: &'a [IpNet]) -> HostPorts<'a> {
        HostPorts {
            mappings: &self.mappings,
            addresses,
            snat: self.snat,
            masq_all: self.masq_all,
            mark: match &self.mark {
                MarkKey::Bit(bit) => Mark::Bit(*bit),
                MarkKey::Chain(chain) => Mark::Chain(chain),
            },
            conditions_v4: &self.conditions_v4,
            conditions_v6: &self.conditions_v6,
        }
    }
}

/// The ports that DEL is told of. Those that are not valid, ADD has never made.
pub fn told_mappings(request: &Request) -> Vec<Mapping> {
    let keys: Keys = request.config.read_tolerant();
    let ports = keys.runtime_config.port_mappings;
    ports
        .iter()
        .filter_map(|port| mapping(0, port).ok())
        .collect()
}

/// The backend that was asked for, if any.
fn backend(name: &str) -> Result<Option<Backend>, Error> {
    if name.is_empty() {
        return Ok(None);
    }
    let found = Backend::parse(name).ok_or_else(|| {
        invalid(
            format!("unrecognized backend {name:?}"),
            "backend",
            "\"iptables\" or \"nftables\"",
        )
    })?;
    Ok(Some(found))
}

/// Refuses what only the other backend understands: a chain of iptables, or conditions in the
/// other's words. Those of iptables begin with an option or a negation.
fn for_backend(backend: Backend, keys: &Keys) -> Result<(), Error> {
    let of = |words: &[String]| {
        let first = words.first()?;
        let iptables = first.starts_with(['-', '!']);
        Some(if iptables {
            Backend::Iptables
        } else {
            Backend::Nftables
        })
    };
    let chain = &keys.external_set_mark_chain;
    let foreign: Vec<_> = [
        (
            "externalSetMarkChain",
            (!chain.is_empty()).then_some(Backend::Iptables),
        ),
        (CONDITIONS_V4, of(&keys.conditions_v4)),
        (CONDITIONS_V6, of(&keys.conditions_v6)),
    ]
    .into_iter()
    .filter(|(_, needed)| needed.is_some_and(|needed| needed != backend))
    .map(|(key, _)| key)
    .collect();
    if foreign.is_empty() {
        return Ok(());
    }
    let other = match backend {
        Backend::Iptables => Backend::Nftables,
        Backend::Nftables => Backend::Iptables,
    };
    Err(Error::config(format!(
        "{backend} backend was requested but configuration contains {other}-specific options [{}]",
        foreign.join(" ")
    )))
}

/// The built-in chains of the table `nat`.
const BUILT_IN: [&str; 4] = ["PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"];

fn mark(bit: Option<i64>, chain: String) -> Result<MarkKey, Error> {
    if chain.is_empty() {
        let bit = bit.map_or(Ok(DEFAULT_MARK_BIT), u8::try_from);
        return match bit {
            Ok(bit @ 0..=31) => Ok(MarkKey::Bit(bit)),
            _ => Err(Error::config("MasqMarkBit must be between 0 and 31")
                .details("the key is markMasqBit")),
        };
    }
    if bit.is_some() {
        return Err(Error::config(
            "Cannot specify externalSetMarkChain and markMasqBit",
        ));
    }
    // It becomes a word of a rule.
    let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\'' | '\\');
    if chain.len() > MAX_CHAIN_LEN || !chain.chars().all(plain) || chain.starts_with(['-', '!']) {
        return Err(invalid(
            format!("Invalid chain name: {chain:?}"),
            "externalSetMarkChain",
            "the name of a chain, at most 28 characters",
        ));
    }
    // What leads to a built-in chain is refused by every iptables.
    if BUILT_IN.contains(&chain.as_str()) {
        return Err(invalid(
            format!("Invalid chain name: {chain:?}"),
            "externalSetMarkChain",
            "no built-in chain",
        ));
    }
    Ok(MarkKey::Chain(chain))
}

fn conditions(backend: Backend, family: Family, key: &str, words: &[String]) -> Result<(), Error> {
    if let Some(word) = words.iter().find(|word| word.contains(char::is_control)) {
        return Err(invalid(
            format!("Invalid condition: {word:?}"),
            key,
            &format!("words of {backend}, without control characters"),
        ));
    }
    hostport::check_conditions(backend, family, words)
        .map_err(|error| Error::config(format!("Invalid condition: {key}: {error}")))
}

fn mapping(index: usize, port: &PortKeys) -> Result<Mapping, Error> {
    let key = |name: &str| format!("runtimeConfig.portMappings[{index}].{name}");
    let number = |kind: &str, name: &str, number: i64| match u16::try_from(number) {
        Ok(port @ 1..) => Ok(port),
        _ => Err(invalid(
            format!("Invalid {kind} port number: {number}"),
            key(name),
            "1 to 65535",
        )),
    };
    let container_port = number("container", "containerPort", port.container_port)?;
    let host_port = number("host", "hostPort", port.host_port)?;
    let protocol = match port.protocol.as_str() {
        "" => Protocol::Tcp,
        name => Protocol::parse(name).ok_or_else(|| {
            invalid(
                format!("Invalid protocol: {name:?}"),
                key("protocol"),
                "tcp, udp or sctp",
            )
        })?,
    };
    let host_ip = match port.host_ip.as_str() {
        "" => None,
        text => Some(
            text.parse()
                .map(|ip: IpAddr| ip.to_canonical())
                .map_err(|_| {
                    invalid(
                        format!("Invalid host IP: {text:?}"),
                        key("hostIP"),
                        "an IPv4 or IPv6 address",
                    )
                })?,
        ),
    };
    Ok(Mapping {
        host_port,
        container_port,
        protocol,
        host_ip,
    })
}

/// Code 7: what is wrong, in the reference plugin's words where it has some, and what is allowed.
fn invalid(what: impl Display, key: impl Display, allowed: &str) -> Error {
    Error::config(format!("{what} ({key} must be {allowed})"))
}
