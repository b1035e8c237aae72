//! What can be measured.

use clap::ValueEnum;
use serde::Serialize;

/// What is measured, under the name that `--only` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Case {
    /// The whole chain and each of its plugins, one pod at a time
    Chain,
    /// Each step of our plugins, as their log says
    Steps,
    /// Eight pods at once
    AtOnce,
    /// One pod more, with 0, 100, 250 and 1,000 pods on the node; and connections by its host port
    Pods,
    /// host-local alone, with 0, 1,000, 10,000 and 60,000 reservations
    Store,
    /// One pod with 1, 15, 100 and 1,000 host ports
    Ports,
    /// GC, with nothing to remove and with an attachment that is gone
    Gc,
    /// What passes a shaped link, and from pod to pod
    Traffic,
    /// Processes started, system calls made and memory held, by ptrace
    Processes,
    /// Instructions of a plugin's own, by valgrind
    Instructions,
    /// Sizes of the binaries
    Sizes,
}

impl Case {
    /// In the order in which they are measured.
    pub const ALL: [Case; 11] = [
        Case::Chain,
        Case::Steps,
        Case::AtOnce,
        Case::Pods,
        Case::Store,
        Case::Ports,
        Case::Gc,
        Case::Traffic,
        Case::Processes,
        Case::Instructions,
        Case::Sizes,
    ];

    /// What stands above its rows.
    pub fn title(self) -> &'static str {
        match self {
            Case::Chain => "One pod at a time",
            Case::Steps => "What each step of ours takes, one pod at a time",
            Case::AtOnce => "Eight pods at once",
            Case::Pods => "One pod more, when so many are on the node, each with a host port",
            Case::Store => "host-local alone, with so many reservations",
            Case::Ports => "One pod with so many host ports",
            Case::Gc => "GC, with so many attachments",
            Case::Traffic => "What passes, once the pods are there",
            Case::Processes => {
                "Processes and system calls of a chain's call, and the most memory a plugin has"
            }
            Case::Instructions => {
                "Instructions of a plugin's own, without its children's and the kernel's"
            }
            Case::Sizes => "Sizes of the binaries",
        }
    }
}
