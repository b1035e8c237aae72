//! Nodes as they are told, with nothing of them checked: one bad object is no reason not to look at
//! the others.

use cni::one_line;

use super::{Spec, Status, objects};
use crate::Error;

/// A node as the API tells of it. Nothing of it is checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Told {
    /// Its name.
    pub name: String,
    /// Since when it is one (RFC 3339, in UTC); empty where that is not told.
    pub since: String,
    /// Its pod ranges.
    pub ranges: Vec<String>,
    /// Its addresses of type InternalIP.
    pub addresses: Vec<String>,
}

impl Told {
    /// What is looked at of a Node.
    pub fn new(name: &str, since: &str, spec: &Spec, status: &Status) -> Told {
        Told {
            name: one_line(name),
            since: since.to_owned(),
            ranges: spec.ranges(),
            addresses: status.internal().map(str::to_owned).collect(),
        }
    }
}

/// The nodes of what `kubectl get nodes -o json` prints; `name` is what errors call it.
///
/// # Errors
/// It is something else, or two nodes have one name.
pub fn told(name: &str, text: &str) -> Result<Vec<Told>, Error> {
    let (objects, _) = objects(name, text)?;
    let told = objects.iter().map(|object| {
        let metadata = &object.metadata;
        Told::new(
            &metadata.name,
            &metadata.since,
            &object.spec,
            &object.status,
        )
    });
    Ok(told.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_checked_but_the_form() {
        let text = r#"{"kind": "List", "items": [
            {"kind": "Node", "metadata": {"name": "a", "creationTimestamp": "2026-01-02T03:04:05Z"},
             "spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24", "fd00::/64"]},
             "status": {"addresses": [{"type": "Hostname", "address": "a"},
                                      {"type": "InternalIP", "address": "192.0.2.1"},
                                      {"type": "InternalIP", "address": "x"}]}},
            {"metadata": {"name": "b", "creationTimestamp": null}, "spec": {"podCIDR": "broken"}},
            {"metadata": {"name": "c"}, "spec": {"podCIDR": "", "podCIDRs": null}, "status": {"addresses": null}}
        ]}"#;
        let told = told("f", text).unwrap();
        assert_eq!(told[0].since, "2026-01-02T03:04:05Z");
        assert_eq!(told[0].ranges, ["10.1.0.0/24", "fd00::/64"]);
        assert_eq!(told[0].addresses, ["192.0.2.1", "x"]);
        assert_eq!(told[1].ranges, ["broken"]);
        assert_eq!(
            told[2],
            Told {
                name: "c".to_owned(),
                ..Told::default()
            }
        );
    }

    #[test]
    fn what_is_no_list_of_nodes_is_refused() {
        for text in [
            "",
            "[1]",
            r#"{"kind": "Pod", "metadata": {"name": "a"}}"#,
            r#"{"items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "a"}}]}"#,
            r#"{"items": [{"metadata": {}}]}"#,
        ] {
            assert!(told("f", text).is_err(), "{text}");
        }
    }
}
