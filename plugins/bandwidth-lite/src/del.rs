//! DEL: cleans by the attachment alone, and looks at no value of the configuration.

use cni::{Context, Error, Request};
use net::{Link, Netlink};

use crate::config::Limits;
use crate::{GONE, place, want};

/// Unshapes the attachment's traffic.
///
/// What is on the host veth goes with that, which in a chain comes next. It is removed here only
/// where the veth can be found and either the configuration speaks of limits or an ifb was there.
pub fn del(request: &Request) -> Result<(), Error> {
    let failed = format!("ifb of {} may still be there", request.attachment());
    request.step("look");
    let node = Netlink::current().context(&failed)?;
    let previous = request.config.prev_result_tolerant();
    let ifbs = place::ifbs(&node, &request.attachment(), previous.as_ref()).context(&failed)?;
    if ifbs.is_empty() && !Limits::mentioned(&request.config) {
        return Ok(());
    }
    let host = place::host_if_there(request, &node, previous.as_ref())
        .ok()
        .flatten();
    request.step("remove");
    let mut errors = Vec::new();
    if let Some(host) = &host {
        // Before the ifb: without it, the redirect would drop what the pod sends.
        let removed = unshape(&node, host, &ifbs);
        errors.extend(
            removed
                .context(format!("qdiscs of {:?} may still be there", host.name))
                .err(),
        );
    }
    for ifb in &ifbs {
        let deleted = node.delete_link(ifb.index);
        errors.extend(
            deleted
                .context(format!("ifb {:?} is still there", ifb.name))
                .err(),
        );
    }
    Error::all(errors)
}

/// Takes from the host veth what ADD put there; qdiscs and filters of others stay.
pub fn unshape(node: &Netlink, host: &Link, ifbs: &[Link]) -> net::Result<()> {
    for target in ifbs.iter().map(|ifb| ifb.index).chain([GONE]) {
        node.delete_redirect(host.index, target)?;
    }
    if !node.has_ingress_filters(host.index)? {
        node.delete_ingress(host.index)?;
    }
    let qdiscs = node.qdiscs(host.index)?;
    if want::root(&qdiscs).is_some_and(want::is_our_tbf) {
        node.delete_root_qdisc(host.index)?;
    }
    Ok(())
}
