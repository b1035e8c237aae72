//! The VLANs of a pod's port, and whether its bridge tells VLANs apart.
//!
//! A bridge that does not filter by VLAN takes VLANs for its ports and ignores them: the pod would be
//! on another network than was asked for. It is refused and not changed, since filtering may cut off
//! who sends tagged frames through it already.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use cni::{Context, Error, code};
use net::{Bridge, Errno, Link, Netlink, Netns, Vlan};

use crate::config::{BridgeConfig, Vlans};

/// Of untagged frames, where only tagged ones were asked for: what the kernel gives a port.
const UNTAGGED: u16 = 1;

/// What a port of a bridge should be a member of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Membership {
    /// By ascending id.
    pub of: Vec<Vlan>,
    /// The VLAN that the port comes with and should not keep.
    pub not: Option<u16>,
}

impl Vlans {
    /// Of a pod's port, where ports come with VLAN `default` (0 for none). The VLAN of untagged
    /// frames is that also where `trunk` names it too.
    pub fn of_pod(&self, default: u16) -> Membership {
        if self.access.is_none() && self.trunk.is_empty() {
            return Membership::default();
        }
        let mut of: BTreeMap<u16, Vlan> = BTreeMap::new();
        of.extend(self.trunk.iter().map(|id| (*id, Vlan::tagged(*id))));
        let untagged = self.access.unwrap_or(UNTAGGED);
        of.insert(untagged, Vlan::native(untagged));
        if self.preserve_default && default != 0 {
            // It has the flag from the kernel; the PVID went to the other.
            of.entry(default).or_insert(Vlan {
                pvid: false,
                ..Vlan::native(default)
            });
        }
        let surplus = default != 0 && !of.contains_key(&default);
        Membership {
            of: of.into_values().collect(),
            not: surplus.then_some(default),
        }
    }

    /// Of the port behind a VLAN's gateway: that VLAN alone. Where a pod keeps the default VLAN the
    /// gateway may have it, but need not: pods with and without it share the gateway.
    pub fn of_gateway(&self, vlan: u16, default: u16) -> Membership {
        let surplus = default != 0 && default != vlan && !self.preserve_default;
        Membership {
            of: vec![Vlan::native(vlan)],
            not: surplus.then_some(default),
        }
    }
}

impl Membership {
    /// Makes the port such a member.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set(&self, node: &Netlink, port: &Link) -> Result<(), Error> {
        let not: Vec<u16> = self.not.into_iter().collect();
        let added = node.add_vlans(port.index, &self.of);
        let set = added.and_then(|()| node.delete_vlans(port.index, &not));
        set.context(format!("failed to set the VLANs of {:?}", port.name))
    }

    /// The same of a port that a reference plugin made: before its version 1.8 it kept the default
    /// VLAN.
    #[must_use]
    pub fn tolerant(self, by_reference: bool) -> Membership {
        let not = self.not.filter(|_| !by_reference);
        Membership { not, ..self }
    }

    /// Compares it with what the port is, for CHECK. VLANs that others have added are no difference.
    ///
    /// # Errors
    /// The port is no such member.
    pub fn check(&self, node: &Netlink, port: &Link) -> Result<(), Error> {
        if *self == Membership::default() {
            return Ok(());
        }
        let is = node.vlans(port.index);
        let is = is.context(format!("failed to list the VLANs of {:?}", port.name))?;
        self.compare(&port.name, &is)
    }

    fn compare(&self, port: &str, is: &[Vlan]) -> Result<(), Error> {
        for wanted in &self.of {
            let id = wanted.id;
            match is.iter().find(|vlan| vlan.id == id) {
                None => {
                    let msg = format!("port {port} is not in VLAN {id}");
                    return Err(Error::check(msg));
                }
                Some(other) if other != wanted => {
                    let (is, wanted) = (flags(other), flags(wanted));
                    let msg = format!("port {port} is in VLAN {id} {is}, not {wanted}");
                    return Err(Error::check(msg));
                }
                Some(_) => {}
            }
        }
        match self.not {
            Some(id) if is.iter().any(|vlan| vlan.id == id) => Err(Error::check(format!(
                "port {port} is in VLAN {id}, the bridge's default, which ADD has taken it out of"
            ))),
            _ => Ok(()),
        }
    }
}

/// In the words of the tool `bridge`.
fn flags(vlan: &Vlan) -> &'static str {
    match (vlan.pvid, vlan.untagged) {
        (true, true) => "pvid untagged",
        (true, false) => "pvid",
        (false, true) => "untagged",
        (false, false) => "tagged",
    }
}

/// The VLAN that ports of the bridge come with; 0 for none.
pub fn default_of(bridge: &Link) -> u16 {
    bridge.vlans.map_or(0, |vlans| vlans.default_pvid)
}

/// Sees that the bridge filters by VLAN where VLANs are asked for, or can be made so where it is not
/// there yet: the kernel may not be able to.
///
/// # Errors
/// It does not, or cannot.
pub fn can_filter(config: &BridgeConfig, bridge: Option<&Link>) -> Result<(), Error> {
    match (&config.vlans, bridge) {
        (None, _) => Ok(()),
        (Some(_), Some(bridge)) => filters(config, bridge),
        (Some(vlans), None) => match try_out() {
            Err(error) if error.is(Errno::EOPNOTSUPP) => Err(kernel_cannot(vlans)),
            // What else went wrong concerns the attempt alone.
            _ => Ok(()),
        },
    }
}

/// Makes a bridge that filters, in a namespace that nobody else sees and that ends here.
fn try_out() -> net::Result<()> {
    Netlink::in_netns(&Netns::anonymous()?)?.create_bridge(&Bridge {
        name: "bridge",
        mac: None,
        mtu: None,
        vlan_filtering: true,
    })
}

/// Sees that the bridge filters by VLAN where VLANs are asked for.
///
/// # Errors
/// It does not.
pub fn filters(config: &BridgeConfig, bridge: &Link) -> Result<(), Error> {
    let name = &bridge.name;
    match (&config.vlans, bridge.vlans) {
        (None, _) => Ok(()),
        (Some(_), Some(filtering)) if filtering.on => Ok(()),
        (Some(vlans), None) => Err(kernel_cannot(vlans)),
        (Some(vlans), Some(_)) => Err(Error::new(
            code::ALREADY_EXISTS,
            format!("{vlans}: bridge {name:?} does not filter by VLAN"),
        )
        .details(format!(
            "all its ports would be on one network; allowed: a bridge that is not there yet, or \
             one that filters, as after `ip link set {name} type bridge vlan_filtering 1`"
        ))),
    }
}

/// This kernel has no VLANs of bridges.
fn kernel_cannot(vlans: &Vlans) -> Error {
    Error::system(format!("{vlans}: this kernel cannot filter by VLAN")).details(
        "it was built without CONFIG_BRIDGE_VLAN_FILTERING; allowed on it: neither vlan nor \
         vlanTrunk",
    )
}
