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
    fs::create_dir_all(folder).doing(format!("make folder {}", folder.display()))?;
    for family in ["iptables", "ip6tables"] {
        for verb in ["", "-save", "-restore"] {
            let name = format!("{family}-{variant}{verb}");
            let missing = || Error::Failed(format!("no {name} on this machine"));
            let program = find_tool(&name).ok_or_else(missing)?;
            match symlink(program, folder.join(format!("{family}{verb}"))) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                made => made.doing(format!("link {name}"))?,
            }
        }
    }
    let own = std::env::var_os("PATH").unwrap_or_default();
    let others = std::env::split_paths(&own);
    let all = std::env::join_paths(iter::once(folder.to_owned()).chain(others));
    all.map_err(|error| Error::Failed(format!("PATH: {error}")))
}
