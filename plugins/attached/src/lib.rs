//! What the plugins of a chain share about an attachment on this node.
//!
//! Each plugin sees the same pod by the same `CNI_NETNS` ([`netns`]) and at the same veth pair
//! ([`pair`]), knows links again from results in the same way ([`link`]), and marks its own in the
//! same way ([`marks`]). [`rules`] says whose NAT rules are, and what their
//! errors are to the runtime. What a plugin makes of them is its own.

pub mod link;
pub mod marks;
pub mod netns;
pub mod pair;
pub mod rules;

pub use marks::Marks;
pub use pair::Pair;
pub use rules::{RulesContext, owner};
