//! STATUS: whether ports could be made to lead anywhere.

use cni::{Context, Error, Request};
use firewall::{Family, hostport};

use crate::config::PortmapConfig;

/// Finds what every ADD with ports would fail for.
///
/// # Errors
/// Code 50 with the reason, or what is wrong with the configuration.
pub fn status(request: &Request) -> Result<(), Error> {
    let config = PortmapConfig::read(request)?;
    request.step("look");
    let usable = |any| hostport::preflight(config.backend, &config.host_ports(&[any]));
    Family::any(usable)
        .context("cannot map ports")
        .map_err(Error::not_available)
}
