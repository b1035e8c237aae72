//! What the chain does for a pod.

use std::net::IpAddr;

use cni::runtime::{NetworkList, keys_of};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::ports::text;
use super::workload::{Annotation, HostPort, PodSpec};
use super::{Binary, Note, Weight};
use crate::quantity::Quantity;

/// Kubernetes' bounds of a bandwidth, in bits per second: 1k and 1P.
const LEAST: u128 = 1_000;
const MOST: u128 = 1_000_000_000_000_000;
/// Host ports below this one need a privilege that a rootless runtime does not have.
const PRIVILEGED: i64 = 1024;

/// The chain of the conflist that is used.
#[derive(Debug)]
pub struct Chain<'a> {
    list: &'a NetworkList,
    binaries: Option<&'a [Binary]>,
}

/// A plugin of the chain, or its IPAM plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plugin {
    /// Its type.
    pub kind: String,
    /// Its binary, where that was looked at.
    pub binary: Option<Binary>,
}

/// What becomes of a pod's wishes.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// Namespace and name.
    pub name: String,
    /// `hostport_plugin` and the like, with what does it.
    pub pairs: Vec<(&'static str, String)>,
    /// What is ignored or wrong.
    pub notes: Vec<Note>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Keys {
    capabilities: Map<String, Value>,
    ingress_rate: u64,
    egress_rate: u64,
}

impl<'a> Chain<'a> {
    pub(super) fn new(list: &'a NetworkList, binaries: Option<&'a [Binary]>) -> Chain<'a> {
        Chain { list, binaries }
    }

    pub(super) fn into_plugins(self) -> Vec<Plugin> {
        let plugin = |kind: &str| Plugin {
            kind: kind.to_owned(),
            binary: self.binary(kind).cloned(),
        };
        self.list.kinds().into_iter().map(plugin).collect()
    }

    fn binary(&self, kind: &str) -> Option<&'a Binary> {
        let binaries = self.binaries?;
        binaries.iter().find(|binary| binary.kind == kind)
    }

    /// Plugins that are not there, do not answer, or do not speak the list's version.
    pub(super) fn binary_notes(&self) -> Vec<Note> {
        let version = self.list.cni_version.as_str();
        let kinds = self.list.kinds().into_iter();
        let flaw = |kind: &str| {
            let binary = self.binary(kind)?;
            let said = match (&binary.file, &binary.versions) {
                (None, _) => format!("plugin {kind} of the chain is not installed: no pod starts"),
                (Some(file), Err(reason)) => {
                    let file = file.display();
                    format!("plugin {kind} ({file}) does not answer VERSION: {reason}")
                }
                (Some(file), Ok(versions)) if !versions.iter().any(|one| one == version) => {
                    let (file, versions) = (file.display(), versions.join(", "));
                    format!(
                        "plugin {kind} ({file}) does not speak cniVersion {version} of the conflist, \
                         but {versions}"
                    )
                }
                _ => return None,
            };
            Some(Note::new(Weight::Wrong, "", said))
        };
        kinds.filter_map(flaw).collect()
    }

    /// The type of the plugin that is given a capability and can be called, or why nobody is.
    fn capable(&self, kind: &str, capability: &str) -> Result<&'a str, String> {
        let types = || {
            self.list
                .plugins
                .iter()
                .map(|plugin| (type_of(plugin), plugin))
        };
        let is_set = |keys: &Keys| keys.capabilities.get(capability) == Some(&Value::Bool(true));
        let found = types().find(|(_, plugin)| is_set(&keys_of(plugin)));
        let name = &self.list.name;
        let Some((found, plugin)) = found else {
            let mut named = types().map(|(found, _)| found);
            return Err(match named.find(|found| standard(found) == kind) {
                Some(found) => format!(
                    "{found} is in the chain of {name:?} without \"capabilities\": {{\"{capability}\": true}}"
                ),
                None => {
                    format!("no plugin of the chain of {name:?} has the capability {capability}")
                }
            });
        };
        let keys: Keys = keys_of(plugin);
        if kind == "bandwidth" && (keys.ingress_rate > 0 || keys.egress_rate > 0) {
            return Err(format!(
                "{found} has rates in the conflist, which win over annotations"
            ));
        }
        match self.binary(found) {
            Some(Binary { file: None, .. }) => Err(format!("{found} is not installed")),
            _ => Ok(found),
        }
    }
}

fn type_of(plugin: &Map<String, Value>) -> &str {
    let mut keys = plugin.iter();
    let kind = keys.find(|(key, _)| key.eq_ignore_ascii_case("type"));
    kind.and_then(|(_, kind)| kind.as_str()).unwrap_or_default()
}

