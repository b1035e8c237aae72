//! DEL: cleans by the attachment alone, whatever else is missing or wrong.

use attached::{RulesContext, owner};
use cni::{Error, Request};
use firewall::hostport;

use crate::config::told_mappings;
use crate::{pod, stale};

/// Removes the rules, then the flows that they had made. The ports come from the rules themselves,
/// and from the request in case that somebody else has removed the rules.
pub fn del(request: &Request) -> Result<(), Error> {
    let attachment = request.attachment();
    let told = told_mappings(request);
    let previous = request.config.prev_result_tolerant();
    let addresses = previous.map_or_else(Vec::new, |previous| {
        pod::addresses(&previous, &request.env.ifname)
    });
    request.step("rules");
    let found = hostport::delete(owner(&attachment), &addresses, !told.is_empty()).rules_context(
        format!("host port rules of {attachment} may still be there"),
    )?;
    request.step("conntrack");
    stale::remove(found.into_iter().chain(stale::in_both_families(&told)));
    Ok(())
}
