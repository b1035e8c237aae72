//! The key of everything a plugin makes.

use std::fmt;

/// One pod's one interface in one network: what the specification calls an attachment.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attachment {
    /// The network's name, the configuration's `name`.
    pub network: String,
    /// `CNI_CONTAINERID`.
    pub container_id: String,
    /// `CNI_IFNAME`.
    pub ifname: String,
}

impl Attachment {
    /// The interface `ifname` of a container in a network.
    pub fn new(network: &str, container_id: &str, ifname: &str) -> Attachment {
        Attachment {
            network: network.to_owned(),
            container_id: container_id.to_owned(),
            ifname: ifname.to_owned(),
        }
    }
}

impl fmt::Display for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.network, self.container_id, self.ifname)
    }
}
