//! What others remember of a pod's addresses.

use net::Netlink;

use crate::want::Want;

/// Tells all neighbours the pod's MAC: of an address that was given out again they may remember
/// the one of a pod that is gone, and send to nobody until that ages.
///
/// To be called when the port forwards. The kernel tells them by itself as well, when the pod's
/// link goes up, but the bridge does not pass that on yet. An aid, whose failure is none of ADD's.
pub fn tell(pod: &Netlink, index: u32, want: &Want) {
    if !want.ips.is_empty() {
        let _ = pod.announce(index);
    }
}
