//! What was found, for people and for programs.

use cni::one_line;
use serde_json::{Value, json};

use super::chain::{Judged, Plugin};
use super::{Note, Weight};

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The conflist that a runtime would use.
    pub file: Option<String>,
    /// Why.
    pub because: String,
    /// The network's name.
    pub network: Option<String>,
    /// The chain's plugins, each once; IPAM plugins behind theirs.
    pub plugins: Vec<Plugin>,
    /// Each pod.
    pub judged: Vec<Judged>,
    /// What is not about one pod.
    pub notes: Vec<Note>,
}

impl Report {
    fn all_notes(&self) -> impl Iterator<Item = &Note> {
        let of_pods = self.judged.iter().flat_map(|pod| &pod.notes);
        self.notes.iter().chain(of_pods)
    }

    /// Whether nothing is ignored or wrong.
    pub fn is_good(&self) -> bool {
        self.all_notes().all(|note| note.weight == Weight::Warning)
    }

    /// Lines.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |key: &str, value: &str| {
            text.push_str(&format!("{key}={}\n", one_line(value)));
        };
        line("conflist", self.file.as_deref().unwrap_or_default());
        line("because", &self.because);
        line("network", self.network.as_deref().unwrap_or_default());
        let kinds: Vec<&str> = self
            .plugins
            .iter()
            .map(|plugin| plugin.kind.as_str())
            .collect();
        line("plugins", &kinds.join(","));
        for plugin in &self.plugins {
            if let Some(binary) = &plugin.binary {
                let file = binary.file.as_ref().map(|file| file.display().to_string());
                let versions = binary.versions.as_ref().map(|versions| versions.join(","));
                line(
                    "plugin",
                    &format!(
                        "{} file={} versions={}",
                        plugin.kind,
                        file.unwrap_or_default(),
                        versions.unwrap_or_default()
                    ),
                );
            }
        }
        text.extend(self.notes.iter().map(Note::text));
        for pod in &self.judged {
            text.push_str(&format!("pod={}\n", one_line(&pod.name)));
            for (key, value) in &pod.pairs {
                text.push_str(&format!("{key}={}\n", one_line(value)));
            }
            text.extend(pod.notes.iter().map(Note::text));
        }
        text
    }

    /// The same for programs.
    pub fn to_json(&self) -> Value {
        let said = |notes: &[Note], weight| -> Vec<String> {
            let notes = notes.iter().filter(|note| note.weight == weight);
            notes.map(|note| note.said.clone()).collect()
        };
        let with_notes = |mut object: Value, notes: &[Note]| {
            for (key, weight) in [
                ("ignored", Weight::Ignored),
                ("wrong", Weight::Wrong),
                ("warnings", Weight::Warning),
            ] {
                object[key] = json!(said(notes, weight));
            }
            object
        };
        let plugin = |plugin: &Plugin| match &plugin.binary {
            None => json!({ "type": plugin.kind }),
            Some(binary) => match &binary.versions {
                Ok(versions) => json!({
                    "type": plugin.kind, "file": binary.file, "supportedVersions": versions,
                }),
                Err(error) => json!({
                    "type": plugin.kind, "file": binary.file, "error": error,
                }),
            },
        };
        let pod = |pod: &Judged| {
            let mut object = json!({ "pod": pod.name });
            for (key, value) in &pod.pairs {
                object[key] = json!(value);
            }
            with_notes(object, &pod.notes)
        };
        let object = json!({
            "conflist": self.file,
            "because": self.because,
            "network": self.network,
            "plugins": self.plugins.iter().map(plugin).collect::<Vec<_>>(),
            "pods": self.judged.iter().map(pod).collect::<Vec<_>>(),
        });
        with_notes(object, &self.notes)
    }
}
