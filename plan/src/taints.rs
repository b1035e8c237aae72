//! Nodes that are kept from use: their manifest, and whose each taint is.

use cni::one_line;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::keys::KeptBack;
use crate::yaml::scalar;
use crate::{Document, Error, Fault};

/// What the controller adds to a node with `spec.unschedulable`.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// What keeps pods away and lets those stay that are there.
const NO_SCHEDULE: &str = "NoSchedule";

/// Taints that controllers add and remove: the key, who adds it, and what makes it go (Kubernetes,
/// "Taints and Tolerations" and "Well-Known Labels, Annotations and Taints").
const CONTROLLERS: [(&str, &str, &str); 9] = [
    (
        UNSCHEDULABLE,
        "node controller",
        "the node controller, when spec.unschedulable is cleared (kubectl uncordon)",
    ),
    (
        "node.kubernetes.io/not-ready",
        "node controller",
        "the node controller, when the kubelet reports Ready",
    ),
    (
        "node.kubernetes.io/unreachable",
        "node controller",
        "the node controller, when the kubelet reports again",
    ),
    (
        "node.kubernetes.io/memory-pressure",
        "node controller",
        "the node controller, when the kubelet reports enough memory",
    ),
    (
        "node.kubernetes.io/disk-pressure",
        "node controller",
        "the node controller, when the kubelet reports enough disk",
    ),
    (
        "node.kubernetes.io/pid-pressure",
        "node controller",
        "the node controller, when the kubelet reports enough process ids",
    ),
    (
        "node.kubernetes.io/network-unavailable",
        "node controller",
        "the node controller, when the condition NetworkUnavailable is cleared",
    ),
    (
        "node.cloudprovider.kubernetes.io/uninitialized",
        "kubelet",
        "the cloud controller manager, when it has initialized the node",
    ),
    (
        "node.cloudprovider.kubernetes.io/shutdown",
        "cloud controller manager",
        "the cloud controller manager, when the machine runs again",
    ),
];

/// Taints that no controller removes, and who adds them.
const OTHERS: [(&str, &str); 3] = [
    ("node-role.kubernetes.io/control-plane", "kubeadm"),
    ("node-role.kubernetes.io/master", "kubeadm"),
    ("node.kubernetes.io/out-of-service", "a person"),
];

/// Refuses the key of a taint that a controller adds and removes, for one that is to stay until a
/// person removes it.
///
/// # Errors
/// Whose it is.
pub fn check_own(key: &str) -> Result<(), String> {
    match CONTROLLERS.iter().find(|(known, ..)| *known == key) {
        None => Ok(()),
        Some((_, adds, removes)) => Err(format!(
            "{key:?} is a taint of the {adds}, and is removed by {removes}: expected one of your own, as \
             example.com/cni-missing"
        )),
    }
}

/// The manifest of a node that is kept from use until its plugins are there, with what the
/// controller will add as a comment.
pub fn manifest(node: &KeptBack) -> String {
    let (name, taint) = (scalar(&node.name.0), scalar(&node.taint.0));
    format!(
        "# The node controller adds the taint {UNSCHEDULABLE} ({NO_SCHEDULE}) because of
# spec.unschedulable, and removes it when that is cleared. {taint} is
# removed by nobody but a person.
apiVersion: v1
kind: Node
metadata:
  name: {name}
spec:
  unschedulable: true
  taints:
  - key: {taint}
    effect: {NO_SCHEDULE}
"
    )
}

/// The same for programs.
pub fn manifest_json(node: &KeptBack) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": node.name.0 },
        "spec": {
            "unschedulable": true,
            "taints": [{ "key": node.taint.0, "effect": NO_SCHEDULE }],
        },
    })
}

/// A node and its taints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tainted {
    /// Its name.
    pub node: String,
    /// In the order of the node's list; what the controller is about to add comes last.
    pub taints: Vec<Taint>,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
}

/// One taint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// What it does to pods.
    pub effect: String,
    /// Whether it is on the node; else it follows from `spec.unschedulable`.
    pub is_there: bool,
}

impl Taint {
    /// Who adds it, who removes it, and whether that is a controller.
    fn owner(&self) -> (&'static str, &'static str, bool) {
        let controller = CONTROLLERS.iter().find(|(key, ..)| *key == self.key);
        if let Some((_, adds, removes)) = controller {
            return (adds, removes, true);
        }
        let other = OTHERS.iter().find(|(key, _)| *key == self.key);
        let adds = other.map_or("a person", |(_, adds)| adds);
        (adds, "a person, by hand (kubectl taint nodes)", false)
    }
}

#[derive(Deserialize, Default)]
#[serde(expecting = "a Node")]
struct NodeObject {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
}

#[derive(Deserialize, Default)]
#[serde(expecting = "the metadata of a Node")]
struct Metadata {
    name: String,
}

#[derive(Deserialize, Default)]
#[serde(default, expecting = "the spec of a Node")]
struct Spec {
    taints: Vec<TaintObject>,
    unschedulable: bool,
}

