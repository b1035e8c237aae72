//! Something that is wrong, and how to mend it.

use std::fmt;
use std::time::Duration;

use ipnet::IpNet;
use net::route::Entry;
use net::{Netlink, Route, sysctl};

use crate::Node;
use crate::case::Case;
use crate::routes::{self, PROTOCOL, words};

/// A kind of finding. Each has a file of its own.
#[derive(Debug)]
pub struct Kind {
    /// What it is called; never changed, since programs look for it.
    pub id: &'static str,
    /// What it means, for the table of all kinds.
    pub means: &'static str,
    /// How it is mended, for the same.
    pub mend: &'static str,
    /// Whether it can only be found with the cluster's plan.
    pub needs_plan: bool,
    /// Finds what there is of it.
    pub look: fn(&Case) -> Vec<Finding>,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Something does not work.
    Error,
    /// Something will not work when more happens, or is not as meant.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        })
    }
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The kind's name.
    pub id: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What does not work because of it.
    pub breaks: String,
    /// By what it is known.
    pub evidence: Vec<String>,
    /// The commands that mend it; what is no command begins with `# `, so that a shell takes all of it.
    pub mend: Vec<String>,
    /// The same as steps, where they are safe: they take away nothing that anybody may want.
    pub fixes: Vec<Fix>,
}

impl Finding {
    /// That something does not work.
    pub fn error(kind: &Kind, breaks: impl Into<String>) -> Finding {
        Finding::new(kind, Severity::Error, breaks.into())
    }

    /// That something may not work, or is not as meant.
    pub fn warning(kind: &Kind, breaks: impl Into<String>) -> Finding {
        Finding::new(kind, Severity::Warning, breaks.into())
    }

    fn new(kind: &Kind, severity: Severity, breaks: String) -> Finding {
        Finding {
            id: kind.id,
            severity,
            breaks,
            evidence: Vec::new(),
            mend: Vec::new(),
            fixes: Vec::new(),
        }
    }

    /// By what it is known.
    #[must_use]
    pub fn by(mut self, evidence: impl Into<String>) -> Finding {
        self.evidence.push(evidence.into());
        self
    }

    /// What a person has to do that is no command: a remark to a shell.
    #[must_use]
    pub fn advised(mut self, what: impl fmt::Display) -> Finding {
        self.mend.push(format!("# {what}"));
        self
    }

    /// A command that mends it.
    #[must_use]
    pub fn mended_by(mut self, command: impl Into<String>) -> Finding {
        self.mend.push(command.into());
        self
    }

    /// A step that mends it, and that is safe.
    #[must_use]
    pub fn fixed_by(mut self, node: &Node, fix: Fix) -> Finding {
        self.mend.push(fix.command(node));
        self.fixes.push(fix);
        self
    }
}

/// How long a link that was set up may take to be seen so.
const CARRIER: Duration = Duration::from_secs(3);

/// A step that mends something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fix {
    /// A route goes.
    RemoveRoute(Entry),
    /// A route comes, marked as added here.
    AddRoute(Route),
    /// A sysctl gets a value.
    Sysctl {
        /// Its slash path below /proc/sys.
        path: String,
        /// The value.
        value: &'static str,
    },
    /// A link is set up.
    SetUp(u32),
    /// A link gets an address.
    AddAddress {
        /// Index of the link.
        index: u32,
        /// The address with its prefix.
        net: IpNet,
    },
}

impl Fix {
    /// The command that does the same.
    pub fn command(&self, node: &Node) -> String {
        match self {
            Fix::RemoveRoute(entry) => format!("ip route del {}", words(node, entry)),
            Fix::AddRoute(route) => {
                let entry = routes::added(route.clone());
                format!("ip route add {}", words(node, &entry))
            }
            Fix::Sysctl { path, value } => format!("sysctl -w {path}={value}"),
            Fix::SetUp(index) => format!("ip link set dev {} up", node.name_of(*index)),
            Fix::AddAddress { index, net } => {
                format!("ip address add {net} dev {}", node.name_of(*index))
            }
        }
    }

    /// Does it, in the calling thread's namespace.
    ///
    /// # Errors
    /// The kernel's.
    pub fn apply(&self) -> net::Result<()> {
        if let Fix::Sysctl { path, value } = self {
            return sysctl::write(path, value).map(drop);
        }
        let netlink = Netlink::current()?;
        match self {
            Fix::RemoveRoute(entry) => netlink.delete_route(entry),
            Fix::AddRoute(route) => netlink.insert_route(route, PROTOCOL),
            Fix::SetUp(index) => {
                netlink.set_up(*index)?;
                // The kernel tells of the carrier a moment later; a link may have none.
                let _ = netlink.wait_oper_up(*index, CARRIER);
                Ok(())
            }
            Fix::AddAddress { index, net } => netlink.add_address(*index, *net, true),
            Fix::Sysctl { .. } => Ok(()),
        }
    }
}
