//! A `CNI_PATH` of a lab's own.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::error::Doing;
use crate::{Error, Result};

/// Links into `bin`, under each of the names `kinds`, the program that is to serve as it:
/// `KIND-lite` if a folder of `path` has it, else `KIND`. Returns the programs' names.
///
/// # Errors
/// There is neither, or the link cannot be made.
pub fn link_plugins(kinds: &[&str], path: &[PathBuf], bin: &Path) -> Result<Vec<String>> {
    fs::create_dir_all(bin).doing(format!("make folder {}", bin.display()))?;
    let mut names = Vec::new();
    for kind in kinds {
        let file = find_plugin(kind, path)?;
        let link = bin.join(kind);
        if !link.exists() {
            symlink(&file, &link).doing(format!("link {}", link.display()))?;
            let name = file.file_name();
            names.extend(name.map(|name| name.to_string_lossy().into_owned()));
        }
    }
    Ok(names)
}

/// The program that is to serve as `kind`: `KIND-lite` if a folder of `path` has it, else `KIND`.
///
/// # Errors
/// There is neither.
pub fn find_plugin(kind: &str, path: &[PathBuf]) -> Result<PathBuf> {
    let base = kind.strip_suffix("-lite").unwrap_or(kind);
    let names = [format!("{base}-lite"), base.to_owned()];
    let mut files = names
        .iter()
        .flat_map(|name| path.iter().map(move |folder| folder.join(name)));
    let file = files.find(|file| file.is_file()).ok_or_else(|| {
        let path: Vec<_> = path
            .iter()
            .map(|folder| folder.display().to_string())
            .collect();
        Error::Failed(format!(
            "neither {} in {}",
            names.join(" nor "),
            path.join(":")
        ))
    })?;
    file.canonicalize().doing(file.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_are_linked_under_the_names_that_are_called() {
        let lab = crate::Lab::new("link").unwrap();
        let built = lab.folder().join("built");
        fs::create_dir(&built).unwrap();
        for name in [
            "bridge",
            "bridge-lite",
            "portmap-lite",
            "bandwidth-lite",
            "host-local",
        ] {
            fs::write(built.join(name), name).unwrap();
        }
        let bin = lab.folder().join("bin");
        let kinds = ["bridge", "host-local", "portmap", "bandwidth"];
        let names = link_plugins(&kinds, &[built], &bin).unwrap();
        assert_eq!(
            names,
            [
                "bridge-lite",
                "host-local",
                "portmap-lite",
                "bandwidth-lite"
            ]
        );
        let linked = fs::read_to_string(bin.join("bridge")).unwrap();
        assert_eq!(linked, "bridge-lite");

        let error = find_plugin("bridge-lite", &["/none".into()]).unwrap_err();
        assert_eq!(error.to_string(), "neither bridge-lite nor bridge in /none");
    }
}
