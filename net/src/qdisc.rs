//! Queueing disciplines and filters: tbf, ingress, and a redirect to another link.

use crate::{Netlink, Result};

/// A token bucket as the kernel holds it (`struct tc_tbf_qopt` of linux/pkt_sched.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tbf {
    /// In bytes per second; above 2^32-1 it travels as `TCA_TBF_RATE64`.
    pub rate: u64,
    /// Queue, in bytes.
    pub limit: u32,
    /// Size of the bucket, in psched ticks at `rate`.
    pub buffer: u32,
}

/// A qdisc of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Qdisc {
    /// `tbf`, `ingress`, `clsact`, `noqueue`, …
    pub kind: String,
    /// Major and minor as `tc` prints `1:` = 0x10000.
    pub handle: u32,
    /// `TC_H_ROOT` 0xffffffff, `TC_H_INGRESS` 0xfffffff1, or a class.
    pub parent: u32,
    /// Its parameters, where it is a tbf.
    pub tbf: Option<Tbf>,
}

/// Scheduler ticks per microsecond (/proc/net/psched).
///
/// # Errors
/// The file cannot be read or understood.
pub fn ticks_per_microsecond() -> Result<f64> {
    todo!()
}

impl Netlink {
    /// Equivalent to `tc qdisc show dev INDEX`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn qdiscs(&self, index: u32) -> Result<Vec<Qdisc>> {
        let _ = index;
        todo!()
    }

    /// Equivalent to `tc qdisc add dev INDEX root handle 1: tbf rate … burst … limit …`; with
    /// `replace`, as `tc qdisc replace`.
    ///
    /// # Errors
    /// The kernel's; EEXIST where a root qdisc was made before and `replace` is false.
    pub fn add_tbf(&self, index: u32, tbf: Tbf, replace: bool) -> Result<()> {
        let _ = (index, tbf, replace);
        todo!()
    }

    /// Equivalent to `tc qdisc add dev INDEX handle ffff: ingress`; an ingress or clsact qdisc
    /// that is there already serves as well.
    ///
    /// # Errors
    /// The kernel's.
    pub fn ensure_ingress(&self, index: u32) -> Result<()> {
        let _ = index;
        todo!()
    }

    /// Sends all that comes in by one link out by another. Equivalent to `tc filter add dev INDEX
    /// parent ffff: protocol all pref 1 u32 match u32 0 0 flowid 1:1 action mirred egress redirect
    /// dev TARGET`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn add_redirect(&self, index: u32, target: u32) -> Result<()> {
        let _ = (index, target);
        todo!()
    }

    /// Indexes of the links that filters on the link's ingress redirect to.
    ///
    /// # Errors
    /// The kernel's.
    pub fn redirects(&self, index: u32) -> Result<Vec<u32>> {
        let _ = index;
        todo!()
    }

    /// Equivalent to `tc qdisc del dev INDEX root`; that there is none is no error.
    ///
    /// # Errors
    /// The kernel's.
    pub fn delete_root_qdisc(&self, index: u32) -> Result<()> {
        let _ = index;
        todo!()
    }

    /// Equivalent to `tc qdisc del dev INDEX ingress`; that there is none is no error.
    ///
    /// # Errors
    /// The kernel's.
    pub fn delete_ingress(&self, index: u32) -> Result<()> {
        let _ = index;
        todo!()
    }

    /// Removes the filters on the link's ingress that redirect to `target`, and no other.
    ///
    /// # Errors
    /// The kernel's.
    pub fn delete_redirect(&self, index: u32, target: u32) -> Result<()> {
        let _ = (index, target);
        todo!()
    }
}
