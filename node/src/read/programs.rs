//! The plugins that networks name, and what they answer to VERSION.

use std::collections::BTreeSet;
use std::path::PathBuf;

use cni::runtime::Runtime;

use crate::Node;
use crate::network::Program;

impl Node {
    pub(super) fn read_programs(&mut self, runtime: &Runtime) {
        let kinds = self.networks.iter().flat_map(|network| &network.kinds);
        let kinds: BTreeSet<String> = kinds.cloned().collect();
        let programs = kinds.into_iter().map(|kind| {
            let program = program(runtime, &kind);
            (kind, program)
        });
        self.programs = programs.collect();
    }
}

fn program(runtime: &Runtime, kind: &str) -> Program {
    let files = runtime.path.iter().map(|folder| folder.join(kind));
    let file: Option<PathBuf> = files.into_iter().find(|file| file.is_file());
    let versions = runtime.versions(kind);
    Program {
        file,
        versions: versions.map_err(|error| error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_a_program_answers_or_that_it_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str, mode: u32| {
            let file = folder.path().join(name);
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        };
        let answer = "#!/bin/sh\necho '{\"supportedVersions\": [\"1.0.0\"]}'\n";
        write("good", answer, 0o755);
        write("closed", answer, 0o644);
        write("bad", "#!/bin/sh\nexit 3\n", 0o755);
        let runtime = Runtime::new(vec![folder.path().to_owned()], PathBuf::new());
        let program = |kind| program(&runtime, kind);
        assert_eq!(program("good").versions, Ok(vec!["1.0.0".to_owned()]));
        assert!(program("closed").file.is_some() && program("closed").versions.is_err());
        assert!(program("bad").file.is_some() && program("bad").versions.is_err());
        assert!(program("none").file.is_none() && program("none").versions.is_err());
    }
}
