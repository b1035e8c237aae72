//! The binaries under test, and the folder that a runtime would find them in.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Names as they are built.
const PLUGINS: [&str; 5] = [
    "bridge-lite",
    "portmap-lite",
    "bandwidth-lite",
    "loopback-lite",
    "host-local-lite",
];

/// Where the built binaries are: `CNI_BIN_DIR`, else where `make build` or else cargo puts them.
pub fn binary_folder() -> PathBuf {
    if let Some(folder) = std::env::var_os("CNI_BIN_DIR") {
        return folder.into();
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"),
        PathBuf::from,
    );
    let musl = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let musl = Path::new(&musl);
    [
        "bin".into(),
        musl.join("release"),
        "release".into(),
        musl.join("debug"),
        "debug".into(),
    ]
    .map(|folder| target.join(folder))
    .into_iter()
    .find(|folder| PLUGINS.iter().all(|plugin| folder.join(plugin).is_file()))
    .unwrap_or_else(|| {
        panic!(
            "no plugins below {}: run `make build`, or name their folder in CNI_BIN_DIR",
            target.display()
        )
    })
}

/// Fills a folder for `CNI_PATH`: each plugin under its own name and the standard one.
pub fn plugin_folder(folder: &Path) {
    let built = binary_folder().canonicalize().unwrap();
    std::fs::create_dir_all(folder).unwrap();
    for plugin in PLUGINS {
        for name in [plugin, plugin.trim_end_matches("-lite")] {
            symlink(built.join(plugin), folder.join(name)).unwrap();
        }
    }
}
