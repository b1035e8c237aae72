//! Which attachments of a network the node itself knows, without a runtime's cache.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use cni::Attachment;
use cni::runtime::NetworkList;

use crate::network::Network;
use crate::node::{Node, Unread};
use crate::whose::named_by;

/// Attachments, each with when the last of its addresses was reserved, where that is known.
pub type Owners = BTreeMap<Attachment, Option<SystemTime>>;

impl Node {
    /// Reads which attachments reservations and links of a network name. What could be no
    /// attachment's is left out.
    ///
    /// # Errors
    /// The first thing that cannot be read: whoever is told of some might think that they are all.
    pub fn read_owners(list: &NetworkList) -> Result<Owners, Unread> {
        let mut node = Node::default();
        node.read_links();
        node.networks = vec![Network::new(Path::new(""), list)];
        node.read_store(0);
        match node.unread.pop() {
            Some(unread) => Err(unread),
            None => Ok(node.owners(&list.name)),
        }
    }

    fn owners(&self, network: &str) -> Owners {
        let mut owners = Owners::new();
        let by_links = self.links.iter().filter_map(named_by);
        owners.extend(by_links.map(|owner| (owner, None)));
        for network in &self.networks {
            for owner in network.reserved() {
                let made = network.reserved_at(&owner);
                owners.insert(owner, made);
            }
        }
        owners.retain(|owner, _| {
            owner.network == network
                && cni::is_identifier(&owner.container_id)
                && net::link::is_name(&owner.ifname)
        });
        owners
    }
}

impl Network {
    /// When the last of an attachment's addresses was reserved, by its file.
    fn reserved_at(&self, attachment: &Attachment) -> Option<SystemTime> {
        let files = self.reservations_of(attachment).map(|one| &one.file);
        let times = files.filter_map(|file| fs::metadata(file).ok()?.modified().ok());
        times.max()
    }
}

#[cfg(test)]
mod tests {
    use net::Link;

    use super::*;

    #[test]
    fn by_reservations_and_by_links() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("n");
        fs::create_dir(&store).unwrap();
        let write = |name: &str, text: &str| fs::write(store.join(name), text).unwrap();
        write("10.1.0.2", "reserved\r\neth0");
        write("10.1.0.3", "reserved\r\nnet1");
        write("10.1.0.4", "old\n");
        write("10.1.0.5", "-no\r\neth0");
        write("10.1.0.6", "a\r\nno/name");
        write("10.1.0.7", "");
        let text = format!(
            r#"{{"name": "n", "type": "bridge", "ipam": {{"type": "host-local",
                "subnet": "10.1.0.0/24", "dataDir": {:?}}}}}"#,
            folder.path()
        );
        let list = NetworkList::parse(text.into()).unwrap();
        let link = |alias: &str| Link {
            alias: alias.to_owned(),
            ..Link::default()
        };
        let mut node = Node {
            links: [
                "n/linked/eth0",
                "m/other/eth0",
                "n/reserved/eth0",
                "",
                "a/b",
            ]
            .map(link)
            .into(),
            networks: vec![Network::new(Path::new(""), &list)],
            ..Node::default()
        };
        node.read_store(0);
        let owners = node.owners("n");
        let names: Vec<_> = owners
            .iter()
            .map(|(owner, made)| (owner.to_string(), made.is_some()))
            .collect();
        let expected = [
            ("n/linked/eth0", false),
            ("n/old/eth0", true),
            ("n/reserved/eth0", true),
            ("n/reserved/net1", true),
        ];
        assert_eq!(names, expected.map(|(name, made)| (name.to_owned(), made)));
    }
}
