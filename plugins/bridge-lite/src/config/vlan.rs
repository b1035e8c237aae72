//! The keys that put a pod into VLANs.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;

use cni::Error;
use serde::Deserialize;

/// VLAN ids that a port can have: 0 and 4095 are reserved (IEEE 802.1Q).
const IDS: RangeInclusive<i64> = 1..=4094;

/// An item of `vlanTrunk`, as it is written.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(
    test,
    derive(schemars::JsonSchema),
    schemars(extend("allOf" = super::schema::both_ends_or_none()))
)]
#[serde(default)]
pub struct TrunkKeys {
    /// The first of several VLANs, 1 to 4094; needs `maxID`.
    #[cfg_attr(test, schemars(range(min = 1, max = 4094)))]
    #[serde(rename = "minID")]
    min_id: Option<i64>,
    /// The last of several VLANs, `minID` to 4094; needs `minID`.
    #[cfg_attr(test, schemars(range(min = 1, max = 4094)))]
    #[serde(rename = "maxID")]
    max_id: Option<i64>,
    /// One VLAN, 1 to 4094.
    #[cfg_attr(test, schemars(range(min = 1, max = 4094)))]
    id: Option<i64>,
}

/// The VLANs of a pod. That there are any asks for a bridge that filters by VLAN.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Vlans {
    /// Of the pod's untagged frames.
    pub access: Option<u16>,
    /// Of its tagged ones.
    pub trunk: BTreeSet<u16>,
    /// The pod stays in the bridge's default VLAN too.
    pub preserve_default: bool,
}

impl Vlans {
    /// Validates the keys `vlan`, `vlanTrunk` and `preserveDefaultVlan`; `None` where they ask for
    /// nothing. A list that is there but empty asks for a bridge that filters.
    ///
    /// # Errors
    /// Code 7.
    pub fn read(
        vlan: i64,
        trunk: Option<&[TrunkKeys]>,
        preserve_default: bool,
    ) -> Result<Option<Vlans>, Error> {
        let access = match vlan {
            0 => None,
            written => Some(id(written).ok_or_else(|| {
                let msg = format!("invalid VLAN ID {written} (must be between 0 and 4094)");
                Error::config(msg).details(format!(
                    "vlan: {written}; allowed: 0 for none, or 1 to 4094"
                ))
            })?),
        };
        let items = trunk.unwrap_or_default().iter().enumerate();
        let ids: Result<Vec<_>, Error> = items.map(|(at, item)| item.ids(at)).collect();
        let vlans = Vlans {
            access,
            trunk: ids?.into_iter().flatten().collect(),
            preserve_default,
        };
        Ok((access.is_some() || trunk.is_some()).then_some(vlans))
    }
}

/// The key that asks for them, with its value.
impl fmt::Display for Vlans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.access {
            Some(id) => write!(f, "vlan: {id}"),
            None => write!(f, "vlanTrunk: {} VLANs", self.trunk.len()),
        }
    }
}

impl TrunkKeys {
    /// The ids of the item at this place of the list.
    fn ids(&self, at: usize) -> Result<BTreeSet<u16>, Error> {
        let valid = |key: &str, written: i64| {
            id(written).ok_or_else(|| {
                let msg = format!("incorrect trunk {key} parameter");
                Error::config(msg).details(format!(
                    "vlanTrunk[{at}].{key}: {written}; allowed: 1 to 4094"
                ))
            })
        };
        let alone = |missing: &str, key: &str, written: i64| {
            let msg = "minID and maxID should be configured simultaneously";
            Error::config(format!("{msg}, {missing} is missing")).details(format!(
                "vlanTrunk[{at}].{key}: {written}; allowed: both or neither"
            ))
        };
        let mut ids = BTreeSet::new();
        match (self.min_id, self.max_id) {
            (Some(min), Some(max)) => {
                let range = valid("minID", min)?..=valid("maxID", max)?;
                if range.is_empty() {
                    let msg = "minID is greater than maxID in trunk parameter";
                    return Err(Error::config(msg).details(format!(
                        "vlanTrunk[{at}]: minID {min}, maxID {max}; allowed: minID up to maxID"
                    )));
                }
                ids.extend(range);
            }
            (None, Some(max)) => return Err(alone("minID", "maxID", max)),
            (Some(min), None) => return Err(alone("maxID", "minID", min)),
            (None, None) => {}
        }
        if let Some(written) = self.id {
            ids.insert(valid("id", written)?);
        }
        Ok(ids)
    }
}

/// A number as a VLAN id, if it is one.
fn id(written: i64) -> Option<u16> {
    let id = u16::try_from(written).ok();
    id.filter(|_| IDS.contains(&written))
}
