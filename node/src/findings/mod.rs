//! The kinds of findings, a file for each.
//!
//! A kind is a constant `KIND` with a pure function over a [`Case`](crate::Case), and its line below.
//! What it is called, means and how it is mended is also in docs/doctor.md, to which a test compares it.

use crate::finding::Kind;

/// Declares the files and lists their kinds, in the order in which they are looked for.
macro_rules! kinds {
    ($($file:ident)*) => {
        $(mod $file;)*

        /// All kinds, in the order in which they are looked for.
        pub const KINDS: &[&Kind] = &[$(&$file::KIND),*];
    };
}

kinds! {
    own_range_route
    range_twice
    range_unrouted
    range_misrouted
    range_by_rule
    next_hop_off_link
    forwarding_off
    rp_filter
    forward_dropped
    bridge_nf_off
    bridge_taken
    bridge_down
    bridge_no_gateway
    bridge_foreign_address
    port_not_forwarding
    mtu_over_uplink
    conflist_missing
    conflist_unreadable
    conflist_version
    conflist_range
    plugin_missing
    plugin_broken
    plugin_version
    pool_nearly_full
    reservation_orphan
    link_orphan
    ifb_orphan
    rules_orphan
    hostport_shadowed
    hostport_taken
    agent_unready
    agent_finding
    agent_gone
}

#[cfg(test)]
pub(crate) mod tests;
