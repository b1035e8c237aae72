//! The verbs.

use std::net::IpAddr;
use std::time::Duration;

use cni::{AddResult, Attachment, Dns, Error, IpConfig, Plugin, Request};

use crate::allocate::{self, Known, Lease, NoAddress};
use crate::config::{Settings, store_path};
use crate::range::RangeSet;
use crate::store::{Held, Locked, Store, Taken};
use crate::{gc, resolv, status};

/// How long another process may hold the store's lock before we give up.
pub const LOCK_DEADLINE: Duration = Duration::from_secs(30);

/// The plugin.
#[derive(Debug)]
pub struct HostLocal;

impl Plugin for HostLocal {
    const NAME: &'static str = "host-local";

    fn add(&self, request: &Request) -> Result<AddResult, Error> {
        let settings = Settings::read(request)?;
        let dns = match &settings.resolv_conf {
            Some(path) => resolv::read(path)?,
            None => Dns::default(),
        };
        let leases = reserve(request, &settings)?;
        Ok(AddResult {
            ips: leases.iter().map(ip_config).collect(),
            routes: settings.routes,
            dns,
            ..AddResult::default()
        })
    }

    fn del(&self, request: &Request) -> Result<(), Error> {
        let attachment = request.attachment();
        let Some(store) = Store::open(&store_path(&request.config))? else {
            return Ok(());
        };
        request.step("lock");
        match store.lock(LOCK_DEADLINE) {
            Ok(Some(mut locked)) => {
                request.step("release");
                let (held, _) = locked.look(&attachment)?;
                locked.release_all(&attachment, &held)
            }
            Ok(None) => Ok(()),
            // Where nothing of the attachment is there, there is nothing to lock for.
            Err(_)
                if store
                    .reservations(&attachment)?
                    .held
                    .to_release()
                    .is_empty() =>
            {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Takes no lock: files of this attachment are changed by nobody else, and they are whole.
    fn check(&self, request: &Request) -> Result<(), Error> {
        let settings = Settings::read(request)?;
        let attachment = request.attachment();
        let missing = || {
            Error::check(format!(
                "host-local: Failed to find address added by container {}",
                attachment.container_id
            ))
        };
        request.step("look");
        let store = Store::open(&store_path(&request.config))?.ok_or_else(missing)?;
        let previous = request.config.prev_result()?.unwrap_or_default();
        let ips: Vec<IpAddr> = previous.ips.iter().map(|ip| ip.address.addr()).collect();
        let given = |ip: &&IpAddr| settings.sets.iter().any(|set| set.contains(**ip));
        for ip in ips.iter().filter(given) {
            if !store.holds(&attachment, *ip) {
                return Err(missing().details(format!("{ip}: {}", store.describe(*ip))));
            }
        }
        let covered = |ips: &[IpAddr]| {
            let mut sets = settings.sets.iter();
            sets.all(|set| ips.iter().any(|ip| set.contains(*ip)))
        };
        // Only what the previous result does not say is worth reading every file for.
        if covered(&ips) {
            return Ok(());
        }
        let held: Vec<IpAddr> = store.reservations(&attachment)?.held.ips().collect();
        if covered(&held) {
            Ok(())
        } else {
            Err(missing())
        }
    }

    fn gc(&self, request: &Request) -> Result<(), Error> {
        gc::gc(request)
    }

    fn status(&self, request: &Request) -> Result<(), Error> {
        status::status(request)
    }
}

/// Chooses one address from every set and reserves them, or none.
fn reserve(request: &Request, settings: &Settings) -> Result<Vec<Lease>, Error> {
    let attachment = request.attachment();
    let path = store_path(&request.config);
    loop {
        request.step("lock");
        let store = Store::create(&path)?;
        // Without a lock the folder was deleted since: make it anew.
        if let Some(mut locked) = store.lock(LOCK_DEADLINE)? {
            request.step("choose");
            let (held, leases) = choose(settings, &attachment, &store, &mut locked)?;
            let ips: Vec<IpAddr> = leases.iter().map(|lease| lease.address.addr()).collect();
            request.step("reserve");
            locked.reserve_all(&attachment, &held, &ips)?;
            return Ok(leases);
        }
    }
}

fn choose(
    settings: &Settings,
    attachment: &Attachment,
    store: &Store,
    locked: &mut Locked,
) -> Result<(Held, Vec<Lease>), Error> {
    let (mut held, mut taken) = locked.look(attachment)?;
    let mut leases = Vec::new();
    for (index, set) in settings.sets.iter().enumerate() {
        let last = locked.last(index);
        let mut chosen = choose_one(settings, set, attachment, &held, &taken, last);
        // Files that name nobody may hold the last ones.
        if matches!(chosen, Err(NoAddress::Exhausted(_))) && !taken.is_certain() {
            (held, taken) = locked.look_at_all(attachment)?;
            chosen = choose_one(settings, set, attachment, &held, &taken, last);
        }
        leases.push(chosen.map_err(|error| {
            let details = match &error {
                NoAddress::Taken(ip, _) => store.describe(*ip),
                NoAddress::Exhausted(_) => format!("{} is used up", settings.origin(index)),
                _ => String::new(),
            };
            error.in_set(index).details(details)
        })?);
    }
    allocate::all_used(&settings.requested, &leases)?;
    Ok((held, leases))
}

fn choose_one(
    settings: &Settings,
    set: &RangeSet,
    attachment: &Attachment,
    held: &Held,
    taken: &Taken,
    last: Option<IpAddr>,
) -> Result<Lease, NoAddress> {
    let held: Vec<IpAddr> = held.ips().collect();
    let known = Known {
        is_taken: &|ip| taken.contains(ip),
        held: &held,
        last,
    };
    allocate::choose(set, &settings.requested, &attachment.container_id, &known)
}

fn ip_config(lease: &Lease) -> IpConfig {
    IpConfig {
        address: lease.address,
        gateway: Some(lease.gateway),
        interface: None,
    }
}

#[cfg(test)]
mod power_loss;
