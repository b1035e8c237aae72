//! GC: frees what no valid attachment holds. It looks at no value of the configuration but where the
//! store is, and goes on after an error.

use cni::{Error, Request};

use crate::config::store_path;
use crate::plugin::LOCK_DEADLINE;
use crate::store::Store;

/// Frees the addresses of the network's attachments that are not valid. The lock and the addresses
/// given last stay, and so does what is no reservation.
pub fn gc(request: &Request) -> Result<(), Error> {
    let valid = request.valid_attachments()?;
    let Some(store) = Store::open(&store_path(&request.config))? else {
        return Ok(());
    };
    let garbage = || store.garbage(&request.config.name, &valid);
    request.step("lock");
    let locked = match store.lock(LOCK_DEADLINE) {
        Ok(Some(locked)) => locked,
        Ok(None) => return Ok(()),
        // Where there is nothing to free, there is nothing to lock for.
        Err(_) if garbage()?.0.is_empty() => return Ok(()),
        Err(error) => return Err(error),
    };
    request.step("release");
    let (garbage, mut errors) = garbage()?;
    let freed = garbage.iter().map(|one| locked.release(one));
    errors.extend(freed.filter_map(Result::err));
    Error::all(errors)
}
