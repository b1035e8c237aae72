//! GC of one network: which attachments live, by the cache and by what is told.

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;

use clap::Args;
use cni::runtime::CachedAttachment;
use cni::{Version, is_identifier};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::network::Network;

/// Which network, and what is known beside the cache.
#[derive(Debug, Args)]
pub struct Collect {
    #[command(flatten)]
    network: Network,
    /// An attachment that lives, beside those in the cache whose namespace is there; may be repeated
    #[arg(long = "valid", value_name = "ID/IFNAME")]
    valid: Vec<Entry>,
    /// Only say which attachments live, and which of the cache's do not and would be removed by DEL;
    /// what else the plugins would find by their GC, only they can tell
    #[arg(long)]
    dry_run: bool,
    /// Go on although the cache knows no attachment of the network, and none is told
    #[arg(long)]
    none_valid: bool,
}

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

/// The attachments that are known, each with whether it lives, and why.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Known(BTreeMap<Entry, (bool, String)>);

impl Known {
    /// What the cache knows of a network, and what is told. A namespace that is not known may be
    /// there.
    fn new(
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
            let state = match &one.netns {
                None => (true, "its namespace is not known".to_owned()),
                Some(path) if is_there(path) => (true, format!("{} is there", path.display())),
                Some(path) => (false, format!("{} is not there", path.display())),
            };
            known.insert(entry, state);
        }
        let told = told.iter().cloned();
        known.extend(told.map(|entry| (entry, (true, "told".to_owned()))));
        Known(known)
    }

    /// Those that live, as the plugins are told.
    fn valid(&self) -> Vec<(String, String)> {
        let valid = self.0.iter().filter(|(_, (lives, _))| *lives);
        valid
            .map(|(one, _)| (one.id.clone(), one.ifname.clone()))
            .collect()
    }

    /// Rows of a table: id, interface, whether it lives, why.
    pub fn rows(&self) -> Vec<Vec<String>> {
        let row = |(entry, (lives, why)): (&Entry, &(bool, String))| {
            let state = if *lives { "valid" } else { "gone" };
            vec![
                entry.id.clone(),
                entry.ifname.clone(),
                state.to_owned(),
                why.clone(),
            ]
        };
        self.0.iter().map(row).collect()
    }

    /// What the plugins are told, and which attachments are removed by DEL.
    pub fn to_json(&self) -> Value {
        let all = |alive: bool| {
            let of_state = self.0.iter().filter(|(_, (lives, _))| *lives == alive);
            let entry = |one: &Entry| json!({ "containerID": one.id, "ifname": one.ifname });
            of_state.map(|(one, _)| entry(one)).collect::<Vec<_>>()
        };
        json!({ "cni.dev/valid-attachments": all(true), "gone": all(false) })
    }
}

/// Finds out which attachments live, has them shown, and removes the others.
///
/// # Errors
/// Nothing is known of the network, or its configuration forbids GC; the plugins' own.
pub fn gc(
    asked: &Collect,
    show: impl FnOnce(&Known) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (runtime, list) = asked.network.open()?;
    let name = &list.name;
    if list.disable_gc {
        let reason = format!("network {name:?} says \"disableGC\": true");
        return Err(Failure::Usage(reason));
    }
    let is_there = |path: &Path| net::Netns::open(path).is_ok();
    let known = Known::new(name, &runtime.attachments()?, &asked.valid, is_there);
    if known.0.is_empty() && !asked.none_valid && !asked.dry_run {
        let cache = runtime.cache.display();
        return Err(Failure::Usage(format!(
            "no attachment of network {name:?} is known in {cache}: all that there is would be \
             removed; give --valid ID/IFNAME for each that lives, or --none-valid"
        )));
    }
    show(&known)?;
    if asked.dry_run {
        return Ok(());
    }
    runtime.gc(&list, &known.valid())?;
    if list.cni_version < Version::V1_1_0 {
        eprintln!(
            "podnet: network {name:?} is of cniVersion {}, and 1.1.0 brought GC: only what the cache \
             knows was removed",
            list.cni_version
        );
    }
    Ok(())
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
        };
        let cache = [
            cached("n", "alive", Some("/run/netns/there")),
            cached("n", "dead", Some("/run/netns/gone")),
            cached("n", "unknown", None),
            cached("n", "kept", Some("/run/netns/gone")),
            cached("m", "other", Some("/run/netns/there")),
        ];
        let told = [entry("kept/eth0"), entry("new/net1")];
        let known = Known::new("n", &cache, &told, |path| path.ends_with("there"));
        let pair = |id: &str, ifname: &str| (id.to_owned(), ifname.to_owned());
        let valid = ["alive", "kept", "unknown"].map(|id| pair(id, "eth0"));
        assert_eq!(
            known.valid(),
            [&valid[..2], &[pair("new", "net1")], &valid[2..]].concat()
        );
        let dead = ["dead", "eth0", "gone", "/run/netns/gone is not there"];
        assert_eq!(known.rows()[1], dead);
        assert_eq!(known.rows()[2], ["kept", "eth0", "valid", "told"]);
        assert_eq!(
            Known::new("m", &cache, &told[1..], |_| false).to_json(),
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
