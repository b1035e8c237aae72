//! Which attachments are still valid, as GC is told (specification, section "GC").

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;

use crate::env::ifname_flaw;
use crate::{Attachment, Error, Request, code, is_identifier, json};

/// The keys that list them: the specification's, and the one that its version 1.1.0 had first.
const KEYS: [&str; 2] = ["cni.dev/valid-attachments", "cni.dev/attachments"];

/// An attachment, as GC is told of it.
#[derive(Deserialize, Default)]
#[cfg_attr(
    test,
    derive(schemars::JsonSchema),
    schemars(extend("required" = ["containerID", "ifname"]))
)]
#[serde(default)]
pub(crate) struct Entry {
    /// The pod: a letter or digit, then letters, digits, `_`, `.` and `-`.
    #[serde(rename = "containerID")]
    #[cfg_attr(test, schemars(regex(pattern = "^[A-Za-z0-9][A-Za-z0-9_.-]*$")))]
    container_id: String,
    /// The pod's interface: 1 to 15 bytes without white space, `/` and `:`.
    #[cfg_attr(test, schemars(length(min = 1, max = 15)))]
    ifname: String,
}

impl Request {
    /// The attachments of the network that are still valid; what belongs to any other is garbage.
    ///
    /// # Errors
    /// Code 7 where no key lists them, which is something else than an empty list; 6 or 7 for a list
    /// that cannot be understood as a whole.
    pub fn valid_attachments(&self) -> Result<BTreeSet<Attachment>, Error> {
        let listed = KEYS.iter().find_map(|key| {
            let value = json::get(self.config.value(), key)?;
            Some((*key, value))
        });
        let Some((key, list)) = listed else {
            let [key, old] = KEYS;
            return Err(Error::config(format!("GC needs {key:?}")).details(format!(
                "neither it nor {old:?} is there; an empty list says that no attachment is valid"
            )));
        };
        entries(key, list)?
            .iter()
            .enumerate()
            .map(|(index, entry)| {
                let flaw = |flaw: String| Error::config(format!("{key:?}: entry {index}: {flaw}"));
                entry.check().map_err(flaw)?;
                let (id, ifname) = (&entry.container_id, &entry.ifname);
                Ok(Attachment::new(&self.config.name, id, ifname))
            })
            .collect()
    }
}

fn entries(key: &str, list: &Value) -> Result<Vec<Entry>, Error> {
    let refuse = |reason: String| {
        let msg = format!("cannot read {key:?}: {reason}");
        Error::new(code::DECODING_FAILURE, msg)
    };
    // Elsewhere a null counts as absent. Here it may stand for an attachment that lives.
    let items = list.as_array();
    if items.is_some_and(|items| items.iter().any(Value::is_null)) {
        return Err(refuse("an entry is null".to_owned()));
    }
    json::read(list).map_err(|mismatch| refuse(mismatch.to_string()))
}

impl Entry {
    /// What keeps it from naming an attachment.
    fn check(&self) -> Result<(), String> {
        let Entry {
            container_id: id,
            ifname,
        } = self;
        if id.is_empty() || ifname.is_empty() {
            return Err("\"containerID\" and \"ifname\" are both needed".to_owned());
        }
        if !is_identifier(id) {
            return Err(format!("invalid characters in \"containerID\": {id:?}"));
        }
        match ifname_flaw(ifname) {
            Some(flaw) => Err(format!("\"ifname\" {flaw}: {ifname:?}")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Command, Config, Env};

    fn valid(keys: &str) -> Result<Vec<String>, Error> {
        let config = format!(r#"{{"cniVersion": "1.1.0", "name": "n"{keys}}}"#);
        let request = Request::new(
            Env::read(Command::Gc, |_| Some("x".to_owned())).unwrap(),
            Config::parse(config.into()).unwrap(),
        );
        let valid = request.valid_attachments()?;
        Ok(valid.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn either_key_in_any_case_and_the_newer_one_wins() {
        let list = r#"[{"CONTAINERID": "a", "IfName": "eth0", "x": 1},
                       {"containerID": "b", "ifname": "net1"},
                       {"containerID": "a", "ifname": "eth0"}]"#;
        let expected = Ok(vec!["n/a/eth0".to_owned(), "n/b/net1".to_owned()]);
        let (new, old) = ("cni.dev/Valid-Attachments", "CNI.dev/attachments");
        assert_eq!(valid(&format!(r#", "{new}": {list}"#)), expected);
        assert_eq!(valid(&format!(r#", "{old}": {list}"#)), expected);
        let both = format!(r#", "{old}": [], "{new}": {list}"#);
        assert_eq!(valid(&both), expected);
        let null = format!(r#", "{new}": null, "{old}": {list}"#);
        assert_eq!(valid(&null), expected);
    }

    #[test]
    fn an_empty_list_is_none_and_an_absent_one_is_refused() {
        assert_eq!(valid(r#", "cni.dev/valid-attachments": []"#), Ok(vec![]));
        for absent in ["", r#", "cni.dev/valid-attachments": null"#] {
            let error = valid(absent).unwrap_err();
            assert_eq!(error.code, 7);
            assert_eq!(error.msg, "GC needs \"cni.dev/valid-attachments\"");
            assert!(error.details.contains("\"cni.dev/attachments\""), "{error}");
        }
    }

    #[test]
    fn a_list_with_one_bad_entry_is_refused_whole() {
        let good = r#"{"containerID": "a", "ifname": "eth0"}"#;
        for (bad, code, says) in [
            ("null", 6, "an entry is null"),
            ("5", 6, "[1]"),
            (r#"["b", "eth0"]"#, 6, "[1]"),
            (r#"{"containerID": 5, "ifname": "e"}"#, 6, "[1].containerID"),
            ("{}", 7, "entry 1: \"containerID\" and \"ifname\""),
            (r#"{"containerID": "b"}"#, 7, "entry 1: "),
            (r#"{"containerID": "a/b", "ifname": "e"}"#, 7, "\"a/b\""),
            (r#"{"containerID": "b", "ifname": "a/b"}"#, 7, "\"a/b\""),
        ] {
            let error = valid(&format!(r#", "cni.dev/attachments": [{good}, {bad}]"#)).unwrap_err();
            assert_eq!(error.code, code, "{bad}: {error}");
            assert!(error.msg.contains(says), "{bad}: {error}");
            assert!(error.msg.contains("\"cni.dev/attachments\""), "{error}");
        }
        for bad in [
            "{}",
            "true",
            "\"a\"",
            r#"{"containerID": "a", "ifname": "eth0"}"#,
        ] {
            let error = valid(&format!(r#", "cni.dev/valid-attachments": {bad}"#)).unwrap_err();
            assert_eq!(error.code, 6, "{bad}: {error}");
        }
    }
}
