//! One family of addresses, and what tests write in it.

use std::net::IpAddr;

/// A family of addresses, of a node that has no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// What stands for what, in the networks of the conflists.
const WORDS: [(&str, &str, &str); 12] = [
    // The pod's address, its prefix's length, and another address of its network.
    ("$IP", "10.244.0.2", "fd00:10:244::2"),
    ("$LEN", "24", "64"),
    ("$NINTH", "10.244.0.9", "fd00:10:244::9"),
    // The gateway, the network, the pods of all nodes, and everything.
    ("$GATEWAY", "10.244.0.1", "fd00:10:244::1"),
    ("$NET", "10.244.0.0/24", "fd00:10:244::/64"),
    ("$PODS", "10.244.0.0/16", "fd00:10:244::/56"),
    ("$ALL", "0.0.0.0/0", "::/0"),
    // Everything of the other family, and a network elsewhere.
    ("$OTHERS", "::/0", "0.0.0.0/0"),
    ("$FAR", "10.200.0.0/16", "fd00:200::/32"),
    // The program of rules; an option of `ip`, and what keeps it from waiting.
    ("$TABLES", "iptables", "ip6tables"),
    ("$F", "-4", "-6"),
    ("$NODAD", "", "nodad"),
];

impl Family {
    /// Both.
    pub const ALL: [Family; 2] = [Family::V4, Family::V6];

    /// The family of an address.
    pub fn of(address: IpAddr) -> Family {
        match address {
            IpAddr::V4(_) => Family::V4,
            IpAddr::V6(_) => Family::V6,
        }
    }

    /// The conflist of `conf/` whose pods have an address of this family alone.
    pub fn conflist(self) -> &'static str {
        self.pick("10-k8nd.conflist", "30-ipv6.conflist")
    }

    /// The node's address on the outside host's network.
    pub fn node(self) -> IpAddr {
        crate::at(self.pick("192.0.2.10", "2001:db8::10"))
    }

    /// One of two, by the family.
    pub fn pick<T>(self, v4: T, v6: T) -> T {
        match self {
            Family::V4 => v4,
            Family::V6 => v6,
        }
    }

    /// The text with the family's words for `$IP`, `$LEN`, `$NINTH`, `$GATEWAY`, `$NET`, `$PODS`,
    /// `$ALL`, `$OTHERS`, `$FAR`, `$TABLES`, `$F` and `$NODAD`.
    pub fn expand(self, text: &str) -> String {
        let replace = |text: String, (word, v4, v6): &(&str, &str, &str)| {
            text.replace(word, self.pick(v4, v6))
        };
        WORDS.iter().fold(text.to_owned(), replace)
    }
}
