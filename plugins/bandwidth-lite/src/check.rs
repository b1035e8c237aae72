//! CHECK: compares what is there with what ADD made.

use cni::{AddResult, Attachment, Context, Error, Request, code};
use net::Link;

use crate::config::Limits;
use crate::place::{self, Place};
use crate::want::{Seen, Want};

/// Finds the first difference.
pub fn check(request: &Request) -> Result<(), Error> {
    let limits = Limits::read(&request.config)?;
    if limits.is_empty() {
        return Ok(());
    }
    let previous = request.config.prev_result()?;
    let previous = previous.ok_or_else(|| Error::config("must be called as a chained plugin"))?;
    request.step("look");
    let place = Place::find(request, &previous).map_err(|error| match error.code {
        code::SYSTEM => Error {
            code: code::CHECK_FAILED,
            ..error
        },
        _ => error,
    })?;
    let ticks = net::qdisc::ticks_per_microsecond().context("failed to read the tick")?;
    let attachment = request.attachment();
    let want = Want::new(&limits, &attachment, &place.host, ticks);
    request.step("compare");
    let seen =
        see(&place, &want, &attachment, &previous).context("failed to look at the qdiscs")?;
    want.compare(&place.host, &seen)?;
    seen.ifb
        .iter()
        .try_for_each(|ifb| compare_told(ifb, &previous))
}

fn see(
    place: &Place,
    want: &Want,
    attachment: &Attachment,
    previous: &AddResult,
) -> net::Result<Seen> {
    let node = &place.node;
    let mut seen = Seen {
        host: node.qdiscs(place.host.index)?,
        pod_mtu: place.pod_mtu,
        ..Seen::default()
    };
    if want.egress.is_some() {
        seen.redirects = node.redirects(place.host.index)?;
        let ifbs = place::ifbs(node, attachment, Some(previous))?;
        seen.ifb = ifbs.into_iter().next();
    }
    if let Some(ifb) = &seen.ifb {
        seen.ifb_qdiscs = node.qdiscs(ifb.index)?;
    }
    Ok(seen)
}

/// The previous result is the last plugin's: the ifb in it is as that one left it.
fn compare_told(ifb: &Link, previous: &AddResult) -> Result<(), Error> {
    let mac = ifb.mac.map(|mac| mac.to_string()).unwrap_or_default();
    let is_told = previous.on_node().any(|interface| {
        interface.name == ifb.name
            && (interface.mac.is_empty() || interface.mac.eq_ignore_ascii_case(&mac))
    });
    if is_told {
        return Ok(());
    }
    Err(Error::check(format!(
        "ifb device {:?} with MAC {mac} is not in the previous result",
        ifb.name
    )))
}
