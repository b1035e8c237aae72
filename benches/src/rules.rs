//! How a node's rules are made.

use serde::Serialize;
use serde_json::{Map, Value, json};

/// The backends, iptables in both of its variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rules {
    /// iptables over nf_tables.
    IptablesNft,
    /// iptables over its own tables.
    IptablesLegacy,
    /// The plugins' nftables backends.
    Nftables,
}

impl Rules {
    /// All.
    pub const ALL: [Rules; 3] = [Rules::IptablesNft, Rules::IptablesLegacy, Rules::Nftables];

    /// As people call it.
    pub fn name(self) -> &'static str {
        match self {
            Rules::IptablesNft => "iptables-nft",
            Rules::IptablesLegacy => "iptables-legacy",
            Rules::Nftables => "nftables",
        }
    }

    /// The variant of iptables that a node must have.
    pub fn variant(self) -> Option<&'static str> {
        match self {
            Rules::IptablesNft => Some("nft"),
            Rules::IptablesLegacy => Some("legacy"),
            Rules::Nftables => None,
        }
    }

    /// What a bridge's configuration says of it.
    pub fn of_bridge(self) -> Map<String, Value> {
        self.key("ipMasqBackend")
    }

    /// What portmap's configuration says of it.
    pub fn of_portmap(self) -> Map<String, Value> {
        self.key("backend")
    }

    fn key(self, key: &str) -> Map<String, Value> {
        let mut keys = Map::new();
        if self == Rules::Nftables {
            keys.insert(key.to_owned(), json!("nftables"));
        }
        keys
    }
}
