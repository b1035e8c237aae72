//! The plugin's configuration: the keys as written, and what they mean with every default applied.

#[cfg(test)]
mod schema;
#[cfg(test)]
mod tests;
mod vlan;

use cni::{Dns, Error, Request, Version};
use firewall::Backend;
use net::Mac;
use serde::Deserialize;

pub use self::vlan::Vlans;
use crate::gateway::Gateway;
use crate::names;

/// Bridge where the configuration names none.
const DEFAULT_BRIDGE: &str = "cni0";

/// The keys of `CNI_ARGS` that this plugin understands.
const KNOWN_ARGS: &[&str] = &["MAC"];

/// The keys of a configuration of bridge, as they are written.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(title = "bridge"))]
#[serde(rename_all = "camelCase", default)]
struct Keys {
    /// The bridge: a link's name of up to 15 bytes. It is made where it does not exist, and never
    /// removed.
    #[cfg_attr(
        test,
        schemars(length(max = 15), regex(pattern = r"^[^/:%\s]*$"), extend("default" = DEFAULT_BRIDGE))
    )]
    bridge: String,
    /// The bridge gets the gateway's address, and the node forwards.
    is_gateway: bool,
    /// As `isGateway`, and the pod gets a default route through it, for each family that has none
    /// yet.
    is_default_gateway: bool,
    /// An address of another network on the bridge is replaced, not refused.
    force_address: bool,
    /// What leaves the pod's network gets the node's address; multicast apart.
    ip_masq: bool,
    /// By what that is done: `iptables` or `nftables`. Without it iptables, or nftables where no
    /// iptables is installed.
    #[cfg_attr(test, schemars(extend("enum" = ["", "iptables", "nftables"])))]
    ip_masq_backend: String,
    /// MTU of both ends of the pair, and of the bridge where it is made now, in bytes: 68 to 65535,
    /// with an IPv6 address 1280 or more. 0, or without it: the kernel's 1500.
    #[cfg_attr(test, schemars(extend("anyOf" = [{ "const": 0 }, { "minimum": 68, "maximum": 65535 }])))]
    mtu: i64,
    /// A frame may leave by the port that it came in: a pod reaches itself by its host port or a
    /// service. Not with `promiscMode`.
    hairpin_mode: bool,
    /// The bridge takes every frame; that is never taken back. Not with `hairpinMode`.
    promisc_mode: bool,
    /// The VLAN of the pod's untagged frames, 1 to 4094. 0, or without it: none. It needs a bridge
    /// that filters by VLAN, or that is made now.
    #[cfg_attr(test, schemars(range(min = 0, max = 4094)))]
    vlan: i64,
    /// VLANs of the pod's tagged frames. An empty list makes a bridge that filters by VLAN, and
    /// changes nothing for the pod.
    vlan_trunk: Option<Vec<vlan::TrunkKeys>>,
    /// The pod stays in the bridge's default VLAN, beside those asked for.
    preserve_default_vlan: bool,
    /// The bridge takes in from the pod only frames with the pod's own MAC as their source.
    macspoofchk: bool,
    /// IPv6 duplicate address detection stays on; ADD waits for its end.
    enabledad: bool,
    /// The pod's interface stays down. Only without `ipam.type`.
    disable_container_interface: bool,
    /// Isolated pods of a bridge do not reach each other, only their gateway and what is not
    /// isolated.
    port_isolation: bool,
    /// Replaces the IPAM's resolver settings wholly, where any of its keys is there.
    dns: DnsKeys,
    /// Another way to say what `runtimeConfig` says.
    args: Args,
    /// What the runtime knows of the pod.
    runtime_config: WithMac,
}

/// `dns`: a list that is there, even an empty one, replaces the IPAM's settings.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
struct DnsKeys {
    /// Addresses of the servers, in the order in which they are asked.
    nameservers: Option<Vec<String>>,
    /// The local domain.
    domain: String,
    /// Domains that short names are looked up in.
    search: Option<Vec<String>>,
    /// Options of the resolver, as resolv.conf(5) has them.
    options: Option<Vec<String>>,
}

/// `args`.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
struct Args {
    /// What a runtime hands on from elsewhere.
    cni: WithMac,
}

