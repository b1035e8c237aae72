//! What makes a node's rules.

use std::ffi::OsString;
use std::fmt;

use serde_json::{Value, json};

use crate::{Node, can_read_rules};

/// What makes the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// iptables, of the variant nft.
    Nft,
    /// iptables, of the variant legacy.
    Legacy,
    /// nftables, without a program.
    Nftables,
}

impl Backend {
    /// All of them.
    pub const ALL: [Backend; 3] = [Backend::Nft, Backend::Legacy, Backend::Nftables];

    /// The value of `ipMasqBackend` and of `backend`.
    pub fn key(self) -> &'static str {
        match self {
            Backend::Nft | Backend::Legacy => "iptables",
            Backend::Nftables => "nftables",
        }
    }

    /// What a conflist of `conf/` must be told, see [`Node::conflist_with`].
    pub fn changes(self) -> [(&'static str, Value); 2] {
        [
            ("bridge", json!({ "ipMasqBackend": self.key() })),
            ("portmap", json!({ "backend": self.key() })),
        ]
    }

    /// The variant of iptables that is there.
    pub fn variant(self) -> &'static str {
        match self {
            Backend::Nft | Backend::Nftables => "nft",
            Backend::Legacy => "legacy",
        }
    }

    /// A `PATH` that has that variant; `None`, said aloud and counted, where this machine has not, or does not
    /// tell an ordinary user of its tables.
    pub fn path(self, node: &Node) -> Option<OsString> {
        if self == Backend::Legacy && !can_read_rules() {
            return None;
        }
        let variant = self.variant();
        let path = lab::iptables_path(&node.folder().join(variant), variant);
        path.map_err(|error| lab::skip(&error.to_string())).ok()
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Backend::Nft => "nft",
            Backend::Legacy => "legacy",
            Backend::Nftables => "nftables",
        })
    }
}
