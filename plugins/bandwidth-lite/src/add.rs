//! ADD: look, then change; undo in reverse.

use attached::link;
use cni::{AddResult, Context, Error, Request, Undo, code};
use net::{Link, Netlink};

use crate::GONE;
use crate::config::Limits;
use crate::identity::Identity;
use crate::place::Place;
use crate::want::{self, Ifb, Want};

/// Shapes the attachment's traffic.
pub fn add(request: &Request) -> Result<AddResult, Error> {
    let limits = Limits::read(&request.config)?;
    let previous = request.config.prev_result()?;
    if limits.is_empty() {
        return Ok(previous.unwrap_or_default());
    }
    let mut result = previous.ok_or_else(|| Error::config("must be called as chained plugin"))?;
    request.step("look");
    let place = Place::find(request, &result)?;
    let ticks = net::qdisc::ticks_per_microsecond().context("failed to read the tick")?;
    let attachment = request.attachment();
    let want = Want::new(&limits, &attachment, &place.host, ticks);
    let found = look(&place, &want, &Identity::of(&attachment))?;

    if let Some(stale) = &found.stale {
        request.step("stale");
        clear(&place, stale)?;
    }
    let mut undo = Undo::new();
    if let Some(ifb) = &want.egress {
        request.step("egress");
        let made = shape_egress(&place, ifb, &mut undo)?;
        let version = request.config.cni_version;
        result.interfaces.push(link::interface(&made, "", version));
    }
    if let Some(tbf) = want.ingress {
        request.step("ingress");
        // Last, since what it replaces could not be put back.
        if !found.has_root {
            undo.push(|| take_back(|node| delete_tbf(node, &place.host)));
        }
        let added = place.node.add_tbf(place.host.index, tbf, true);
        added.context(format!("create qdisc on {:?}", place.host.name))?;
    }
    undo.commit();
    Ok(result)
}

/// What an earlier ADD of the same attachment left.
struct Found {
    /// Its ifb.
    stale: Option<Link>,
    /// Whether the host veth has a root qdisc, of this plugin's kind.
    has_root: bool,
}

/// Sees that nothing is in the way.
fn look(place: &Place, want: &Want, identity: &Identity) -> Result<Found, Error> {
    let name = &identity.name;
    let ifb = place.node.link(name);
    let ifb = ifb.context(format!("failed to look for {name:?}"))?;
    if ifb.as_ref().is_some_and(|link| !identity.owns(link)) {
        let msg = format!("adding link: {name:?} already exists and is not ours");
        return Err(Error::new(code::ALREADY_EXISTS, msg));
    }
    let mut has_root = false;
    if want.ingress.is_some() {
        let host = &place.host.name;
        let qdiscs = place.node.qdiscs(place.host.index);
        let qdiscs = qdiscs.context(format!("failed to list qdiscs of {host:?}"))?;
        let root = want::root(&qdiscs);
        if let Some(root) = root.filter(|root| !want::is_our_tbf(root)) {
            return Err(
                Error::new(code::ALREADY_EXISTS, "create qdisc: file exists")
                    .details(format!("{host:?} has a root qdisc of kind {:?}", root.kind)),
            );
        }
        has_root = root.is_some();
    }
    Ok(Found {
        stale: ifb,
        has_root,
    })
}

/// Removes a stale ifb, and first what is redirected to it: that would be lost.
fn clear(place: &Place, stale: &Link) -> Result<(), Error> {
    let failed = format!("failed to delete stale {:?}", stale.name);
    let redirect = place.node.delete_redirect(place.host.index, stale.index);
    redirect.context(&failed)?;
    place.node.delete_link(stale.index).context(&failed)?;
    Ok(())
}

fn shape_egress<'u>(place: &'u Place, want: &Ifb, undo: &mut Undo<'u>) -> Result<Link, Error> {
    let node = &place.node;
    let identity = &want.identity;
    let marks = &identity.marks;
    // Before it is made, as each step here: the kernel may have done it although its answer was lost.
    let own = identity.clone();
    undo.push(move || {
        take_back(|node| match node.link(&own.name)? {
            Some(link) if own.owns(&link) => node.delete_link(link.index).map(drop),
            _ => Ok(()),
        });
    });
    let made = node.create_ifb(&identity.name, Some(marks.mac), marks.group, want.mtu);
    made.context(format!("adding link {:?}", identity.name))?;
    let ifb = link::expect(node, &identity.name)?;
    let alias = node.set_alias(ifb.index, &marks.alias);
    alias.context(format!("failed to set the alias of {:?}", ifb.name))?;
    let tbf = node.add_tbf(ifb.index, want.tbf, false);
    tbf.context(format!("create ifb qdisc on {:?}", ifb.name))?;
    redirect(place, &ifb, undo)?;
    Ok(ifb)
}

/// Sends what comes from the pod through the ifb.
fn redirect<'u>(place: &'u Place, ifb: &Link, undo: &mut Undo<'u>) -> Result<(), Error> {
    let (node, host) = (&place.node, &place.host);
    let failed = format!("failed to redirect ingress of {:?}", host.name);
    let before = node.qdiscs(host.index).context(&failed)?;
    if !want::has_ingress(&before) {
        undo.push(move || take_back(|node| node.delete_ingress(host.index)));
    }
    node.ensure_ingress(host.index).context(&failed)?;
    // A filter whose target is gone comes first, and drops all.
    node.delete_redirect(host.index, GONE).context(&failed)?;
    let index = ifb.index;
    undo.push(move || take_back(|node| node.delete_redirect(host.index, index)));
    node.add_redirect(host.index, index).context(&failed)?;
    Ok(())
}

fn delete_tbf(node: &Netlink, host: &Link) -> net::Result<()> {
    let qdiscs = node.qdiscs(host.index)?;
    match want::root(&qdiscs).is_some_and(want::is_our_tbf) {
        true => node.delete_root_qdisc(host.index),
        false => Ok(()),
    }
}

/// Undoes one change, by a socket of its own: the one in use may be what failed. That this fails as
/// well is not worth another error; DEL comes for what is left.
fn take_back(step: impl FnOnce(&Netlink) -> net::Result<()>) {
    drop(Netlink::current().and_then(|node| step(&node)));
}
