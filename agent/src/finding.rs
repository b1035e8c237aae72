//! What is wrong with a node, or is waited for.

use std::fmt;

/// How long a node's name is at most, as for Kubernetes.
const MOST_OF_NAME: usize = 253;
/// How long a message is at most: more no event takes.
pub(crate) const MOST_OF_MESSAGE: usize = 1000;

/// What is wrong with a node, or is waited for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The node that it is about.
    pub node: String,
    /// Why, in a word to search for.
    pub reason: Reason,
    /// What it is, what it means and what to do.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.node, self.reason, self.message)
    }
}

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// Why something is wrong, in a word to search for: as events and metrics have it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Reason {
            /// All there are.
            pub const ALL: &[Reason] = &[$(Reason::$name,)+];

            /// The word.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Reason::$name => stringify!($name),)+
                }
            }
        }
    };
}

reasons! {
    /// The API knows no node of this one's name.
    NodeUnknown,
    /// A name is none that a node can have.
    BadName,
    /// A node has no pod range yet.
    NoPodRange,
    /// A pod range cannot be used.
    BadPodRange,
    /// Two nodes' pod ranges overlap.
    PodRangeOverlaps,
    /// A pod range holds addresses of nodes.
    PodRangeHoldsNodes,
    /// A pod range holds an address that this node needs.
    PodRangeCutsOff,
    /// A node's pod range is not the one that its pods have addresses of.
    PodRangeChanged,
    /// A node has no address of the family of its pod range.
    NoAddress,
    /// An address of a node is none by which a route can lead.
    BadAddress,
    /// An address of another node is this machine's own.
    AddressIsOurs,
    /// Two nodes have one address.
    AddressShared,
    /// A node's address is in no network of a link here.
    NextHopOffLink,
    /// Another's route is in the way.
    ForeignRoute,
    /// The kernel refused a route.
    RouteRefused,
    /// Routes or links of this node cannot be read.
    KernelUnread,
    /// The conflist cannot be written.
    ConflistFailed,
    /// Another's conflist is the one that the runtime takes.
    ConflistHidden,
    /// A plugin of the conflist is not in its folder.
    PluginMissing,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Finding {
    /// What is wrong with a node.
    pub fn new(node: &str, reason: Reason, message: impl Into<String>) -> Finding {
        Finding {
            node: printable(node, MOST_OF_NAME),
            reason,
            message: printable(&message.into(), MOST_OF_MESSAGE),
        }
    }
}

/// Who may write Nodes may write to whoever reads of them, but no lines of their own and no books.
pub(crate) fn printable(text: &str, most: usize) -> String {
    let mut all = text.chars();
    let mut printable: String = all
        .by_ref()
        .take(most)
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect();
    if all.next().is_some() {
        printable.push('…');
    }
    printable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_have_written_is_one_line_and_no_book() {
        let long = "x".repeat(10 << 20);
        let finding = Finding::new(&long, Reason::BadName, format!("a\n\u{1b}[2J{long}"));
        let text = finding.to_string();
        assert!(text.len() < 2000 && !text.contains(char::is_control));
        let usual = Finding::new("node-1", Reason::NoPodRange, "no range");
        assert_eq!(usual.to_string(), "node-1: NoPodRange: no range");
    }
}
