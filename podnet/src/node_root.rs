//! A node whose files are seen from a pod: its root is mounted somewhere there.

use std::path::{Path, PathBuf};

use clap::Args;
use nix::unistd::chroot;

use crate::failure::Failure;

/// Where the node's root is.
#[derive(Debug, Args)]
pub struct NodeRoot {
    /// Where the node's root is mounted, in a pod that is to do GC: the node's own plugins, iptables,
    /// configurations and store are used, and all other paths are read as those of the node. Needs
    /// CAP_SYS_CHROOT
    #[arg(long, value_name = "DIR")]
    pub node_root: Option<PathBuf>,
}

impl NodeRoot {
    /// Makes it this process's root, for all that is opened or started from now on.
    ///
    /// # Errors
    /// It is no folder, or the kernel refuses.
    pub fn enter(&self) -> Result<(), Failure> {
        match &self.node_root {
            Some(folder) => enter(folder).map_err(|why| {
                Failure::Usage(format!(
                    "--node-root {:?}: {why}",
                    folder.display().to_string()
                ))
            }),
            None => Ok(()),
        }
    }
}

fn enter(folder: &Path) -> Result<(), String> {
    if !folder.is_dir() {
        return Err("expected a folder that is there".to_owned());
    }
    let refused =
        |why: &str| format!("it cannot be made the root, which needs CAP_SYS_CHROOT: {why}");
    chroot(folder).map_err(|error| refused(error.desc()))?;
    // Or the way out stays open.
    std::env::set_current_dir("/").map_err(|error| refused(&error.to_string()))
}
