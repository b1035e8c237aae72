//! A person's file: YAML or JSON as one value that knows the line of each of its keys.

use std::collections::HashMap;

use saphyr::{LoadableYamlNode, MarkedYaml, Scalar, YamlData};
use saphyr_parser::{Event, Parser, ScanError};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::error::{in_words, key_of};
use crate::{Error, Fault};

/// How deep lists and objects may be nested: no honest file is deeper, and whoever walks over the
/// value may call itself.
const DEEPEST: usize = 64;

/// One document of a file, or what stands for a file where there is none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Document {
    name: String,
    value: Value,
    places: HashMap<String, Place>,
}

/// What is known of a node from elsewhere than the file.
#[derive(Debug, Clone, PartialEq)]
pub struct GivenNode {
    /// Which node.
    pub name: String,
    /// Keys of the node, each with a scalar or a list of scalars.
    pub keys: Vec<(&'static str, Value)>,
    /// Where that comes from, as `--node`.
    pub from: String,
}

/// What becomes of a key that the file has as well, and of a node that it does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merge {
    /// The file's is replaced, nodes are added.
    Over,
    /// The file's stays, nodes are added.
    Under,
    /// The file's stays, and so do its nodes alone.
    Known,
}

/// Where a value stands.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    /// The line of the file, counted from 1.
    Line(usize),
    /// Somewhere else, as an option of the command line.
    Elsewhere(String),
}

impl Document {
    /// A document without keys, as of an empty file.
    pub fn empty() -> Document {
        Document {
            value: Value::Object(Map::new()),
            ..Document::default()
        }
    }

    /// The documents of a file; `name` is what errors call it. Documents without content are left
    /// out.
    ///
    /// # Errors
    /// It is neither YAML nor JSON; a key is repeated; it is nested too deep.
    pub fn parse_all(name: &str, text: &str) -> Result<Vec<Document>, Error> {
        let nodes = match load(text) {
            Ok(nodes) => nodes,
            // What JSON can say and YAML cannot, as half of a character.
            Err(refusal) => {
                let json = refusal
                    .may_be_json()
                    .then(|| Self::without_lines(name, text));
                let json = json.flatten().map(|document| vec![document]);
                return json.ok_or_else(|| refusal.at(name));
            }
        };
        let documents = nodes.into_iter().map(|node| Document::of(name, &node));
        let with_content = |document: &Result<Document, Error>| !matches!(document, Ok(document) if document.value.is_null());
        documents.filter(with_content).collect()
    }

    /// The one document of a file; an empty file has no keys.
    ///
    /// # Errors
    /// As [`Document::parse_all`]; there are several, or it is no object.
    pub fn parse(name: &str, text: &str) -> Result<Document, Error> {
        let mut all = Document::parse_all(name, text)?.into_iter();
        let document = all.next().unwrap_or_else(|| Document {
            name: name.to_owned(),
            ..Document::empty()
        });
        if let Some(second) = all.next() {
            let reason = "a second document begins here, and only one is expected";
            return Err(second.locate(Fault::new("", reason)));
        }
        Ok(document)
    }

    /// A document of JSON as plugins read it, with the last of a repeated key, and without lines;
    /// `None` where it is none.
    pub fn without_lines(name: &str, text: &str) -> Option<Document> {
        Some(Document {
            name: name.to_owned(),
            value: serde_json::from_str(text).ok()?,
            ..Document::default()
        })
    }

    fn of(name: &str, node: &MarkedYaml<'_>) -> Result<Document, Error> {
        let mut document = Document {
            name: name.to_owned(),
            ..Document::default()
        };
        document.value = document.take(node, String::new())?;
        Ok(document)
    }

    /// The node's value; the lines of all its keys are noted.
    fn take(&mut self, node: &MarkedYaml<'_>, key: String) -> Result<Value, Error> {
        let line = node.span.start.line();
        let value = match &node.data {
            YamlData::Value(scalar) => of_scalar(scalar),
            YamlData::Sequence(items) => {
                let item = |(index, item)| self.take(item, format!("{key}[{index}]"));
                let items = items.iter().enumerate().map(item);
                items.collect::<Result<Vec<_>, _>>().map(Value::Array)?
            }
            YamlData::Mapping(pairs) => {
                let mut object = Map::new();
                for (name, value) in pairs {
                    let name = self.name_of(name)?;
                    let key = join(&key, &name);
                    let value = self.take(value, key)?;
                    object.insert(name, value);
                }
                Value::Object(object)
            }
            YamlData::Tagged(_, inner) => return self.take(inner, key),
            YamlData::Representation(..) | YamlData::Alias(_) | YamlData::BadValue => {
                self.places.insert(key.clone(), Place::Line(line));
                return Err(self.locate(Fault::new(key, "not of the type that its tag says")));
            }
        };
        self.places.insert(key, Place::Line(line));
        Ok(value)
    }

