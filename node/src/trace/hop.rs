//! A step of a packet's path.

use std::fmt;

use firewall::view::quote;

/// Seen from the pod, or from the node where no pod of it is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Away from it.
    Out,
    /// Towards it; with a destination, into the pod that has the address.
    In,
}

/// A step of a packet's path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hop {
    /// Which way.
    pub way: Way,
    /// What it is: `pod-link`, `veth`, `route`, …
    pub kind: &'static str,
    /// Which one.
    pub name: String,
    /// What is so of it, each a key and its value.
    pub facts: Vec<(&'static str, String)>,
    /// Why no packet goes on from here.
    pub fault: Option<String>,
}

impl Way {
    /// As it is printed.
    pub fn as_str(self) -> &'static str {
        match self {
            Way::Out => "out",
            Way::In => "in",
        }
    }
}

impl Hop {
    pub(super) fn new(way: Way, kind: &'static str, name: impl fmt::Display) -> Hop {
        Hop {
            way,
            kind,
            name: name.to_string(),
            facts: Vec::new(),
            fault: None,
        }
    }

    pub(super) fn fact(mut self, key: &'static str, value: impl fmt::Display) -> Hop {
        self.facts.push((key, value.to_string()));
        self
    }

    /// The same, where there is a value.
    pub(super) fn fact_of(self, key: &'static str, value: Option<impl fmt::Display>) -> Hop {
        match value {
            Some(value) => self.fact(key, value),
            None => self,
        }
    }

    /// All values with commas, where there are some.
    pub(super) fn list<T: fmt::Display>(
        self,
        key: &'static str,
        values: impl IntoIterator<Item = T>,
    ) -> Hop {
        let values = values.into_iter().map(|value| value.to_string());
        let values: Vec<String> = values.collect();
        match values.is_empty() {
            true => self,
            false => self.fact(key, values.join(",")),
        }
    }

    /// The first fault is the one that is told.
    pub(super) fn fault_if(mut self, is_so: bool, why: impl fmt::Display) -> Hop {
        if is_so && self.fault.is_none() {
            self.fault = Some(why.to_string());
        }
        self
    }
}

/// One line of words as a shell reads them: way, kind, name, each fact as `key=value`, and the fault
/// as one more. Names that others have given may have line feeds in them.
impl fmt::Display for Hop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |text: &str| quote(&text.replace(char::is_control, " ")).to_string();
        write!(
            f,
            "{} {} {}",
            self.way.as_str(),
            self.kind,
            word(&self.name)
        )?;
        let facts = self.facts.iter().map(|(key, value)| (*key, value));
        for (key, value) in facts.chain(self.fault.iter().map(|why| ("fault", why))) {
            write!(f, " {key}={}", word(value))?;
        }
        Ok(())
    }
}
