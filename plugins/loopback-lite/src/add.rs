//! ADD: looks, then brings the interface up.

use cni::{AddResult, Context, Error, Request, Undo};
use ipnet::IpNet;

use crate::place::Place;
use crate::want;

/// Brings the pod's loopback up with its addresses. In a chain, hands the previous result on.
pub fn add(request: &Request) -> Result<AddResult, Error> {
    let previous = request.config.prev_result()?;
    request.step("look");
    let place = Place::find(request)?;
    want::expect_loopback(&place.addresses)?;
    request.step("up");
    let addresses = want::addresses(place.ipv6);
    bring_up(&place, &addresses)?;
    Ok(previous.unwrap_or_else(|| {
        let mac = place.link.mac.map(|mac| mac.to_string());
        want::result(mac.unwrap_or_default(), &request.env.sandbox(), &addresses)
    }))
}

/// Coming up, it gets its addresses from the kernel; where it was up without them, from here.
fn bring_up(place: &Place, addresses: &[IpNet]) -> Result<(), Error> {
    let (pod, link) = (&place.pod, &place.link);
    let failed = format!("failed to bring up {:?}", link.name);
    let mut undo = Undo::new();
    if !link.up {
        pod.set_up(link.index).context(&failed)?;
        undo.push(|| drop(pod.set_down(link.index)));
    }
    let found = pod.addresses(link.index).context(&failed)?;
    for address in addresses {
        if found.iter().all(|found| found.net != *address) {
            pod.add_address(link.index, *address, true)
                .context(&failed)?;
            undo.push(|| drop(pod.delete_address(link.index, *address)));
        }
    }
    undo.commit();
    Ok(())
}