    fn name_of(&self, node: &MarkedYaml<'_>) -> Result<String, Error> {
        match &node.data {
            YamlData::Value(Scalar::String(name)) => Ok(name.to_string()),
            YamlData::Value(other) => Ok(of_scalar(other).to_string()),
            _ => {
                let reason = "a key must be a text".to_owned();
                Err(at(&self.name, node.span.start.line(), reason))
            }
        }
    }

    /// What the file is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The whole value.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The line of a key, or of the innermost key around it that has one.
    pub fn line(&self, key: &str) -> Option<usize> {
        match self.place(key)? {
            Place::Line(line) => Some(*line),
            Place::Elsewhere(_) => None,
        }
    }

    fn place(&self, key: &str) -> Option<&Place> {
        std::iter::successors(Some(key), |key| outer(key)).find_map(|key| self.places.get(key))
    }

    /// Reads the whole as a `T`.
    ///
    /// # Errors
    /// It is no object; a key is unknown or its value is not what it must be.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Error> {
        if !self.value.is_object() {
            let reason = format!("expected keys with values, not {}", self.value);
            return Err(self.locate(Fault::new("", reason)));
        }
        serde_path_to_error::deserialize(&self.value).map_err(|error| {
            self.locate(Fault::new(
                key_of(error.path()),
                in_words(&error.inner().to_string()),
            ))
        })
    }

    /// Reads what stands at a key as a `T`, where `null` counts as absent, as for Kubernetes.
    ///
    /// # Errors
    /// It is not what it must be.
    pub fn read_at<T: DeserializeOwned + Default>(&self, key: &str) -> Result<T, Error> {
        let Some(value) = self.value_at(key).map(without_nulls) else {
            return Ok(T::default());
        };
        serde_path_to_error::deserialize(&value).map_err(|error| {
            let inner = key_of(error.path());
            let key = match (key, inner.as_str()) {
                (key, "") => key.to_owned(),
                (key, inner) => join(key, inner),
            };
            self.locate(Fault::new(key, in_words(&error.inner().to_string())))
        })
    }

    fn value_at(&self, key: &str) -> Option<&Value> {
        let mut parts = key.split(['.', '[']).filter(|part| !part.is_empty());
        parts.try_fold(&self.value, |value, part| match part.strip_suffix(']') {
            Some(index) => value.get(index.parse::<usize>().ok()?),
            None => value.get(part),
        })
    }

    /// The file and the line of a key.
    pub fn place_of(&self, key: &str) -> String {
        let line = self.line(key);
        line.map_or(self.name.clone(), |line| format!("{}:{line}", self.name))
    }

    /// The fault with its place.
    pub fn locate(&self, fault: Fault) -> Error {
        let Fault { key, reason } = fault;
        match self.place(&key) {
            Some(Place::Elsewhere(place)) => Error {
                place: place.clone(),
                key: String::new(),
                reason,
            },
            Some(Place::Line(line)) => Error {
                place: format!("{}:{line}", self.name),
                key,
                reason,
            },
            None => Error {
                place: self.name.clone(),
                key,
                reason,
            },
        }
    }

    /// Puts a value in the place of a key of the top level; `from` is where it comes from, as
    /// `--pod-cidr`.
    pub fn set(&mut self, key: &str, value: Value, from: &str) {
        if let Value::Object(object) = &mut self.value {
            object.insert(key.to_owned(), value);
            self.place_elsewhere(key.to_owned(), from);
        }
    }

    /// The value of `key`, a scalar or a list of scalars, is no longer the file's.
    fn place_elsewhere(&mut self, key: String, from: &str) {
        let items = (0..).map(|index| format!("{key}[{index}]"));
        for item in items {
            if self.places.remove(&item).is_none() {
                break;
            }
        }
        self.places.insert(key, Place::Elsewhere(from.to_owned()));
    }

    /// Adds what is known of nodes from elsewhere, keys to a node of that name.
    ///
    /// A list that is none is left for [`Document::read`] to refuse.
    pub fn add_nodes(&mut self, given: Vec<GivenNode>, merge: Merge) {
        let Value::Object(object) = &mut self.value else {
            return;
        };
        let nodes = object
            .entry("nodes")
            .or_insert_with(|| Value::Array(Vec::new()));
        let Value::Array(nodes) = nodes else { return };
        let mut known = indices(nodes);
        let mut taken = Vec::new();
        for node in given {
            let index = known.get(&node.name).copied().unwrap_or(nodes.len());
            if index == nodes.len() {
                if merge == Merge::Known {
                    continue;
                }
                nodes.push(json!({ "name": node.name }));
                taken.push((format!("nodes[{index}]"), node.from.clone()));
                known.insert(node.name, index);
            }
            let Some(Value::Object(object)) = nodes.get_mut(index) else {
                continue;
            };
            for (key, value) in node.keys {
                if merge == Merge::Over || !object.contains_key(key) {
                    object.insert(key.to_owned(), value);
                    taken.push((format!("nodes[{index}].{key}"), node.from.clone()));
                }
            }
        }
        for (key, from) in taken {
            self.place_elsewhere(key, &from);
        }
    }

    /// The first node that is given another value for `key` than the file has, as a fault of the
    /// file's, with what it is given.
    pub fn disagreement(&self, given: &[GivenNode], key: &str) -> Option<(String, &Value, Value)> {
        let nodes = self.value.get("nodes")?.as_array()?;
        let known = indices(nodes);
        given.iter().find_map(|node| {
            let index = *known.get(&node.name)?;
            let here = nodes.get(index)?.get(key)?;
            let (_, there) = node.keys.iter().find(|(name, _)| *name == key)?;
            let differs = values(here) != values(there);
            differs.then(|| (format!("nodes[{index}].{key}"), here, there.clone()))
        })
    }
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let there = object.iter().filter(|(_, value)| !value.is_null());
            let there = there.map(|(key, value)| (key.clone(), without_nulls(value)));
            there.collect::<Map<_, _>>().into()
        }
        Value::Array(items) => items.iter().map(without_nulls).collect::<Vec<_>>().into(),
        other => other.clone(),
    }
}

