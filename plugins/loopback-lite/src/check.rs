//! CHECK: compares the interface with what ADD made of it.

use cni::{Error, Request, code};

use crate::place::Place;
use crate::want;

/// Finds the first difference.
pub fn check(request: &Request) -> Result<(), Error> {
    let previous = request.config.prev_result()?;
    request.step("look");
    let place = Place::find(request).map_err(|error| match error.code {
        code::SYSTEM => Error {
            code: code::CHECK_FAILED,
            ..error
        },
        _ => error,
    })?;
    request.step("compare");
    if !place.link.up {
        return Err(Error::check("loopback interface is down"));
    }
    let expected = want::expected(previous.as_ref(), place.ipv6);
    match expected.iter().find(|net| !place.addresses.contains(net)) {
        None => Ok(()),
        Some(missing) => Err(Error::check(format!(
            "loopback interface has no address {missing}"
        ))),
    }
}
