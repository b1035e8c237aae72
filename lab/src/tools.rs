//! The programs that a node has.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::iter;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::error::Doing;
use crate::{Error, Result, find_tool};

/// Fills `folder` with the programs of a variant of iptables (`nft`, `legacy`) under their plain
/// names; a `PATH` that begins with it.
///
/// # Errors
/// The variant is not installed, or the folder cannot be written.
pub fn iptables_path(folder: &Path, variant: &str) -> Result<OsString> {
    for family in ["iptables", "ip6tables"] {
        for verb in ["", "-save", "-restore"] {
            let name = format!("{family}-{variant}{verb}");
            link(folder, &format!("{family}{verb}"), &name)?;
        }
    }
    let own = std::env::var_os("PATH").unwrap_or_default();
    let others = std::env::split_paths(&own);
    let all = std::env::join_paths(iter::once(folder.to_owned()).chain(others));
    all.map_err(|error| Error::Failed(format!("PATH: {error}")))
}

/// Fills `folder` with `nft` alone; a `PATH` that is only that folder, as on a node without
/// iptables.
///
/// # Errors
/// There is no nft, or the folder cannot be written.
pub fn nftables_path(folder: &Path) -> Result<OsString> {
    link(folder, "nft", "nft")?;
    Ok(folder.as_os_str().to_owned())
}

/// Makes `name` in `folder` lead to a program of this machine.
fn link(folder: &Path, name: &str, program: &str) -> Result<()> {
    fs::create_dir_all(folder).doing(format!("make folder {}", folder.display()))?;
    let missing = || Error::Failed(format!("no {program} on this machine"));
    let target = find_tool(program).ok_or_else(missing)?;
    match symlink(target, folder.join(name)) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        made => made.doing(format!("link {program}")),
    }
}