/// Where each node stands in the list.
fn indices(nodes: &[Value]) -> HashMap<String, usize> {
    let name = |node: &Value| Some(node.get("name")?.as_str()?.to_owned());
    let nodes = nodes.iter().enumerate();
    nodes
        .filter_map(|(index, node)| Some((name(node)?, index)))
        .collect()
}

/// One value, several, or a text with several.
fn values(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().flat_map(values).collect(),
        Value::String(text) => text.split(',').map(|part| part.trim().to_owned()).collect(),
        other => vec![other.to_string()],
    }
}

/// The key of `name` inside `outer`.
fn join(outer: &str, name: &str) -> String {
    if outer.is_empty() {
        name.to_owned()
    } else {
        format!("{outer}.{name}")
    }
}

/// The key around a key.
fn outer(key: &str) -> Option<&str> {
    let end = key.rfind(['.', '[']).unwrap_or(0);
    if key.is_empty() { None } else { key.get(..end) }
}

fn of_scalar(scalar: &Scalar<'_>) -> Value {
    match scalar {
        Scalar::Null => Value::Null,
        Scalar::Boolean(flag) => (*flag).into(),
        Scalar::Integer(number) => (*number).into(),
        Scalar::FloatingPoint(number) => of_float(number.into_inner()),
        Scalar::String(text) => text.to_string().into(),
    }
}

/// What is no number to JSON stays a text, that whoever reads it may say so.
fn of_float(number: f64) -> Value {
    match number {
        number if number.is_finite() => number.into(),
        number if number.is_nan() => ".nan".into(),
        number if number > 0.0 => ".inf".into(),
        _ => "-.inf".into(),
    }
}

/// Why a text is not loaded.
enum Refusal {
    /// It is no YAML.
    Scan(ScanError),
    /// It is nested too deep at that line.
    Deep(usize),
}

impl Refusal {
    fn may_be_json(&self) -> bool {
        match self {
            Refusal::Scan(error) => !error.info().starts_with("duplicated key"),
            Refusal::Deep(_) => false,
        }
    }

    fn at(&self, name: &str) -> Error {
        match self {
            Refusal::Scan(error) => {
                let reason = format!("neither YAML nor JSON: {}", error.info());
                at(name, error.marker().line(), reason)
            }
            Refusal::Deep(line) => at(name, *line, format!("nested deeper than {DEEPEST} times")),
        }
    }
}

fn at(name: &str, line: usize, reason: String) -> Error {
    Error {
        place: format!("{name}:{line}"),
        key: String::new(),
        reason,
    }
}

/// The loader calls itself for what is nested, so the depth is looked at first.
fn load(text: &str) -> Result<Vec<MarkedYaml<'_>>, Refusal> {
    let mut depth = 0_usize;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(Refusal::Scan)?;
        match event {
            Event::SequenceStart(..) | Event::MappingStart(..) => depth += 1,
            Event::SequenceEnd | Event::MappingEnd => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEEPEST {
            return Err(Refusal::Deep(span.start.line()));
        }
    }
    MarkedYaml::load_from_str(text).map_err(Refusal::Scan)
}

#[cfg(test)]
mod tests;
