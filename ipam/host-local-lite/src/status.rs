//! STATUS: whether an ADD would get its addresses.

use std::collections::HashSet;
use std::net::IpAddr;
use std::path::Path;

use cni::{Error, Request};

use crate::allocate::NoAddress;
use crate::config::{Settings, store_path};
use crate::range::RangeSet;
use crate::resolv;
use crate::store::{self, Store};

/// Finds what ADD would fail for.
///
/// # Errors
/// Code 50 with the reason, or what is wrong with the configuration.
pub fn status(request: &Request) -> Result<(), Error> {
    let settings = Settings::read(request)?;
    request.step("look");
    let path = store_path(&request.config);
    look(&settings, &path).map_err(Error::not_available)
}

fn look(settings: &Settings, path: &Path) -> Result<(), Error> {
    if let Some(file) = &settings.resolv_conf {
        resolv::read(file)?;
    }
    store::check_writable(path)?;
    let Some(store) = Store::open(path)? else {
        return Ok(());
    };
    let held = store.names()?;
    for (index, set) in settings.sets.iter().enumerate() {
        let reason = full(set, &held);
        // Only then it is worth reading files: some may name nobody.
        let reclaimable = || held.iter().any(|ip| set.gives(*ip) && store.is_free(*ip));
        if let Some(reason) = reason.filter(|_| !reclaimable()) {
            let exhausted = NoAddress::Exhausted(set.clone()).in_set(index);
            return Err(exhausted.details(format!(
                "{} is used up: {reason} in {}",
                settings.origin(index),
                path.display()
            )));
        }
    }
    Ok(())
}

/// How many addresses of a set are held, where that is all of them.
fn full(set: &RangeSet, held: &HashSet<IpAddr>) -> Option<String> {
    let (count, capacity) = (
        held.iter().filter(|ip| set.gives(**ip)).count(),
        set.capacity(),
    );
    (count as u128 >= capacity).then(|| format!("{count} of {capacity} addresses are held"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range::Range;

    #[test]
    fn a_set_is_full_when_all_but_its_gateway_are_held() {
        let range = Range::new("10.1.0.0/29".parse().unwrap(), None, None, None).unwrap();
        let set = RangeSet::new(vec![range]).unwrap();
        let held = |last: u8| -> HashSet<IpAddr> {
            (0..=last)
                .map(|last| IpAddr::from([10, 1, 0, last]))
                .collect()
        };
        assert_eq!(full(&set, &held(5)), None);
        let expected = Some("5 of 5 addresses are held".to_string());
        assert_eq!(full(&set, &held(6)), expected);
        assert_eq!(full(&set, &held(7)), expected);
        assert_eq!(full(&set, &HashSet::new()), None);
    }
}
