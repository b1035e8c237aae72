//! By what rules are made.

use std::fmt;

use crate::deadline::Deadline;
use crate::iptables::Tool;
use crate::nft;
use crate::rule::Family;

/// By what rules are made. They are removed wherever they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// The programs of iptables, in the table `nat`.
    Iptables,
    /// nf_tables by netlink, in tables of our own. No program is needed.
    Nftables,
}

impl Backend {
    /// The backend of that name.
    pub fn parse(name: &str) -> Option<Backend> {
        match name {
            "iptables" => Some(Backend::Iptables),
            "nftables" => Some(Backend::Nftables),
            _ => None,
        }
    }

    /// Where nobody has chosen: iptables, unless its programs are not there and the kernel lets us
    /// speak to nf_tables. Nothing is changed, and no program is started.
    pub fn of_node() -> Backend {
        let programs = Family::ALL.map(|family| Tool::default_of(family, Deadline::start()));
        if programs.iter().all(Result::is_err) && nft::is_there() {
            Backend::Nftables
        } else {
            Backend::Iptables
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Backend::Iptables => "iptables",
            Backend::Nftables => "nftables",
        })
    }
}
