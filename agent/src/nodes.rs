//! The nodes as the API has told of them, from lists and what changed since.

use std::collections::BTreeMap;

use plan::kubernetes::Told;

/// What the API tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// A list begins.
    Begin,
    /// One of the list.
    Listed(Told),
    /// The list was told whole.
    Complete,
    /// A node has come, or is another than before.
    Applied(Told),
    /// The node of that name is no more.
    Deleted(String),
}

/// The nodes, where a list of them was once told whole. What a new list does not name goes with its end
/// and not before: half a list removes nobody.
#[derive(Debug, Default)]
pub struct Nodes {
    known: Option<BTreeMap<String, Told>>,
    listing: BTreeMap<String, Told>,
}

impl Nodes {
    /// Takes in what is told; whether anything has changed.
    pub fn hear(&mut self, heard: Heard) -> bool {
        match heard {
            Heard::Begin => {
                self.listing.clear();
                false
            }
            Heard::Listed(told) => {
                self.listing.insert(told.name.clone(), told);
                false
            }
            Heard::Complete => {
                let listed = Some(std::mem::take(&mut self.listing));
                let changed = listed != self.known;
                self.known = listed;
                changed
            }
            Heard::Applied(told) => {
                let Some(known) = &mut self.known else {
                    return false;
                };
                if known.get(&told.name) == Some(&told) {
                    return false;
                }
                known.insert(told.name.clone(), told);
                true
            }
            Heard::Deleted(name) => {
                let known = self.known.as_mut();
                known.is_some_and(|known| known.remove(&name).is_some())
            }
        }
    }

    /// All nodes; `None` until they are known.
    pub fn told(&self) -> Option<Vec<Told>> {
        let known = self.known.as_ref()?;
        Some(known.values().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(name: &str, range: &str) -> Told {
        Told {
            name: name.to_owned(),
            ranges: vec![range.to_owned()],
            ..Told::default()
        }
    }

    fn names(nodes: &Nodes) -> Option<Vec<String>> {
        let told = nodes.told()?;
        Some(told.into_iter().map(|told| told.name).collect())
    }

    #[test]
    fn half_a_list_removes_nobody() {
        let mut nodes = Nodes::default();
        assert!(!nodes.hear(Heard::Begin));
        assert!(!nodes.hear(Heard::Listed(told("a", "x"))));
        assert_eq!(names(&nodes), None);
        assert!(!nodes.hear(Heard::Listed(told("b", "x"))));
        assert!(nodes.hear(Heard::Complete));
        let both = Some(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(names(&nodes), both);
        // The next one breaks off, and one more begins.
        nodes.hear(Heard::Begin);
        nodes.hear(Heard::Listed(told("c", "x")));
        assert_eq!(names(&nodes), both);
        nodes.hear(Heard::Begin);
        nodes.hear(Heard::Listed(told("a", "x")));
        assert_eq!(names(&nodes), both);
        assert!(nodes.hear(Heard::Complete));
        assert_eq!(names(&nodes), Some(vec!["a".to_owned()]));
    }

    #[test]
    fn only_what_matters_is_a_change() {
        let mut nodes = Nodes::default();
        assert!(!nodes.hear(Heard::Applied(told("a", "x"))));
        nodes.hear(Heard::Begin);
        nodes.hear(Heard::Complete);
        assert!(nodes.hear(Heard::Applied(told("a", "x"))));
        assert!(!nodes.hear(Heard::Applied(told("a", "x"))));
        assert!(nodes.hear(Heard::Applied(told("a", "y"))));
        assert!(nodes.hear(Heard::Deleted("a".to_owned())));
        assert!(!nodes.hear(Heard::Deleted("a".to_owned())));
    }
}
