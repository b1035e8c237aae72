//! STATUS: whether traffic can be shaped here at all.

use cni::{Context, Error, Request};
use net::{Netlink, Netns, Tbf};

use crate::config::Limits;

/// Finds what every ADD with limits would fail for.
///
/// # Errors
/// Code 50 with the reason, or what is wrong with the configuration.
pub fn status(request: &Request) -> Result<(), Error> {
    Limits::read(&request.config)?;
    request.step("try");
    let ticks = net::qdisc::ticks_per_microsecond();
    ticks
        .and_then(|_| try_out())
        .context("traffic cannot be shaped here")
        .map_err(Error::not_available)
}

/// Makes one of each object that ADD makes, in a namespace that nobody else sees and that ends here.
/// That is what ADD does, modules that are not loaded yet included; asking for less would prove less.
fn try_out() -> net::Result<()> {
    const NAME: &str = "ifb";
    let netns = Netns::anonymous()?;
    let node = Netlink::in_netns(&netns)?;
    node.create_ifb(NAME, None, 0, 1500)?;
    let index = |name| {
        node.link(name)
            .map(|link| link.map_or(0, |link| link.index))
    };
    let (ifb, loopback) = (index(NAME)?, index("lo")?);
    let tbf = Tbf {
        rate: 1_000_000,
        limit: 100_000,
        buffer: 100_000,
        burst: None,
    };
    node.add_tbf(ifb, tbf, false)?;
    node.ensure_ingress(loopback)?;
    node.add_redirect(loopback, ifb)
}
