//! The plugins under test, in a folder as a node has it.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Under which names a network's plugins are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// `bridge`, …
    Standard,
    /// `bridge-lite`, …
    Lite,
}

impl Names {
    /// Those that the plugins under test have.
    pub fn all() -> &'static [Names] {
        if others().is_some() {
            return &[Names::Standard];
        }
        &[Names::Standard, Names::Lite]
    }

    /// The `type` of the plugin with this standard name.
    pub fn of(self, plugin: &str) -> String {
        match self {
            Names::Standard => plugin.to_owned(),
            Names::Lite => format!("{plugin}-lite"),
        }
    }
}

/// The folder of the plugins that are to be tested in place of ours.
pub fn others() -> Option<PathBuf> {
    let folder = std::env::var_os("CLIENTS_PLUGINS")?;
    (!folder.is_empty()).then(|| folder.into())
}

/// Fills a folder with the plugins under test: what `make install` puts there, or links to another's.
///
/// # Panics
/// There are none, or there is no `make`.
pub fn install(folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    match others() {
        Some(others) => link(&others, folder),
        None => make_install(folder),
    }
}

fn link(from: &Path, folder: &Path) {
    let from = from.canonicalize().unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        symlink(entry.path(), folder.join(entry.file_name())).unwrap();
    }
}

/// Installs what is built, without building it.
fn make_install(folder: &Path) {
    let built = tests::binary_folder().canonicalize().unwrap();
    let mut make = Command::new(lab::find_tool("make").unwrap());
    make.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .args(["--old-file=build", "install", "STANDARD_NAMES=1"])
        .arg(format!("BIN={}", built.display()))
        .arg(format!("PREFIX={}", folder.display()));
    // Those of a make around this test.
    for name in ["MAKEFLAGS", "MFLAGS", "MAKELEVEL", "DESTDIR"] {
        make.env_remove(name);
    }
    let output = make.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "make install: {said}");
}

/// Whether what follows can be asked of the plugins under test. What another's are known to do worse is
/// said aloud and counted.
pub fn are_ours(worse: &str) -> bool {
    let ours = others().is_none();
    if !ours {
        lab::skip(&format!("not ours: {worse}"));
    }
    ours
}
