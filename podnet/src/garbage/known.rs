//! Which attachments of a network are known, and which of them live.

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;

use cni::is_identifier;
use cni::runtime::CachedAttachment;
use serde_json::{Value, json};

/// One attachment of the network.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Id of the container.
    pub id: String,
    /// The interface in it.
    pub ifname: String,
}

impl FromStr for Entry {
    type Err = String;

    fn from_str(text: &str) -> Result<Entry, String> {
        match text.split_once('/') {
            Some((id, ifname)) if is_identifier(id) && net::link::is_name(ifname) => Ok(Entry {
                id: id.to_owned(),
                ifname: ifname.to_owned(),
            }),
            _ => Err("a container's id, a slash and an interface's name are needed".to_owned()),
        }
    }
}

/// Why an attachment lives that is named by an option.
const TOLD: &str = "told";

/// The attachments of a network that are known.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The network.
    pub network: String,
    /// Each with whether it lives, and why.
    pub states: BTreeMap<Entry, (bool, String)>,
    /// Others that live, which may be of this network though nothing on the node says so: not shown,
    /// but told to the plugins.
    pub may_be: Vec<Entry>,
}

impl Known {
    /// What the cache knows of a network, and what is told. A namespace that is not known may be
    /// there.
    pub fn by_namespaces(
        network: &str,
        cached: &[CachedAttachment],
        told: &[Entry],
        is_there: impl Fn(&Path) -> bool,
    ) -> Known {
        let mut known = BTreeMap::new();
        for one in cached
            .iter()
            .filter(|one| one.attachment.network == network)
        {
            let entry = Entry {
                id: one.attachment.container_id.clone(),
                ifname: one.attachment.ifname.clone(),
            };
            known.insert(entry, state_of(one.netns.as_deref(), &is_there));
        }
        Known::with_told(network, known, told)
    }

    /// Those that are told live, whatever else is known.
    pub fn with_told(
        network: &str,
        mut states: BTreeMap<Entry, (bool, String)>,
        told: &[Entry],
    ) -> Known {
        let told = told.iter().cloned();
        states.extend(told.map(|entry| (entry, (true, TOLD.to_owned()))));
        Known {
            network: network.to_owned(),
            states,
            may_be: Vec::new(),
        }
    }

    /// Those that live, as the plugins are told.
    pub fn valid(&self) -> Vec<(String, String)> {
        let valid = self.states.iter().filter(|(_, (lives, _))| *lives);
        let valid = valid.map(|(one, _)| one).chain(&self.may_be);
        valid
            .map(|one| (one.id.clone(), one.ifname.clone()))
            .collect()
    }

    /// Those that do not.
    pub fn gone(&self) -> impl Iterator<Item = &Entry> {
        let gone = self.states.iter().filter(|(_, (lives, _))| !lives);
        gone.map(|(entry, _)| entry)
    }

    /// Rows of a table: network, id, interface, whether it lives, why.
    pub fn rows(&self) -> Vec<Vec<String>> {
        let row = |(entry, (lives, why)): (&Entry, &(bool, String))| {
            let state = if *lives { "valid" } else { "gone" };
            vec![
                self.network.clone(),
                entry.id.clone(),
                entry.ifname.clone(),
                state.to_owned(),
                why.clone(),
            ]
        };
        self.states.iter().map(row).collect()
    }

    /// Who lives and is known, and which attachments are removed by DEL.
    pub fn to_json(&self) -> Value {
        let all = |alive: bool| {
            let of_state = self.states.iter().filter(|(_, (lives, _))| *lives == alive);
            let entry = |one: &Entry| json!({ "containerID": one.id, "ifname": one.ifname });
            of_state.map(|(one, _)| entry(one)).collect::<Vec<_>>()
        };
        json!({ "cni.dev/valid-attachments": all(true), "gone": all(false) })
    }
}

/// Whether an attachment lives as far as its namespace tells, and why. One that is not known may be
/// there.
pub fn state_of(netns: Option<&Path>, is_there: impl Fn(&Path) -> bool) -> (bool, String) {
    match netns {
        None => (true, "its namespace is not known".to_owned()),
        Some(path) if is_there(path) => (true, format!("{} is there", path.display())),
        Some(path) => (false, format!("{} is not there", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use cni::Attachment;

    use super::*;

    fn entry(text: &str) -> Entry {
        text.parse().unwrap()
    }

    #[test]
    fn who_lives() {
        let cached = |network: &str, id: &str, netns: Option<&str>| CachedAttachment {
            attachment: Attachment::new(network, id, "eth0"),
            netns: netns.map(Into::into),
            config: Vec::new(),
            args: Vec::new(),
            noted: None,
        };
        let cache = [
            cached("n", "alive", Some("/run/netns/there")),
            cached("n", "dead", Some("/run/netns/gone")),
            cached("n", "unknown", None),
            cached("n", "kept", Some("/run/netns/gone")),
            cached("m", "other", Some("/run/netns/there")),
        ];
        let told = [entry("kept/eth0"), entry("new/net1")];
        let known = Known::by_namespaces("n", &cache, &told, |path| path.ends_with("there"));
        let pair = |id: &str, ifname: &str| (id.to_owned(), ifname.to_owned());
        let valid = ["alive", "kept", "unknown"].map(|id| pair(id, "eth0"));
        assert_eq!(
            known.valid(),
            [&valid[..2], &[pair("new", "net1")], &valid[2..]].concat()
        );
        let dead = ["n", "dead", "eth0", "gone", "/run/netns/gone is not there"];
        assert_eq!(known.rows()[1], dead);
        assert_eq!(known.rows()[2], ["n", "kept", "eth0", "valid", "told"]);
        assert_eq!(
            Known::by_namespaces("m", &cache, &told[1..], |_| false).to_json(),
            json!({
                "cni.dev/valid-attachments": [{ "containerID": "new", "ifname": "net1" }],
                "gone": [{ "containerID": "other", "ifname": "eth0" }]
            })
        );
    }

    #[test]
    fn entries() {
        let expected = Entry {
            id: "a.b".to_owned(),
            ifname: "eth0".to_owned(),
        };
        assert_eq!("a.b/eth0".parse(), Ok(expected));
        for text in [
            "",
            "a",
            "a/",
            "/eth0",
            "a/b/c",
            "-a/eth0",
            "a/sixteen-bytes-xx",
        ] {
            assert!(text.parse::<Entry>().is_err(), "{text}");
        }
    }
}
