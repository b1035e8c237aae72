//! ADD: looks at everything first, then makes the rules.

use attached::{RulesContext, owner};
use cni::{AddResult, Error, Request, Undo};
use firewall::{Family, hostport};

use crate::config::PortmapConfig;
use crate::{localnet, pod, stale};

/// Makes the ports lead to the pod and hands the previous result on.
pub fn add(request: &Request) -> Result<AddResult, Error> {
    let (config, previous) = read(request).map_err(|mut error| {
        error.msg = format!("failed to parse config: {}", error.msg);
        error
    })?;
    let previous = previous.ok_or_else(|| Error::config("must be called as chained plugin"))?;
    if config.mappings.is_empty() {
        return Ok(previous);
    }
    request.step("look");
    // Refuses what is no pod's: its ports need nobody to lead to them.
    attached::netns::open(request)?;
    let addresses = pod::addresses(&previous, &request.env.ifname);
    let ports = config.host_ports(&addresses);
    hostport::preflight(config.backend, &ports).rules_context("cannot map ports")?;

    request.step("rules");
    let attachment = request.attachment();
    let owner = owner(&attachment);
    let mut undo = Undo::new();
    hostport::add(config.backend, owner, &ports).rules_context("unable to setup DNAT")?;
    undo.push(|| drop(hostport::delete(owner, &addresses, true)));
    if config.snat {
        request.step("localnet");
        localnet::enable(&addresses)?;
    }
    undo.commit();

    request.step("conntrack");
    let families = || addresses.iter().map(Family::of);
    stale::remove(
        stale::in_both_families(&config.mappings)
            .filter(|(family, _)| families().any(|there| there == *family)),
    );
    Ok(previous)
}

fn read(request: &Request) -> Result<(PortmapConfig, Option<AddResult>), Error> {
    Ok((PortmapConfig::read(request)?, request.config.prev_result()?))
}