/// `args.cni` and `runtimeConfig`.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
struct WithMac {
    /// MAC of the pod's interface: a unicast one, as 02:42:ac:11:00:02. `runtimeConfig` wins over
    /// `args`, and that over `MAC` in `CNI_ARGS`. In `runtimeConfig` it is the capability `mac`.
    mac: String,
}

/// The little that DEL needs; a key of the wrong type counts as absent.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DelConfig {
    bridge: String,
    /// ADD may have made masquerade rules.
    pub ip_masq: bool,
    /// ADD may have made a filter.
    #[serde(rename = "macspoofchk")]
    pub mac_spoof_check: bool,
}

impl DelConfig {
    /// Reads what there is; never fails.
    pub fn read(request: &Request) -> DelConfig {
        request.config.read_tolerant()
    }

    /// Name of the bridge.
    pub fn bridge(&self) -> &str {
        bridge_or_default(&self.bridge)
    }
}

/// What ADD and CHECK work by: validated, every default applied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BridgeConfig {
    /// Name of the bridge.
    pub bridge: String,
    /// An IPAM plugin gives addresses; else the attachment is layer 2 only.
    pub layer3: bool,
    /// The bridge gets the gateways' addresses.
    pub is_gateway: bool,
    /// The pod gets a default route by them; implies `is_gateway`.
    pub is_default_gateway: bool,
    /// A conflicting address of the bridge is replaced.
    pub force_address: bool,
    /// Traffic that leaves the pod's network gets the node's address.
    pub ip_masq: bool,
    /// By what; `None` for the node's choice.
    pub masq_backend: Option<Backend>,
    /// Of both ends of the veth pair, and of a bridge made now, in bytes; `None` for the kernel's
    /// default.
    pub mtu: Option<u32>,
    /// A frame may leave by the port it came in.
    pub hairpin: bool,
    /// The bridge is promiscuous.
    pub promiscuous: bool,
    /// No frame passes to another isolated port.
    pub isolated: bool,
    /// IPv6 duplicate address detection stays on.
    pub dad: bool,
    /// No frame leaves the pod whose source is not the pod's MAC.
    pub mac_spoof_check: bool,
    /// VLANs of the pod; `None` where the bridge need not tell any apart.
    pub vlans: Option<Vlans>,
    /// The pod's interface is brought up.
    pub container_up: bool,
    /// MAC that was asked for the pod's interface.
    pub mac: Option<Mac>,
    /// Replaces the IPAM's resolver settings.
    pub dns: Option<Dns>,
}

impl BridgeConfig {
    /// Reads and validates the configuration and `CNI_ARGS`.
    ///
    /// # Errors
    /// Code 6 for a wrong type, 7 for an invalid value, 4 for invalid `CNI_ARGS`.
    pub fn read(request: &Request) -> Result<BridgeConfig, Error> {
        let keys: Keys = request.config.read()?;
        let args_mac = request.env.arg("MAC", KNOWN_ARGS)?.unwrap_or_default();
        let config = BridgeConfig {
            bridge: bridge_name(&keys.bridge)?,
            layer3: !request.config.ipam_type.is_empty(),
            is_gateway: keys.is_gateway || keys.is_default_gateway,
            is_default_gateway: keys.is_default_gateway,
            force_address: keys.force_address,
            ip_masq: keys.ip_masq,
            masq_backend: masq_backend(&keys.ip_masq_backend)?,
            mtu: mtu(keys.mtu)?,
            hairpin: keys.hairpin_mode,
            promiscuous: keys.promisc_mode,
            isolated: keys.port_isolation,
            dad: keys.enabledad,
            mac_spoof_check: keys.macspoofchk,
            vlans: Vlans::read(
                keys.vlan,
                keys.vlan_trunk.as_deref(),
                keys.preserve_default_vlan,
            )?,
            container_up: !keys.disable_container_interface,
            mac: mac(&[
                ("runtimeConfig.mac", &keys.runtime_config.mac),
                ("args.cni.mac", &keys.args.cni.mac),
                ("MAC of CNI_ARGS", &args_mac),
            ])?,
            dns: dns(keys.dns),
        };
        config.consistent(request.config.cni_version)?;
        Ok(config)
    }

