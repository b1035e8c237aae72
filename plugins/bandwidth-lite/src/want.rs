//! What should exist for an attachment: one description, which ADD makes, CHECK compares and both
//! describe in the same words.

use cni::{Attachment, Error};
use net::{Link, Qdisc, Tbf};

use crate::config::Limits;
use crate::identity::Identity;
use crate::tbf;

/// `TC_H_ROOT` and `TC_H_INGRESS` of linux/pkt_sched.h.
const ROOT: u32 = 0xffff_ffff;
const INGRESS: u32 = 0xffff_fff1;
/// `1:`, the handle that every tbf of ours has.
const TBF_HANDLE: u32 = 0x0001_0000;

/// Shaping of one attachment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Want {
    /// The bucket at the root of the host veth: towards the pod.
    pub ingress: Option<Tbf>,
    /// The ifb that what comes from the pod is sent through.
    pub egress: Option<Ifb>,
}

/// An ifb with a bucket at its root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ifb {
    /// Its name and marks.
    pub identity: Identity,
    /// As the host veth's, in bytes.
    pub mtu: u32,
    /// The bucket.
    pub tbf: Tbf,
}

/// What is there, for CHECK.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Qdiscs of the host veth.
    pub host: Vec<Qdisc>,
    /// Links that the host veth's ingress is redirected to.
    pub redirects: Vec<u32>,
    /// MTU of the pod's end of the veth pair, in bytes.
    pub pod_mtu: u32,
    /// The attachment's ifb.
    pub ifb: Option<Link>,
    /// Qdiscs of the ifb.
    pub ifb_qdiscs: Vec<Qdisc>,
}

impl Want {
    /// What the limits want at this host veth, with `ticks` scheduler ticks in a microsecond.
    pub fn new(limits: &Limits, attachment: &Attachment, host: &Link, ticks: f64) -> Want {
        Want {
            ingress: limits
                .ingress
                .map(|limit| tbf::bucket(limit, host.mtu, ticks)),
            egress: limits.egress.map(|limit| Ifb {
                identity: Identity::of(attachment),
                mtu: host.mtu,
                tbf: tbf::bucket(limit, host.mtu, ticks),
            }),
        }
    }

    /// Finds the first difference.
    ///
    /// # Errors
    /// Code 101, saying what is gone or changed.
    pub fn compare(&self, host: &Link, seen: &Seen) -> Result<(), Error> {
        if let Some(tbf) = &self.ingress {
            compare_tbf(&host.name, tbf, &seen.host)?;
        }
        let Some(want) = &self.egress else {
            return Ok(());
        };
        let gone =
            || Error::check("get ifb device: Link not found").details(want.identity.name.clone());
        let ifb = seen.ifb.as_ref().ok_or_else(gone)?;
        let name = &ifb.name;
        let changed = |what: String| Error::check(format!("ifb device {name:?} {what}"));
        if !ifb.up {
            return Err(changed("is down".to_string()));
        }
        if ifb.mtu != want.mtu {
            return Err(changed_mtu(host, ifb, seen.pod_mtu));
        }
        compare_tbf(name, &want.tbf, &seen.ifb_qdiscs)?;
        if !seen.redirects.contains(&ifb.index) {
            let msg = format!("ingress of {:?} is not redirected to {name:?}", host.name);
            return Err(Error::check(msg));
        }
        Ok(())
    }
}

/// The root qdisc, unless it is the kernel's default one, which has no handle.
pub fn root(qdiscs: &[Qdisc]) -> Option<&Qdisc> {
    qdiscs
        .iter()
        .find(|qdisc| qdisc.parent == ROOT && qdisc.handle != 0)
}

/// Whether there is an ingress or clsact qdisc.
pub fn has_ingress(qdiscs: &[Qdisc]) -> bool {
    qdiscs.iter().any(|qdisc| qdisc.parent == INGRESS)
}

/// Whether it is a bucket as this plugin and the reference plugin make it.
pub fn is_our_tbf(qdisc: &Qdisc) -> bool {
    qdisc.kind == "tbf" && qdisc.handle == TBF_HANDLE
}

/// ADD makes the ifb with the host veth's MTU, which then is also that of its other end: where this
/// one and the ifb still agree, it is the host veth's that was changed.
fn changed_mtu(host: &Link, ifb: &Link, pod_mtu: u32) -> Error {
    let (host_name, ifb_name) = (&host.name, &ifb.name);
    let changed = |what: String, has: u32, should: u32, as_is: String| {
        let msg = format!("{what} has MTU {has} and should have {should}, as {as_is}");
        Error::check(msg)
    };
    if ifb.mtu == pod_mtu {
        let others = format!("its other end in the pod and ifb device {ifb_name:?}");
        changed(
            format!("host veth {host_name:?}"),
            host.mtu,
            ifb.mtu,
            others,
        )
    } else {
        let other = format!("host veth {host_name:?}");
        changed(format!("ifb device {ifb_name:?}"), ifb.mtu, host.mtu, other)
    }
}

fn compare_tbf(name: &str, want: &Tbf, qdiscs: &[Qdisc]) -> Result<(), Error> {
    let Some(found) = root(qdiscs).and_then(|qdisc| qdisc.tbf) else {
        return Err(Error::check("Failed to find qdisc").details(format!("tbf on {name:?}")));
    };
    for (what, found, wanted) in [
        ("Rate", found.rate, want.rate),
        ("Limit", found.limit.into(), want.limit.into()),
        ("Buffer", found.buffer.into(), want.buffer.into()),
    ] {
        if found != wanted {
            return Err(
                Error::check(format!("{what} doesn't match")).details(format!(
                    "tbf on {name:?} has {found} and should have {wanted}"
                )),
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
