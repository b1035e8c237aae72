//! A set of plugins that is measured.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Serialize;

use crate::{Outcome, Rules};

/// Under the names that configurations use.
pub const PLUGINS: [&str; 4] = ["bridge", "portmap", "bandwidth", "host-local"];

/// A bridge whose file has this name in it reads that key.
const BACKEND_KEY: &[u8] = b"ipMasqBackend";

/// Who is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The plugins to measure.
    Ours,
    /// Those to compare with.
    Theirs,
    /// What the kernel itself costs.
    Floor,
}

impl Side {
    /// As in the table.
    pub fn name(self) -> &'static str {
        match self {
            Side::Ours => "ours",
            Side::Theirs => "theirs",
            Side::Floor => "floor",
        }
    }
}

/// A set of plugins, and what it can do.
#[derive(Debug, Clone, Serialize)]
pub struct Contender {
    /// Whose they are.
    pub side: Side,
    /// Where they are.
    pub folder: PathBuf,
    /// What the bridge says of itself when it is run by hand.
    pub version: String,
    /// Whether they know of the nftables backends.
    pub nftables: bool,
}

impl Contender {
    /// Looks at the plugins of a folder.
    ///
    /// # Errors
    /// One is missing, or cannot be read.
    pub fn look(side: Side, folder: &Path) -> Outcome<Contender> {
        let mut contender = Contender {
            side,
            folder: folder.to_owned(),
            version: String::new(),
            nftables: false,
        };
        for plugin in PLUGINS {
            contender.file(plugin)?;
        }
        let bridge = contender.file("bridge")?;
        let bytes = fs::read(&bridge).map_err(|error| format!("{}: {error}", bridge.display()))?;
        contender.nftables = bytes
            .windows(BACKEND_KEY.len())
            .any(|window| window == BACKEND_KEY);
        contender.version = version(&bridge)?;
        Ok(contender)
    }

    /// The program that serves as `plugin`.
    ///
    /// # Errors
    /// There is none.
    pub fn file(&self, plugin: &str) -> Outcome<PathBuf> {
        Ok(lab::find_plugin(
            plugin,
            std::slice::from_ref(&self.folder),
        )?)
    }

    /// Whether they can make rules in that way.
    pub fn can(&self, rules: Rules) -> bool {
        rules != Rules::Nftables || self.nftables
    }
}

/// The first line that a plugin prints when it is run by hand.
fn version(plugin: &Path) -> Outcome<String> {
    let output = Command::new(plugin)
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{}: {error}", plugin.display()))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok(said.lines().next().unwrap_or_default().to_owned())
}