fn standard(kind: &str) -> &str {
    kind.strip_suffix("-lite").unwrap_or(kind)
}

/// What the chain, where there is one, does for a pod.
pub(super) fn judge(chain: Option<&Chain>, pod: &PodSpec, rootless: bool) -> Judged {
    let mut judged = Judged {
        name: pod.name.clone(),
        pairs: Vec::new(),
        notes: Vec::new(),
    };
    let capable = |kind: &str, capability: &str| match chain {
        Some(chain) => chain.capable(kind, capability).map(str::to_owned),
        None => Err("there is no conflist".to_owned()),
    };
    if !pod.ports.is_empty() && !pod.host_network {
        let portmap = capable("portmap", "portMappings");
        judged.note_ports(pod, portmap);
    }
    for port in &pod.ports {
        judged.note_port(pod, port, rootless);
    }
    if !pod.bandwidth.is_empty() {
        let bandwidth = if pod.host_network {
            Err("it has the node's network, and no plugin is called for it".to_owned())
        } else {
            capable("bandwidth", "bandwidth")
        };
        judged.note_bandwidth(pod, bandwidth);
    }
    for annotation in &pod.misplaced {
        let (key, kind, name) = (annotation.key(), &pod.kind, &pod.name);
        let said = format!(
            "annotation {key} of {kind} {name}: it is on the {kind} itself, and its pods have those of \
             the template"
        );
        judged
            .notes
            .push(Note::new(Weight::Ignored, &annotation.place, said));
    }
    judged
}

impl Judged {
    fn note_ports(&mut self, pod: &PodSpec, portmap: Result<String, String>) {
        match portmap {
            Ok(kind) => self.pairs.push(("hostport_plugin", kind)),
            Err(reason) => self.notes.extend(pod.ports.iter().map(|port| {
                let said = format!("hostPort {} of {}: {reason}", text(port), pod.name);
                Note::new(Weight::Ignored, &port.place, said)
            })),
        }
    }

    fn note_port(&mut self, pod: &PodSpec, port: &HostPort, rootless: bool) {
        let mut note = |weight, said: &str| {
            let said = format!("hostPort {} of {}: {said}", text(port), pod.name);
            self.notes.push(Note::new(weight, &port.place, said));
        };
        if !(1..=65535).contains(&port.port) {
            note(Weight::Wrong, "expected a number from 1 to 65535");
        } else if rootless && port.port < PRIVILEGED {
            note(
                Weight::Warning,
                "a rootless runtime cannot have a port below 1024",
            );
        }
        if !["TCP", "UDP", "SCTP"].contains(&port.protocol.as_str()) {
            note(Weight::Wrong, "expected the protocol TCP, UDP or SCTP");
        }
        match port.host_ip.as_deref().map(str::parse::<IpAddr>) {
            Some(Err(_)) => note(Weight::Wrong, "its hostIP is no address"),
            Some(Ok(IpAddr::V6(ip))) if ip.is_loopback() => {
                note(
                    Weight::Warning,
                    "the kernel does not route ::1, so it does not answer there",
                );
            }
            _ => {}
        }
    }

    fn note_bandwidth(&mut self, pod: &PodSpec, bandwidth: Result<String, String>) {
        if let Ok(kind) = &bandwidth {
            self.pairs.push(("bandwidth_plugin", kind.clone()));
        }
        for annotation in &pod.bandwidth {
            if let Err(reason) = rate(annotation) {
                let said = format!("annotation {} of {}: {reason}", annotation.key(), pod.name);
                self.notes
                    .push(Note::new(Weight::Wrong, &annotation.place, said));
            }
            match &bandwidth {
                Ok(_) => {
                    let key = if annotation.ingress {
                        "ingress_annotation"
                    } else {
                        "egress_annotation"
                    };
                    let value = annotation.value.as_str().map(str::to_owned);
                    let value = value.unwrap_or_else(|| annotation.value.to_string());
                    self.pairs.push((key, value));
                }
                Err(reason) => {
                    let said = format!("annotation {} of {}: {reason}", annotation.key(), pod.name);
                    self.notes
                        .push(Note::new(Weight::Ignored, &annotation.place, said));
                }
            }
        }
    }
}

/// Refuses what Kubernetes refuses; the pod does not start then.
fn rate(annotation: &Annotation) -> Result<(), String> {
    let Some(text) = annotation.value.as_str() else {
        let value = &annotation.value;
        return Err(format!(
            "{value} is no text, as the API wants it: expected quotes around it"
        ));
    };
    if Quantity::parse(text)?.is_within(LEAST, MOST) {
        return Ok(());
    }
    Err(format!(
        "{text:?} is out of Kubernetes' bounds: expected 1k to 1P (bits per second)"
    ))
}
