//! The folder of configurations, and the reservations of the networks in it.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::Path;

use cni::Error;
use cni::runtime::{NetworkList, read_regular};

use crate::Node;
use crate::network::{Configuration, Network, Reservation};

impl Node {
    pub(super) fn read_networks(&mut self, folder: &Path) {
        let what = format!("configurations in {}", folder.display());
        let files = self.seen(&what, NetworkList::files(folder));
        for file in files.unwrap_or_default() {
            let list = NetworkList::from_regular_file(&file);
            if let Ok(list) = &list {
                // Of two with one name the first is used.
                if self.networks.iter().all(|other| other.name != list.name) {
                    self.networks.push(Network::new(&file, list));
                }
            }
            // podnet takes it all the same; a runtime does not.
            let list = list.and_then(|list| match list.misnamed(&file) {
                Some(reason) => Err(Error::config(format!("{}: {reason}", file.display()))),
                None => Ok(list),
            });
            self.configurations.push(Configuration { file, list });
        }
        for index in 0..self.networks.len() {
            self.read_store(index);
        }
    }

    pub(crate) fn read_store(&mut self, index: usize) {
        let store = self
            .networks
            .get(index)
            .and_then(|network| network.store.clone());
        let Some(store) = store else { return };
        let read = reservations(&store);
        let what = format!("reservations in {}", store.display());
        let read = self.seen(&what, read);
        if let Some(network) = self.networks.get_mut(index) {
            network.reservations = read;
        }
    }
}

/// The files that are named by an address. A folder that is not there holds none; a file that goes
/// meanwhile is none.
fn reservations(store: &Path) -> io::Result<Vec<Reservation>> {
    let entries = match fs::read_dir(store) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut reservations = Vec::new();
    for entry in entries {
        let file = entry?.path();
        let name = file.file_name().and_then(|name| name.to_str());
        let Some(address) = name.and_then(|name| name.parse::<IpAddr>().ok()) else {
            continue;
        };
        match read_regular(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            content => {
                let content = content?;
                let (container_id, ifname) = owner(&String::from_utf8_lossy(&content));
                reservations.push(Reservation {
                    address,
                    container_id,
                    ifname,
                    file,
                });
            }
        }
    }
    reservations.sort_by_key(|one| one.address);
    Ok(reservations)
}

/// Container and interface, a line each; the oldest format has no interface. Zeros are what a power
/// loss leaves.
fn owner(content: &str) -> (String, Option<String>) {
    let mut lines = content
        .split(['\r', '\n'])
        .map(|line| line.trim_matches(['\0', ' ', '\t']));
    let mut lines = lines.by_ref().filter(|line| !line.is_empty());
    let id = lines.next().unwrap_or_default().to_owned();
    (id, lines.next().map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservations_are_files_named_by_an_address() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("10.1.0.3", "pod\r\neth0");
        write("10.1.0.2", "old\n");
        write("fd00::2", "\0\0\0");
        write("lock", "");
        write("last_reserved_ip.0", "10.1.0.3");
        let found = reservations(folder.path()).unwrap();
        let owners: Vec<_> = found
            .iter()
            .map(|one| format!("{} {:?} {:?}", one.address, one.container_id, one.ifname))
            .collect();
        assert_eq!(
            owners,
            [
                "10.1.0.2 \"old\" None",
                "10.1.0.3 \"pod\" Some(\"eth0\")",
                "fd00::2 \"\" None"
            ]
        );
        assert_eq!(reservations(&folder.path().join("none")).unwrap(), []);
    }

    #[test]
    fn what_a_runtime_does_not_take_of_a_file_of_that_name() {
        let folder = tempfile::tempdir().unwrap();
        let single = r#"{"name": "n", "type": "a"}"#;
        let list = r#"{"name": "m", "plugins": [{"type": "a"}]}"#;
        fs::write(folder.path().join("10.conflist"), single).unwrap();
        fs::write(folder.path().join("20.conf"), list).unwrap();
        let mut node = Node::default();
        node.read_networks(folder.path());
        let said = node.configurations.iter().map(|one| one.list.as_ref());
        let said: Vec<_> = said.map(|list| list.unwrap_err().msg.clone()).collect();
        assert!(said[0].ends_with(
            "10.conflist: it has no \"plugins\", which runtimes want in files named *.conflist"
        ));
        assert!(said[1].contains("20.conf: it has \"plugins\""), "{said:?}");
        assert_eq!(node.networks.len(), 2);
    }

    #[test]
    fn of_two_networks_of_one_name_the_first_counts() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write(
            "20.conflist",
            r#"{"name": "n", "plugins": [{"type": "second"}]}"#,
        );
        write(
            "10.conflist",
            r#"{"name": "n", "plugins": [{"type": "first"}]}"#,
        );
        write("30.conflist", "torn");
        // One whose end never comes.
        std::os::unix::fs::symlink("/dev/zero", folder.path().join("05.conflist")).unwrap();
        let mut node = Node::default();
        node.read_networks(folder.path());
        assert_eq!(node.configurations.len(), 4);
        let odd = node.configurations[0].list.as_ref().unwrap_err();
        assert!(odd.msg.ends_with("it is no regular file"), "{odd}");
        assert_eq!(node.networks.len(), 1);
        assert_eq!(node.networks[0].kinds, ["first"]);
        assert_eq!(node.unread, []);
    }
}