#[derive(Deserialize)]
#[serde(expecting = "a taint, as key and effect")]
struct TaintObject {
    key: String,
    #[serde(default)]
    effect: String,
}

#[derive(Deserialize, Default)]
struct Listing {
    #[serde(default)]
    items: Vec<NodeObject>,
}

/// The nodes of a file: Node manifests, or what `kubectl get node -o json` prints.
///
/// # Errors
/// A document is neither a Node nor a list of them.
pub fn read(documents: &[Document]) -> Result<Vec<Tainted>, Error> {
    let mut nodes = Vec::new();
    for document in documents {
        let objects = match document.value()["kind"].as_str() {
            Some("List" | "NodeList") => document.read_at::<Listing>("")?.items,
            Some("Node") => vec![document.read_at::<NodeObject>("")?],
            other => {
                let reason = format!(
                    "{} is no kind of this file: expected Node or List",
                    text(other)
                );
                return Err(document.locate(Fault::new("kind", reason)));
            }
        };
        nodes.extend(objects.into_iter().map(tainted));
    }
    Ok(nodes)
}

fn text(kind: Option<&str>) -> String {
    kind.map_or("missing".to_owned(), |kind| format!("{kind:?}"))
}

fn tainted(object: NodeObject) -> Tainted {
    let taint = |taint: TaintObject| Taint {
        key: taint.key,
        effect: taint.effect,
        is_there: true,
    };
    let unschedulable = object.spec.unschedulable;
    let mut taints: Vec<Taint> = object.spec.taints.into_iter().map(taint).collect();
    if unschedulable && taints.iter().all(|taint| taint.key != UNSCHEDULABLE) {
        taints.push(Taint {
            key: UNSCHEDULABLE.to_owned(),
            effect: NO_SCHEDULE.to_owned(),
            is_there: false,
        });
    }
    Tainted {
        node: object.metadata.name,
        taints,
        unschedulable,
    }
}

impl Tainted {
    /// The keys of the taints that controllers add, or of the others; each once.
    fn keys(&self, by_controller: bool) -> Vec<&str> {
        let mut keys: Vec<&str> = Vec::new();
        for taint in &self.taints {
            let (.., controller) = taint.owner();
            if controller == by_controller && !keys.contains(&taint.key.as_str()) {
                keys.push(&taint.key);
            }
        }
        keys
    }

    /// A line for each key; with `all` also one for each taint, with whose it is.
    pub fn text(&self, all: bool) -> String {
        let mut text = format!("node={}\n", one_line(&self.node));
        for (name, by_controller) in [("custom_taint", false), ("controller_taint", true)] {
            let keys = self.keys(by_controller);
            for key in if keys.is_empty() { vec![""] } else { keys } {
                text.push_str(&format!("{name}={}\n", one_line(key)));
            }
        }
        text.push_str(&format!("unschedulable={}\n", self.unschedulable));
        for taint in self.taints.iter().filter(|_| all) {
            let (adds, removes, _) = taint.owner();
            let state = if taint.is_there { "there" } else { "to come" };
            let (key, effect) = (one_line(&taint.key), one_line(&taint.effect));
            text.push_str(&format!(
                "taint={key} effect={effect} state={state:?} added_by={adds:?} removed_by={removes:?}\n"
            ));
        }
        text
    }

