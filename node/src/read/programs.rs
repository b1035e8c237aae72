//! The plugins that networks name, and what they answer to VERSION.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use cni::runtime::{Exec, Runtime, while_busy};
use firewall::process::{self, End, Limits};

use crate::Node;
use crate::network::Program;

/// What a plugin may take for its answer to VERSION.
const LIMITS: Limits = Limits {
    time: Duration::from_secs(5),
    stdout: 1024 * 1024,
};

impl Node {
    pub(super) fn read_programs(&mut self, runtime: &Runtime) {
        let kinds = self.networks.iter().flat_map(|network| &network.kinds);
        let kinds: BTreeSet<String> = kinds.cloned().collect();
        let programs = kinds.into_iter().map(|kind| {
            let program = Program::read(runtime, &kind);
            (kind, program)
        });
        self.programs = programs.collect();
    }
}

impl Program {
    /// Asks the plugin of a type for its versions, for some seconds at the most.
    pub fn read(runtime: &Runtime, kind: &str) -> Program {
        Program::read_within(runtime, kind, LIMITS)
    }

    fn read_within(runtime: &Runtime, kind: &str, limits: Limits) -> Program {
        let runtime = Runtime {
            exec: Arc::new(Bounded(limits)),
            ..runtime.clone()
        };
        let mut files = runtime.path.iter().map(|folder| folder.join(kind));
        let file: Option<PathBuf> = files.find(|file| file.is_file());
        let versions = runtime.versions(kind);
        Program {
            file,
            versions: versions.map_err(|error| error.to_string()),
        }
    }
}

/// Runs a plugin that is not to be trusted to end.
#[derive(Debug)]
struct Bounded(Limits);

impl Exec for Bounded {
    fn run(
        &self,
        program: &Path,
        variables: &[(&str, &OsStr)],
        stdin: &[u8],
    ) -> io::Result<Output> {
        let mut command = Command::new(program);
        // With what it has started, which may be what hangs.
        command.envs(variables.iter().copied()).process_group(0);
        match while_busy(|| process::run(&mut command, stdin.to_vec(), self.0))? {
            End::Ended(output) => Ok(Output {
                status: output.status,
                stdout: output.stdout,
                stderr: output.stderr,
            }),
            End::TimedOut => {
                let said = format!("no answer within {} s", self.0.time.as_secs());
                Err(io::Error::new(ErrorKind::TimedOut, said))
            }
            End::TooMuch => {
                let said = format!("an answer of more than {} bytes", self.0.stdout);
                Err(io::Error::new(ErrorKind::InvalidData, said))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::time::Instant;

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
        let program = |kind| Program::read(&runtime, kind);
        assert_eq!(program("good").versions, Ok(vec!["1.0.0".to_owned()]));
        assert!(program("closed").file.is_some() && program("closed").versions.is_err());
        assert!(program("bad").file.is_some() && program("bad").versions.is_err());
        assert!(program("none").file.is_none() && program("none").versions.is_err());
    }

    #[test]
    fn nothing_of_one_that_hangs_lives_on() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hangs");
        let noted = folder.path().join("pid");
        let text = format!(
            "#!/bin/sh\nsleep 1000 & echo $! >{}; wait\n",
            noted.display()
        );
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o755)).unwrap();
        let runtime = Runtime::new(vec![folder.path().to_owned()], PathBuf::new());
        let limits = Limits {
            time: Duration::from_secs(1),
            stdout: 100,
        };
        assert!(
            Program::read_within(&runtime, "hangs", limits)
                .versions
                .is_err()
        );
        let pid = fs::read_to_string(&noted).unwrap();
        let stat = format!("/proc/{}/stat", pid.trim());
        let since = Instant::now();
        // Whoever takes it over may leave it unburied.
        let lives = || fs::read_to_string(&stat).is_ok_and(|it| !it.contains(") Z "));
        while lives() {
            assert!(since.elapsed() < Duration::from_secs(30));
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn one_that_hangs_and_one_that_does_not_stop_talking() {
        let folder = tempfile::tempdir().unwrap();
        for (name, script) in [("hangs", "exec sleep 1000"), ("talks", "exec yes")] {
            let file = folder.path().join(name);
            fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&file, Permissions::from_mode(0o755)).unwrap();
        }
        let runtime = Runtime::new(vec![folder.path().to_owned()], PathBuf::new());
        let limits = |seconds| Limits {
            time: Duration::from_secs(seconds),
            stdout: 100,
        };
        for (name, seconds, expected) in [
            ("hangs", 1, "no answer within 1 s"),
            ("talks", 600, "an answer of more than 100 bytes"),
        ] {
            let program = Program::read_within(&runtime, name, limits(seconds));
            let why = program.versions.unwrap_err();
            assert!(program.file.is_some() && why.contains(expected), "{why}");
        }
    }
}
