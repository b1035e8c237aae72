//! The pods that manifests describe.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Deserialize;
use serde_json::Value;

use crate::{Document, Error};

/// A pod, or the template of many.
#[derive(Debug, Clone, PartialEq)]
pub struct PodSpec {
    /// Namespace and name of the pod or of what makes it.
    pub name: String,
    /// What it is.
    pub kind: String,
    /// The file and the line that it begins at.
    pub place: String,
    /// Its annotations about bandwidth, ingress before egress.
    pub bandwidth: Vec<Annotation>,
    /// The same on what makes it, where they do nothing.
    pub misplaced: Vec<Annotation>,
    /// Its host ports.
    pub ports: Vec<HostPort>,
    /// It has the node's network, and no plugin is called.
    pub host_network: bool,
    /// The node that it is bound to.
    pub node: Option<String>,
    /// How many there are at a time.
    pub replicas: u64,
}

/// An annotation about bandwidth.
#[derive(Debug, Clone, PartialEq)]
pub struct Annotation {
    /// Whether it limits what comes into the pod; else what leaves it.
    pub ingress: bool,
    /// What it says: a text, unless the API would refuse it.
    pub value: Value,
    /// The file and the line.
    pub place: String,
}

impl Annotation {
    /// Its key.
    pub fn key(&self) -> &'static str {
        if self.ingress { INGRESS } else { EGRESS }
    }
}

/// A port of the node that is to lead to the pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPort {
    /// The port on the node, as written.
    pub port: i64,
    /// The protocol, as written; TCP where none is.
    pub protocol: String,
    /// The node's address; `None` is any.
    pub host_ip: Option<String>,
    /// The file and the line.
    pub place: String,
}

impl HostPort {
    /// Whether two of them on one node cannot both be served.
    pub fn clashes(&self, other: &HostPort) -> bool {
        let any = |ip: &Option<String>| match ip.as_deref().map(str::parse::<IpAddr>) {
            None => true,
            Some(ip) => ip.is_ok_and(|ip| ip.is_unspecified()),
        };
        let same_ip = self.host_ip == other.host_ip || any(&self.host_ip) || any(&other.host_ip);
        self.port == other.port && self.protocol == other.protocol && same_ip
    }
}

const INGRESS: &str = "kubernetes.io/ingress-bandwidth";
const EGRESS: &str = "kubernetes.io/egress-bandwidth";

/// Where each kind has the template of its pods.
const TEMPLATES: [(&str, &str); 9] = [
    ("Pod", ""),
    ("Deployment", "spec.template"),
    ("DaemonSet", "spec.template"),
    ("StatefulSet", "spec.template"),
    ("ReplicaSet", "spec.template"),
    ("ReplicationController", "spec.template"),
    ("Job", "spec.template"),
    ("CronJob", "spec.jobTemplate.spec.template"),
    ("PodTemplate", "template"),
];

#[derive(Deserialize, Default)]
#[serde(default)]
struct Template {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: String,
    generate_name: String,
    namespace: String,
    annotations: BTreeMap<String, Value>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Outer {
    metadata: Metadata,
    spec: Count,
}

/// How many pods a workload has at a time, by either key.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Count {
    replicas: Option<u64>,
    parallelism: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    containers: Vec<Container>,
    init_containers: Vec<Container>,
    host_network: bool,
    node_name: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Container {
    ports: Vec<Port>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Port {
    host_port: Option<i64>,
    protocol: Option<String>,
    #[serde(rename = "hostIP")]
    host_ip: Option<String>,
}

/// The pods of manifests, in their order; other kinds than workloads are passed by. Beside them, why
/// workloads are not of the form that the API wants.
pub fn pods(documents: &[Document]) -> (Vec<PodSpec>, Vec<Error>) {
    let (mut pods, mut refused) = (Vec::new(), Vec::new());
    let mut note = |pod: Result<Option<PodSpec>, Error>| match pod {
        Ok(pod) => pods.extend(pod),
        Err(error) => refused.push(error),
    };
    for document in documents {
        let kind = |value: &Value| value.get("kind").and_then(Value::as_str).map(str::to_owned);
        match document.value().get("items").and_then(Value::as_array) {
            Some(items) => {
                for (index, item) in items.iter().enumerate() {
                    let at = format!("items[{index}]");
                    note(pod(document, &at, kind(item).as_deref()));
                }
            }
            None => note(pod(document, "", kind(document.value()).as_deref())),
        }
    }
    (pods, refused)
}

fn join(outer: &str, inner: &str) -> String {
    match (outer, inner) {
        ("", inner) => inner.to_owned(),
        (outer, "") => outer.to_owned(),
        (outer, inner) => format!("{outer}.{inner}"),
    }
}

fn pod(document: &Document, at: &str, kind: Option<&str>) -> Result<Option<PodSpec>, Error> {
    let template = TEMPLATES.iter().find(|(known, _)| Some(*known) == kind);
    let Some((kind, inner)) = template else {
        return Ok(None);
    };
    let at_template = join(at, inner);
    let outer: Outer = document.read_at(at)?;
    let template: Template = document.read_at(&at_template)?;
    let metadata = &outer.metadata;
    let namespace = [&metadata.namespace, &template.metadata.namespace];
    let namespace = namespace.into_iter().find(|name| !name.is_empty());
    let name = [&metadata.name, &metadata.generate_name];
    let name = name.into_iter().find(|name| !name.is_empty());
    let misplaced = if inner.is_empty() {
        Vec::new()
    } else {
        annotations(document, at, metadata)
    };
    Ok(Some(PodSpec {
        name: format!(
            "{}/{}",
            namespace.map_or("default", String::as_str),
            name.map_or("", String::as_str)
        ),
        kind: (*kind).to_owned(),
        place: document.place_of(at),
        bandwidth: annotations(document, &at_template, &template.metadata),
        misplaced,
        ports: ports(document, &at_template, &template.spec),
        host_network: template.spec.host_network,
        node: template.spec.node_name.filter(|name| !name.is_empty()),
        replicas: outer.spec.replicas.or(outer.spec.parallelism).unwrap_or(1),
    }))
}

fn annotations(document: &Document, at: &str, metadata: &Metadata) -> Vec<Annotation> {
    let annotation = |(key, ingress): (&str, bool)| {
        let value = metadata.annotations.get(key)?.clone();
        let place = document.place_of(&join(at, &format!("metadata.annotations.{key}")));
        Some(Annotation {
            ingress,
            value,
            place,
        })
    };
    let both = [(INGRESS, true), (EGRESS, false)];
    both.into_iter().filter_map(annotation).collect()
}

fn ports(document: &Document, at: &str, spec: &Spec) -> Vec<HostPort> {
    let lists = [
        ("containers", &spec.containers),
        ("initContainers", &spec.init_containers),
    ];
    let mut ports = Vec::new();
    for (list, containers) in lists {
        for (container, of_container) in containers.iter().enumerate() {
            for (index, port) in of_container.ports.iter().enumerate() {
                let key = format!("spec.{list}[{container}].ports[{index}].hostPort");
                if let Some(number) = port.host_port.filter(|port| *port != 0) {
                    ports.push(HostPort {
                        port: number,
                        // As the API has it where nothing is said.
                        protocol: port
                            .protocol
                            .clone()
                            .filter(|protocol| !protocol.is_empty())
                            .unwrap_or_else(|| "TCP".to_owned()),
                        host_ip: port.host_ip.clone().filter(|ip| !ip.is_empty()),
                        place: document.place_of(&join(at, &key)),
                    });
                }
            }
        }
    }
    ports
}