    /// As [`Tainted::text`].
    pub fn to_json(&self, all: bool) -> Value {
        let mut object = json!({
            "node": self.node,
            "custom_taint": self.keys(false),
            "controller_taint": self.keys(true),
            "unschedulable": self.unschedulable,
        });
        if all {
            let taint = |taint: &Taint| {
                let (adds, removes, _) = taint.owner();
                json!({
                    "key": taint.key,
                    "effect": taint.effect,
                    "is_there": taint.is_there,
                    "added_by": adds,
                    "removed_by": removes,
                })
            };
            object["taints"] = self.taints.iter().map(taint).collect::<Vec<_>>().into();
        }
        object
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(text: &str) -> Result<Vec<Tainted>, String> {
        Document::parse_all("n", text)
            .and_then(|documents| read(&documents))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_manifest_and_what_will_be_added() {
        let text = "keptBack: [{name: k8nd-cni-edge, taint: k8nd.example.com/cni-missing}]";
        let document = Document::parse("c", text).unwrap();
        let keys: crate::keys::ClusterKeys = document.read().unwrap();
        let manifest = manifest(&keys.kept_back[0]);
        let parsed = Document::parse("m", &manifest).unwrap();
        assert_eq!(parsed.value(), &manifest_json(&keys.kept_back[0]));
        assert!(
            manifest
                .contains("# The node controller adds the taint node.kubernetes.io/unschedulable")
        );
        assert_eq!(
            read_all(&manifest).unwrap()[0].text(false),
            "node=k8nd-cni-edge\ncustom_taint=k8nd.example.com/cni-missing\n\
             controller_taint=node.kubernetes.io/unschedulable\nunschedulable=true\n"
        );
    }

    #[test]
    fn whose_each_is_whatever_their_order() {
        let node = |taints: &[(&str, &str)]| {
            let taints: Vec<_> = taints
                .iter()
                .map(|(key, effect)| json!({ "key": key, "effect": effect, "timeAdded": "x" }))
                .collect();
            json!({ "kind": "Node", "metadata": { "name": "a", "uid": "u" },
                "spec": { "taints": taints, "unschedulable": true }, "status": {} })
            .to_string()
        };
        let taints = [
            ("node.kubernetes.io/unschedulable", "NoSchedule"),
            ("example.com/x", "NoSchedule"),
            ("node.kubernetes.io/not-ready", "NoSchedule"),
            ("node.kubernetes.io/not-ready", "NoExecute"),
            ("node-role.kubernetes.io/control-plane", "NoSchedule"),
        ];
        let mut backwards = taints;
        backwards.reverse();
        for (taints, custom, controller) in [
            (
                taints,
                ["example.com/x", "node-role.kubernetes.io/control-plane"],
                [
                    "node.kubernetes.io/unschedulable",
                    "node.kubernetes.io/not-ready",
                ],
            ),
            (
                backwards,
                ["node-role.kubernetes.io/control-plane", "example.com/x"],
                [
                    "node.kubernetes.io/not-ready",
                    "node.kubernetes.io/unschedulable",
                ],
            ),
        ] {
            let read = read_all(&node(&taints)).unwrap();
            let json = read[0].to_json(true);
            assert_eq!(json["custom_taint"], json!(custom));
            assert_eq!(json["controller_taint"], json!(controller));
            assert_eq!(json["taints"].as_array().unwrap().len(), 5);
        }
        let all = read_all(&node(&taints)).unwrap()[0].text(true);
        let line = "taint=node-role.kubernetes.io/control-plane effect=NoSchedule state=\"there\" \
                    added_by=\"kubeadm\" removed_by=\"a person, by hand (kubectl taint nodes)\"";
        assert_eq!(all.lines().last(), Some(line));
        assert_eq!(all.lines().count(), 11);
    }

    #[test]
    fn a_controllers_taint_is_no_persons() {
        for (key, good) in [
            ("node.kubernetes.io/unschedulable", false),
            ("node.kubernetes.io/not-ready", false),
            ("node.cloudprovider.kubernetes.io/uninitialized", false),
            ("node.kubernetes.io/out-of-service", true),
            ("example.com/cni-missing", true),
        ] {
            let taken = crate::keys::TaintKey::try_from(key.to_owned());
            assert_eq!(taken.is_ok(), good, "{key}: {taken:?}");
        }
    }

    #[test]
    fn no_name_makes_a_line_of_its_own() {
        let node = json!({ "kind": "Node", "metadata": { "name": "a\nunschedulable=true" },
            "spec": { "taints": [{ "key": "k\ncustom_taint=x", "effect": "e\r" }] } });
        let text = read_all(&node.to_string()).unwrap()[0].text(true);
        let begin = "node=a\\nunschedulable=true\ncustom_taint=k\\ncustom_taint=x\n";
        assert!(text.starts_with(begin), "{text}");
        assert_eq!(text.lines().count(), 5, "{text}");
        assert!(!text.contains('\r'), "{text}");
    }

    #[test]
    fn a_null_is_absent() {
        let text = "kind: Node\nmetadata: {name: a, labels: null}\nspec: {taints: null, unschedulable: null}\n";
        assert_eq!(read_all(text).unwrap()[0].taints, []);
        let list = format!(
            "kind: List\nitems:\n- {}",
            text.trim().replace('\n', "\n  ")
        );
        assert_eq!(read_all(&list).unwrap().len(), 1);
    }

    #[test]
    fn a_node_without_taints_and_lists() {
        let bare = "kind: List\nitems:\n- metadata: {name: a}\n- metadata: {name: b}\n  spec: {}\n";
        let read = read_all(bare).unwrap();
        assert_eq!(
            read[1].text(true),
            "node=b\ncustom_taint=\ncontroller_taint=\nunschedulable=false\n"
        );
        assert_eq!(read.len(), 2);
        for (text, said) in [
            ("kind: Pod\n", "n:1: kind: \"Pod\" is no kind of this file"),
            ("a: b\n", "n:1: kind: missing is no kind"),
            ("- a\n", "n:1: kind: missing"),
            (
                "kind: Node\nmetadata: {}\n",
                "n:2: metadata: missing field `name`",
            ),
            (
                "kind: Node\nmetadata: {name: a}\nspec: {taints: [{}]}\n",
                "n:3: spec.taints[0]: missing",
            ),
        ] {
            let error = read_all(text).unwrap_err();
            assert!(error.starts_with(said), "{text}: {error}");
        }
    }
}
