//! The environment a plugin is started with (specification, section "Parameters").

use std::path::PathBuf;

use crate::Error;

/// What the runtime asks for: `CNI_COMMAND`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Make the attachment.
    Add,
    /// Unmake it.
    Del,
    /// Is all as ADD made it?
    Check,
    /// Remove what belongs to no valid attachment.
    Gc,
    /// Can ADD be served?
    Status,
    /// Which versions are spoken?
    Version,
}

/// The `CNI_*` variables, validated as the specification says for the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Env {
    /// `CNI_COMMAND`.
    pub command: Command,
    /// `CNI_CONTAINERID`; empty for GC, STATUS and VERSION.
    pub container_id: String,
    /// `CNI_NETNS`; `None` where it is missing or empty.
    pub netns: Option<PathBuf>,
    /// `CNI_IFNAME`; empty for GC, STATUS and VERSION.
    pub ifname: String,
    /// `CNI_ARGS` as given.
    pub args: String,
    /// `CNI_PATH` as its folders.
    pub path: Vec<PathBuf>,
}

impl Env {
    /// The value of one key of `CNI_ARGS` (`K=V;K2=V2`).
    ///
    /// `known` are the keys that the caller understands, beside `IgnoreUnknown`.
    ///
    /// # Errors
    /// Code 4 for a pair that is none, and for an unknown key unless `IgnoreUnknown` is true.
    pub fn arg(&self, key: &str, known: &[&str]) -> Result<Option<String>, Error> {
        let _ = (key, known);
        todo!()
    }
}
