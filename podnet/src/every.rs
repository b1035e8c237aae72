//! All attachments in the cache.

use cni::runtime::{CachedAttachment, NetworkList, Runtime, RuntimeConf};
use cni::{Attachment, Error, Version};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::network::Places;

/// What CHECK found of one attachment.
#[derive(Debug)]
pub struct Checked {
    /// Whose it is.
    pub known: CachedAttachment,
    /// What CHECK says, or the first difference.
    pub found: Result<Looked, Error>,
}

/// Whether CHECK could look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Looked {
    /// It did, and all is as it should be.
    Good,
    /// The attachment was made in a version that has no CHECK, as containerd makes its loopback.
    NotAt(Version),
}

impl std::fmt::Display for Looked {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Looked::Good => f.write_str("good"),
            Looked::NotAt(version) => write!(f, "not checked: {version} has no CHECK"),
        }
    }
}

/// What CHECK found of all.
#[derive(Debug)]
pub struct Every {
    /// Of each attachment that is known.
    pub checked: Vec<Checked>,
    /// The files of the cache, of whatever network, that cannot be read.
    pub unreadable: Vec<Error>,
}

impl Every {
    /// What was found, for programs.
    pub fn to_json(&self) -> Value {
        let checked = self.checked.iter().map(|checked| {
            let attachment = &checked.known.attachment;
            json!({
                "network": attachment.network,
                "containerID": attachment.container_id,
                "ifname": attachment.ifname,
                "good": match &checked.found {
                    Ok(Looked::NotAt(_)) => Value::Null,
                    found => found.is_ok().into(),
                },
                "error": checked.found.as_ref().err().map(ToString::to_string),
            })
        });
        let unreadable = self.unreadable.iter().map(ToString::to_string);
        json!({
            "attachments": checked.collect::<Vec<_>>(),
            "unreadable": unreadable.collect::<Vec<_>>(),
        })
    }

    /// Whether all is good, as far as CHECK can look.
    pub fn is_good(&self) -> bool {
        self.unreadable.is_empty() && self.checked.iter().all(|checked| checked.found.is_ok())
    }
}

/// CHECK of every attachment, of one network or of all, each with the configuration that it was made
/// with.
///
/// # Errors
/// The cache's folder cannot be read.
pub fn check(places: &Places, network: Option<&str>) -> Result<Every, Failure> {
    let runtime = places.runtime();
    let mut every = Every {
        checked: Vec::new(),
        unreadable: Vec::new(),
    };
    for known in runtime.each_attachment()? {
        match known {
            Err(unreadable) => every.unreadable.push(unreadable),
            Ok(known) if network.is_none_or(|name| known.attachment.network == name) => {
                let found = check_one(&runtime, &known);
                every.checked.push(Checked { known, found });
            }
            Ok(_) => {}
        }
    }
    Ok(every)
}

fn check_one(runtime: &Runtime, known: &CachedAttachment) -> Result<Looked, Error> {
    let list = NetworkList::parse(known.config.clone())?;
    if list.cni_version < Version::V0_4_0 {
        return Ok(Looked::NotAt(list.cni_version));
    }
    runtime.check(&list, &known.conf())?;
    Ok(Looked::Good)
}

/// The configuration that an attachment was made with, where the cache still has it.
pub fn made_with(runtime: &Runtime, network: &str, conf: &RuntimeConf) -> Option<NetworkList> {
    let meant = Attachment::new(network, &conf.container_id, &conf.ifname);
    let mut all = runtime.each_attachment().ok()?.into_iter().flatten();
    let known = all.find(|known| known.attachment == meant)?;
    NetworkList::parse(known.config).ok()
}
