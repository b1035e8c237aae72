//! All attachments in the cache.

use cni::runtime::{CachedAttachment, NetworkList, Runtime, RuntimeConf};
use cni::{Attachment, Error};

use crate::failure::Failure;
use crate::network::Places;

/// What CHECK found of one attachment.
#[derive(Debug)]
pub struct Checked {
    /// Whose it is.
    pub known: CachedAttachment,
    /// The first difference.
    pub found: Result<(), Error>,
}

/// CHECK of every attachment, of one network or of all, each with the configuration that it was made
/// with.
///
/// # Errors
/// Something in the cache cannot be read.
pub fn check(places: &Places, network: Option<&str>) -> Result<Vec<Checked>, Failure> {
    let runtime = places.runtime();
    let is_meant =
        |known: &CachedAttachment| network.is_none_or(|name| known.attachment.network == name);
    let all = runtime.attachments()?.into_iter().filter(is_meant);
    let checked = all.map(|known| Checked {
        found: check_one(&runtime, &known),
        known,
    });
    Ok(checked.collect())
}

fn check_one(runtime: &Runtime, known: &CachedAttachment) -> Result<(), Error> {
    let list = NetworkList::parse(known.config.clone())?;
    runtime.check(&list, &known.conf())
}

/// The configuration that an attachment was made with, where the cache still has it.
pub fn made_with(runtime: &Runtime, network: &str, conf: &RuntimeConf) -> Option<NetworkList> {
    let meant = Attachment::new(network, &conf.container_id, &conf.ifname);
    let mut all = runtime.attachments().ok()?.into_iter();
    let known = all.find(|known| known.attachment == meant)?;
    NetworkList::parse(known.config).ok()
}
