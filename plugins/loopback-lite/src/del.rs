//! DEL: takes the interface down, and looks at nothing but the namespace.

use attached::netns;
use cni::{Context, Error, Request};

use crate::NAME;

/// Takes the pod's loopback down, where there still is one.
pub fn del(request: &Request) -> Result<(), Error> {
    request.step("look");
    let Some(pod) = netns::socket_if_there(request) else {
        return Ok(());
    };
    let failed = format!("{NAME:?} of {} may still be up", request.attachment());
    let link = pod.link(NAME).context(&failed)?;
    request.step("down");
    match link.filter(|link| link.up) {
        Some(link) => pod.set_down(link.index).context(&failed),
        None => Ok(()),
    }
}
