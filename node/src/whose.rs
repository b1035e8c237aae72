//! Whose things on the node are, and who of them lives.

use attached::Marks;
use cni::Attachment;
use net::Link;

use crate::network::{Network, Reservation};
use crate::node::{Netns, Node};

/// What can be said of an attachment's interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// It is there.
    Lives,
    /// It is not there.
    Gone,
    /// Nobody can tell.
    Unknown,
}

impl Node {
    /// Whether an attachment has an interface: the node's end of its pair says so, or what is in
    /// its namespace.
    pub fn life_of(&self, attachment: &Attachment) -> Life {
        if self.veth_of(attachment).is_some() {
            return Life::Lives;
        }
        let Some(attachments) = &self.attachments else {
            return Life::Unknown;
        };
        let mut known = attachments.iter();
        match known
            .find(|one| one.known.attachment == *attachment)
            .map(|one| &one.netns)
        {
            Some(Netns::Open { link: Some(_), .. }) => Life::Lives,
            Some(Netns::Open { link: None, .. } | Netns::Gone) => Life::Gone,
            Some(Netns::Unknown | Netns::Closed(_)) => Life::Unknown,
            // A port that says nothing may be of any pod that the cache does not know; and of what
            // another plugin makes nothing says whose it is.
            None if self.has_mute_ports() || !self.is_bridged(&attachment.network) => Life::Unknown,
            None => Life::Gone,
        }
    }

    /// The node's end of an attachment's pair.
    pub fn veth_of(&self, attachment: &Attachment) -> Option<&Link> {
        // Of the marks only the alias is asked, which is of the attachment alone.
        let Marks { alias, .. } = Marks::of(attachment, [0; 6]);
        let mut links = self.links.iter();
        links.find(|link| link.kind == "veth" && link.alias == alias)
    }

    fn is_bridged(&self, network: &str) -> bool {
        let mut networks = self.networks.iter().filter(|one| one.name == network);
        networks.any(|network| network.bridged.is_some())
    }

    /// Whether a bridge has a port that does not say whose it is, as the reference plugins make them.
    fn has_mute_ports(&self) -> bool {
        let mut ports = self.links.iter().filter(|link| link.kind == "veth");
        ports.any(|port| port.master.is_some() && port.alias.is_empty())
    }
}

impl Network {
    /// Whether an attachment has an address; `None` where the reservations are not known.
    pub fn has_reserved(&self, attachment: &Attachment) -> Option<bool> {
        let known = self.reservations.is_some();
        known.then(|| self.reservations_of(attachment).next().is_some())
    }

    /// The addresses of an attachment. The oldest format does not say of which interface.
    pub(crate) fn reservations_of(
        &self,
        attachment: &Attachment,
    ) -> impl Iterator<Item = &Reservation> {
        let of_it = move |one: &&Reservation| {
            let same_interface = |ifname: &String| *ifname == attachment.ifname;
            one.container_id == attachment.container_id
                && one.ifname.as_ref().is_none_or(same_interface)
        };
        self.reservations.iter().flatten().filter(of_it)
    }

    /// The attachments that have addresses, each once.
    pub fn reserved(&self) -> Vec<Attachment> {
        let reservations = self.reservations.iter().flatten();
        let named = reservations.filter(|one| !one.container_id.is_empty());
        let owners = named.map(|one| {
            let ifname = one.ifname.as_deref().unwrap_or("eth0");
            Attachment::new(&self.name, &one.container_id, ifname)
        });
        let mut owners: Vec<Attachment> = owners.collect();
        owners.sort();
        owners.dedup();
        owners
    }
}

/// The attachment that a link's alias names, where it says so in words.
pub fn named_by(link: &Link) -> Option<Attachment> {
    let words: Vec<&str> = link.alias.split('/').collect();
    match words[..] {
        [network, id, ifname] => Some(Attachment::new(network, id, ifname)),
        _ => None,
    }
}
