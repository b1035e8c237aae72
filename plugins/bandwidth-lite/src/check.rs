//! CHECK: compares what is there with what ADD made.

use cni::{AddResult, Context, Error, Request, code};
use net::Link;

use crate::config::Limits;
use crate::place::{Place, told};
use crate::want::{Seen, Want};

/// Finds the first difference.
pub fn check(request: &Request) -> Result<(), Error> {
    let limits = Limits::read(&request.config)?;
    if limits.is_empty() {
        return Ok(());
    }
    let previous = request.config.prev_result()?;
    let previous = previous.ok_or_else(|| Error::config("must be called as a chained plugin"))?;
    let place = Place::find(request, &previous).map_err(|error| match error.code {
        code::SYSTEM => Error {
            code: code::CHECK_FAILED,
            ..error
        },
        _ => error,
    })?;
    let ticks = net::qdisc::ticks_per_microsecond().context("failed to read the tick")?;
    let want = Want::new(&limits, &request.attachment(), &place.host, ticks);
    let seen = see(&place, &want).context("failed to look at the qdiscs")?;
    want.compare(&place.host, &seen)?;
    seen.ifb
        .iter()
        .try_for_each(|ifb| compare_told(ifb, &previous))
}

fn see(place: &Place, want: &Want) -> net::Result<Seen> {
    let node = &place.node;
    let mut seen = Seen {
        host: node.qdiscs(place.host.index)?,
        ..Seen::default()
    };
    if let Some(egress) = &want.egress {
        seen.redirects = node.redirects(place.host.index)?;
        seen.ifb = node.link(&egress.identity.name)?;
    }
    if let Some(ifb) = &seen.ifb {
        seen.ifb_qdiscs = node.qdiscs(ifb.index)?;
    }
    Ok(seen)
}

/// The previous result is the last plugin's: the ifb in it is as that one left it.
fn compare_told(ifb: &Link, previous: &AddResult) -> Result<(), Error> {
    let mac = ifb.mac.map(|mac| mac.to_string()).unwrap_or_default();
    let same = told(previous, |interface| {
        interface.name == ifb.name
            && (interface.mac.is_empty() || interface.mac.eq_ignore_ascii_case(&mac))
    });
    if same {
        return Ok(());
    }
    Err(Error::check(format!(
        "ifb device {:?} with MAC {mac} is not in the previous result",
        ifb.name
    )))
}