    /// By what the pod's traffic is masqueraded; `None` where it is not. Where nobody has chosen the
    /// node is looked at, so a verb asks once.
    pub fn masquerade(&self) -> Option<Backend> {
        let chosen = || self.masq_backend.unwrap_or_else(Backend::of_node);
        (self.ip_masq && self.layer3).then(chosen)
    }

    /// Refuses what is fine key by key and makes no sense together.
    fn consistent(&self, version: Version) -> Result<(), Error> {
        if self.hairpin && self.promiscuous {
            return Err(Error::config(
                "cannot set hairpin mode and promiscuous mode at the same time",
            )
            .details("hairpinMode and promiscMode are both true; at most one may be"));
        }
        if self.layer3 && !self.container_up {
            return Err(Error::config(
                "cannot use IPAM when DisableContainerInterface flag is set",
            )
            .details("disableContainerInterface is true: leave ipam.type empty"));
        }
        if let Some(gateway) = Gateway::of(self) {
            names::of_gateway(&gateway.name)?;
        }
        if !self.layer3 && version < Version::V0_3_0 {
            return Err(
                Error::config("cannot convert: no valid IP addresses").details(format!(
                    "a result of cniVersion {version} needs an address, and ipam.type is empty; \
                 set ipam.type, or cniVersion to 0.3.0 or newer"
                )),
            );
        }
        Ok(())
    }
}

fn bridge_or_default(name: &str) -> &str {
    if name.is_empty() {
        DEFAULT_BRIDGE
    } else {
        name
    }
}

/// The backend that was asked for, if any.
fn masq_backend(name: &str) -> Result<Option<Backend>, Error> {
    if name.is_empty() {
        return Ok(None);
    }
    let found = Backend::parse(name).ok_or_else(|| {
        Error::config(format!("unknown ipmasq backend {name:?}")).details(format!(
            "ipMasqBackend: {name:?}; allowed: \"iptables\", \"nftables\" or absent"
        ))
    })?;
    Ok(Some(found))
}

/// The bridge's name, validated.
fn bridge_name(written: &str) -> Result<String, Error> {
    let name = bridge_or_default(written);
    names::of_bridge(name)?;
    Ok(name.to_owned())
}

/// `mtu` in bytes: 0 stands for the kernel's default, 68 is IPv4's minimum (RFC 791), 65535 the
/// largest that a veth takes.
fn mtu(written: i64) -> Result<Option<u32>, Error> {
    match u32::try_from(written) {
        Ok(0) => Ok(None),
        Ok(mtu @ 68..=65535) => Ok(Some(mtu)),
        _ => Err(Error::config(format!("mtu: {written} is out of range"))
            .details("allowed: 0 for the default, or 68 to 65535 bytes")),
    }
}

/// The first source that names a MAC.
fn mac(sources: &[(&str, &str)]) -> Result<Option<Mac>, Error> {
    let Some((key, text)) = sources.iter().find(|(_, text)| !text.is_empty()) else {
        return Ok(None);
    };
    let invalid = |why: String| {
        Error::config(format!("failed to make veth pair: {why}")).details(format!(
            "{key}: {text:?}; allowed: a unicast Ethernet address, as 02:42:ac:11:00:02"
        ))
    };
    let mac: Mac = text
        .parse()
        .map_err(|error: net::link::InvalidMac| invalid(error.to_string()))?;
    let Mac([first, ..]) = mac;
    if first & 1 == 1 || mac == Mac([0; 6]) {
        return Err(invalid(format!(
            "address {text}: not a unicast MAC address"
        )));
    }
    Ok(Some(mac))
}

fn dns(keys: DnsKeys) -> Option<Dns> {
    let given = keys.nameservers.is_some()
        || keys.search.is_some()
        || keys.options.is_some()
        || !keys.domain.is_empty();
    given.then(|| Dns {
        nameservers: keys.nameservers.unwrap_or_default(),
        domain: keys.domain,
        search: keys.search.unwrap_or_default(),
        options: keys.options.unwrap_or_default(),
    })
}
