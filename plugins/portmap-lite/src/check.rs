//! CHECK: whether all that ADD made is there.

use attached::{RulesContext, owner};
use cni::{Error, Request};
use firewall::hostport;

use crate::config::PortmapConfig;
use crate::{localnet, pod};

/// Compares rules and sysctl with what ADD makes of the same request.
pub fn check(request: &Request) -> Result<(), Error> {
    let config = PortmapConfig::read(request)?;
    let previous = request.config.prev_result()?;
    let previous = previous.ok_or_else(|| Error::config("Required prevResult missing"))?;
    if config.mappings.is_empty() {
        return Ok(());
    }
    request.step("rules");
    let addresses = pod::addresses(&previous, &request.env.ifname);
    let attachment = request.attachment();
    let ports = config.host_ports(&addresses);
    let checked = hostport::check(config.backend, owner(&attachment), &ports);
    match checked {
        Err(missing @ firewall::Error::Missing(_)) => {
            return Err(Error::check(format!("could not check dnat: {missing}")));
        }
        other => other.rules_context("could not check dnat")?,
    }
    if config.snat {
        request.step("localnet");
        localnet::check(&addresses)?;
    }
    Ok(())
}
