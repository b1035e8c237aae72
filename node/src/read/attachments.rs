//! What the runtime's cache knows, and what is in the pods' namespaces.

use std::path::Path;

use cni::runtime::{CachedAttachment, Runtime};
use net::Netlink;

use crate::Node;
use crate::node::{Attached, Netns};

impl Node {
    pub(super) fn read_attachments(&mut self, runtime: &Runtime) {
        let what = format!("the cache in {}", runtime.cache.display());
        let known = self.seen(&what, runtime.attachments());
        let known = known.map(|all| all.into_iter().map(attached).collect::<Vec<_>>());
        for attached in known.iter().flatten() {
            if let Netns::Closed(why) = &attached.netns {
                let what = format!("the namespace of {}", attached.known.attachment);
                self.note(&what, why);
            }
        }
        self.attachments = known;
    }
}

fn attached(known: CachedAttachment) -> Attached {
    let ifname = &known.attachment.ifname;
    let netns = match &known.netns {
        None => Netns::Unknown,
        Some(path) => look(path, ifname),
    };
    Attached { known, netns }
}

fn look(path: &Path, ifname: &str) -> Netns {
    let netns = match net::Netns::open(path) {
        Ok(netns) => netns,
        Err(net::Error::NetnsMissing(_) | net::Error::NotANetns(_)) => return Netns::Gone,
        Err(error) => return Netns::Closed(error.to_string()),
    };
    let look = || {
        let netlink = Netlink::in_netns(&netns)?;
        let link = netlink.link(ifname)?;
        let addresses = match &link {
            Some(link) => netlink.addresses(link.index)?,
            None => Vec::new(),
        };
        Ok(Netns::Open { link, addresses })
    };
    look().unwrap_or_else(|error: net::Error| Netns::Closed(error.to_string()))
}
