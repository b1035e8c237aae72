//! Which conflist a runtime would use.

use std::path::Path;

use cni::runtime::{NetworkList, keys_of};
use ipnet::IpNet;
use serde::Deserialize;

use super::{Note, Weight};
use crate::podcidrs::joined;
use crate::{Document, range};

/// A file of a folder of configurations.
#[derive(Debug, Clone)]
pub struct ConfFile {
    /// What it is called.
    pub name: String,
    /// What a runtime reads in it, or why it reads nothing.
    pub list: Result<NetworkList, String>,
    /// The same with its lines, where it can be read so.
    pub document: Option<Document>,
}

impl ConfFile {
    /// Reads a file, whose name is `name`.
    pub fn new(name: &str, raw: &[u8]) -> ConfFile {
        let text = String::from_utf8_lossy(raw);
        let document = Document::parse(name, &text).ok();
        let list = NetworkList::parse(raw.to_vec()).map_err(|error| error.to_string());
        ConfFile {
            name: name.to_owned(),
            list: list.and_then(|list| match list.misnamed(Path::new(name)) {
                Some(reason) => Err(reason.to_owned()),
                None => Ok(list),
            }),
            document: document.or_else(|| Document::without_lines(name, &text)),
        }
    }

    /// A file that cannot be read.
    pub fn unreadable(name: &str, reason: &str) -> ConfFile {
        ConfFile {
            name: name.to_owned(),
            list: Err(reason.to_owned()),
            document: None,
        }
    }

    /// The file and the line of a key.
    pub(super) fn place(&self, key: &str) -> String {
        let document = self.document.as_ref();
        document.map_or(self.name.clone(), |document| document.place_of(key))
    }

    fn file_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or_default()
    }
}

/// The configuration that a runtime would use.
#[derive(Debug)]
pub struct Used<'a> {
    /// Its file.
    pub file: Option<&'a ConfFile>,
    /// What is in it.
    pub list: Option<&'a NetworkList>,
    /// Why it is this one.
    pub because: String,
    /// What is wrong with others.
    pub(super) notes: Vec<Note>,
}

/// The first in the order of the files' names, as containerd and CRI-O have it. containerd has no
/// network at all where that cannot be read; CRI-O goes on to the next.
pub(super) fn used(files: &[ConfFile]) -> Used<'_> {
    let mut sorted: Vec<&ConfFile> = files.iter().collect();
    sorted.sort_by(|a, b| (a.file_name(), &a.name).cmp(&(b.file_name(), &b.name)));
    let mut notes = Vec::new();
    let mut found = None;
    for file in &sorted {
        match &file.list {
            Ok(list) => {
                found = Some((*file, list));
                break;
            }
            Err(reason) => {
                let said = format!(
                    "it comes first and cannot be read, so that containerd has no network: {reason}"
                );
                notes.push(Note::new(Weight::Wrong, &file.name, said));
            }
        }
    }
    let count = files.len();
    let because = match (&found, count, notes.len()) {
        (None, 0, _) => "there is no network configuration".to_owned(),
        (None, ..) => "no network configuration can be read".to_owned(),
        (Some(_), 1, _) => "the only one".to_owned(),
        (Some(_), _, 0) => format!("the first of {count} in the order of their names"),
        (Some(_), _, bad) => format!(
            "the first of {count} in the order of their names that can be read; {bad} before it cannot"
        ),
    };
    if found.is_none() && count == 0 {
        notes.push(Note::new(Weight::Wrong, "", &because));
    }
    Used {
        file: found.map(|(file, _)| file),
        list: found.map(|(_, list)| list),
        because,
        notes,
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Ipam {
    subnet: Option<String>,
    ranges: Vec<Vec<Subnet>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Subnet {
    subnet: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WithIpam {
    ipam: Ipam,
}

/// Subnets of the chain that are no part of the node's ranges.
pub(super) fn misfits(used: &Used, list: &NetworkList, ranges: &[IpNet]) -> Vec<Note> {
    let mut notes = Vec::new();
    for (index, plugin) in list.plugins.iter().enumerate() {
        let WithIpam { ipam } = keys_of(plugin);
        let sets = ipam.ranges.into_iter().flatten();
        let sets = sets.map(|range| ("ranges", range.subnet));
        let all = std::iter::once(("subnet", ipam.subnet)).chain(sets);
        let all = all.filter_map(|(key, subnet)| Some((key, subnet?)));
        for (key, subnet) in all {
            let fits = subnet.parse::<IpNet>().is_ok_and(|subnet| {
                let mut ranges = ranges.iter();
                ranges.any(|range| range::same_family(*range, subnet) && range.contains(&subnet))
            });
            if !fits {
                let place = used
                    .file
                    .map(|file| file.place(&format!("plugins[{index}].ipam.{key}")));
                let said = format!(
                    "subnet {subnet} is no part of the node's range {}",
                    joined(ranges)
                );
                notes.push(Note::new(Weight::Wrong, &place.unwrap_or_default(), said));
            }
        }
    }
    notes
}
