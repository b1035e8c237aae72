//! ADD: looks at everything first, then makes the rules.

use attached::{RulesContext, owner};
use cni::{AddResult, Error, Request, Undo};
use firewall::{Adding, Family, hostport};

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
    let begun = hostport::begin(config.backend, owner, &ports);
    // Programs work on the rules meanwhile.
    request.step("localnet");
    let localnet = match config.snat && begun.is_ok() {
        true => localnet::enable(&addresses),
        false => Ok(()),
    };
    request.step("rules");
    let added = begun.and_then(Adding::finish);
    if added.as_ref().is_err_and(firewall::Error::may_have_changed) {
        drop(hostport::delete(owner, &addresses, true));
    }
    let wrong = added
        .as_ref()
        .err()
        .and_then(|error| wrong_words(&config, error));
    let added = added.rules_context("unable to setup DNAT");
    added.map_err(|error| match wrong {
        Some(details) => Error::config(error.msg).details(details),
        None => error,
    })?;
    undo.push(|| drop(hostport::delete(owner, &addresses, true)));
    localnet?;
    undo.commit();

    request.step("conntrack");
    let families = || addresses.iter().map(Family::of);
    stale::remove(
        stale::in_both_families(&config.mappings)
            .filter(|(family, _)| families().any(|there| there == *family)),
    );
    Ok(previous)
}

/// The conditions that iptables did not understand, if that is why it refused: only it knows its words.
fn wrong_words(config: &PortmapConfig, error: &firewall::Error) -> Option<String> {
    let (key, words) = config.conditions(error.of_parameters()?);
    (!words.is_empty())
        .then(|| format!("{key}: {words:?}; allowed: conditions of an iptables rule"))
}

fn read(request: &Request) -> Result<(PortmapConfig, Option<AddResult>), Error> {
    Ok((PortmapConfig::read(request)?, request.config.prev_result()?))
}
