//! GC: removes what attachments that are no more have left, and looks at no value of the
//! configuration.

use attached::{RulesContext, owner};
use cni::{Error, Request};
use firewall::{Owner, hostport};

use crate::stale;

/// Removes the rules of the network that are of no valid attachment, then the flows that they had
/// made, also where some of the rules could not be removed.
pub fn gc(request: &Request) -> Result<(), Error> {
    let valid = request.valid_attachments()?;
    let owners: Vec<Owner> = valid.iter().map(owner).collect();
    request.step("rules");
    let network = &request.config.name;
    let (found, done) = hostport::gc(network, &owners);
    request.step("conntrack");
    stale::remove(found);
    done.rules_context(format!("host port rules of network {network}"))
}
