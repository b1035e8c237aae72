//! Calling a plugin's program, for delegation and for the runtime's side alike.

use std::ffi::OsStr;
use std::fmt::Debug;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ExitStatus, Output, Stdio};
use std::time::Duration;

use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::{Error, code};

/// What one page of a pipe always takes without blocking, in bytes (`PIPE_BUF` of pipe(7)).
const ALWAYS_FITS: usize = 4096;

/// The waits between starts of a program that is still being written (`ETXTBSY`): 2.5 s together.
const BUSY_WAITS: std::ops::Range<u32> = 0..8;

/// Looks for the plugin `kind` in the folders of `path`.
///
/// # Errors
/// Code 7 for a name that is empty or has a `/`, 4 where no folder has it as an executable file.
pub(crate) fn find(kind: &str, path: &[PathBuf]) -> Result<PathBuf, Error> {
    if kind.is_empty() {
        return Err(Error::config("no plugin name provided").details("the key is \"type\""));
    }
    if kind.contains(['/', '\0']) {
        return Err(Error::config(format!("invalid plugin name: {kind}")));
    }
    let missing = |msg: String| Error::new(code::INVALID_ENVIRONMENT, msg).details("CNI_PATH");
    if path.is_empty() {
        return Err(missing("no paths provided".to_owned())
            .details(format!("CNI_PATH, to look for plugin {kind:?} in")));
    }
    path.iter()
        .map(|folder| folder.join(kind))
        .find(|file| is_executable(file))
        .ok_or_else(|| {
            let folders: Vec<_> = path.iter().map(|p| p.to_string_lossy()).collect();
            missing(format!(
                "failed to find plugin {kind:?} in path [{}]",
                folders.join(" ")
            ))
        })
}

fn is_executable(file: &Path) -> bool {
    file.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// How a plugin's program is run: by [`Child`], or by someone who watches.
pub trait Exec: Debug + Send + Sync {
    /// Runs `program` to its end, with this process's environment with `variables` in it and with
    /// `stdin` on its standard input.
    ///
    /// # Errors
    /// It cannot be run. That it fails is in its status.
    fn run(&self, program: &Path, variables: &[(&str, &OsStr)], stdin: &[u8])
    -> io::Result<Output>;
}

/// A child process of the calling thread, in its network namespace.
#[derive(Debug, Clone, Copy, Default)]
pub struct Child;

impl Exec for Child {
    fn run(
        &self,
        program: &Path,
        variables: &[(&str, &OsStr)],
        stdin: &[u8],
    ) -> io::Result<Output> {
        start(program, variables, stdin)
    }
}

/// Runs `program` by a [`Child`], and gives what it printed. Its standard error goes to ours.
///
/// # Errors
/// The error object that the program printed, unchanged; code 100 where it gave none.
pub(crate) fn call(
    program: &Path,
    variables: &[(&str, &OsStr)],
    stdin: &[u8],
) -> Result<Vec<u8>, Error> {
    call_by(&Child, program, variables, stdin)
}

/// As [`call`], however it is run.
///
/// # Errors
/// As [`call`].
pub(crate) fn call_by(
    exec: &(impl Exec + ?Sized),
    program: &Path,
    variables: &[(&str, &OsStr)],
    stdin: &[u8],
) -> Result<Vec<u8>, Error> {
    let output = exec.run(program, variables, stdin).map_err(|error| {
        Error::system(format!("cannot run plugin {}: {error}", program.display()))
    })?;
    // Nobody is left to tell where our own standard error is broken.
    let _ = io::stderr().write_all(&output.stderr);
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(failure(output.status, &output.stdout, &output.stderr))
}

fn failure(status: ExitStatus, stdout: &[u8], stderr: &[u8]) -> Error {
    if let Some(error) = Error::from_json(stdout) {
        return error;
    }
    let (stdout, stderr) = (
        String::from_utf8_lossy(stdout),
        String::from_utf8_lossy(stderr),
    );
    Error::system(if !stdout.trim().is_empty() {
        format!(
            "netplugin failed but error parsing its diagnostic message {stdout:?}: \
             not an error object ({status})"
        )
    } else if stderr.is_empty() {
        format!("netplugin failed with no error message: {status}")
    } else {
        format!("netplugin failed: {stderr:?}")
    })
}

fn start(program: &Path, variables: &[(&str, &OsStr)], stdin: &[u8]) -> io::Result<Output> {
    // Not a second pipe, which would have to be read at the same time. What is in there outlives the
    // program, and nobody has to wait for who else has it open.
    let complaints = File::from(memfd_create("stderr", MFdFlags::MFD_CLOEXEC)?);
    let mut command = std::process::Command::new(program);
    command
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(complaints.try_clone()?);
    let mut child = while_busy(|| command.spawn())?;
    let pipe = child.stdin.take();
    if stdin.len() <= ALWAYS_FITS {
        feed(pipe, stdin);
        return collect(child, complaints);
    }
    // A program that prints much before it reads would block us both.
    std::thread::scope(|scope| {
        scope.spawn(|| feed(pipe, stdin));
        collect(child, complaints)
    })
}

/// Reads what it prints, to its end: it is over also where that cannot be read.
fn collect(mut child: std::process::Child, mut complaints: File) -> io::Result<Output> {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let pipe = child.stdout.take();
    let read = pipe.map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut stdout));
    let status = child.wait()?;
    read?;
    complaints.rewind()?;
    complaints.read_to_end(&mut stderr)?;
    Ok(Output {
        status,
        stdout,
        stderr,
    })
}

/// Starts a program, again for some seconds where it is still being written.
///
/// # Errors
/// Those of `start`.
pub fn while_busy<T>(mut start: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut waits = BUSY_WAITS;
    loop {
        match start() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {
                let Some(n) = waits.next() else {
                    return Err(error);
                };
                std::thread::sleep(Duration::from_millis(10 << n));
            }
            other => return other,
        }
    }
}

/// Writes it all and closes. A program that does not read it has its reasons; its exit status
/// and output say them.
fn feed(pipe: Option<ChildStdin>, bytes: &[u8]) {
    if let Some(mut pipe) = pipe {
        let _ = pipe.write_all(bytes);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;

    use super::*;

    /// A folder with the shell script `name` in it.
    pub(crate) fn script(name: &str, text: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(name);
        fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        (folder, file)
    }

    #[test]
    fn finds_only_executable_files() {
        let (empty, _) = script("other", "");
        let (folder, file) = script("p", "");
        fs::create_dir(empty.path().join("p")).unwrap();
        fs::write(empty.path().join("q"), "").unwrap();
        let path = [empty.path().to_owned(), folder.path().to_owned()];
        assert_eq!(find("p", &path), Ok(file));
        let places = format!("[{} {}]", empty.path().display(), folder.path().display());
        for (kind, path, code, msg) in [
            ("", &path[..], 7, "no plugin name provided".to_owned()),
            ("../p", &path, 7, "invalid plugin name: ../p".to_owned()),
            ("p", &[], 4, "no paths provided".to_owned()),
            (
                "..",
                &path,
                4,
                format!("failed to find plugin \"..\" in path {places}"),
            ),
            (
                "q",
                &path,
                4,
                format!("failed to find plugin \"q\" in path {places}"),
            ),
        ] {
            let error = find(kind, path).unwrap_err();
            assert_eq!((error.code, error.msg), (code, msg), "{kind}");
        }
    }

    #[test]
    fn hands_over_input_and_variables() {
        let (_folder, file) = script("p", "echo $CNI_COMMAND; wc -c");
        for len in [0, 1, ALWAYS_FITS, ALWAYS_FITS + 1, 3 << 20] {
            let got = call(&file, &[("CNI_COMMAND", "ADD".as_ref())], &vec![b'x'; len]).unwrap();
            assert_eq!(String::from_utf8(got).unwrap(), format!("ADD\n{len}\n"));
        }
    }

    #[test]
    fn a_program_that_ignores_its_input() {
        let (_folder, file) = script("p", "head -c 1000000 /dev/zero");
        let got = call(&file, &[], &vec![b'x'; 1 << 20]).unwrap();
        assert_eq!(got.len(), 1_000_000);
    }

    #[test]
    fn failures() {
        let exited = "exit status: 3";
        for (text, code, msg) in [
            ("echo '{\"code\": 11, \"msg\": \"m\"}'", 11, "m".to_owned()),
            (
                "",
                100,
                format!("netplugin failed with no error message: {exited}"),
            ),
            ("echo oh >&2", 100, "netplugin failed: \"oh\\n\"".to_owned()),
            (
                "echo oh",
                100,
                format!(
                    "netplugin failed but error parsing its diagnostic message \"oh\\n\": \
                     not an error object ({exited})"
                ),
            ),
        ] {
            let (_folder, file) = script("p", &format!("{text}\nexit 3"));
            let error = call(&file, &[], b"").unwrap_err();
            assert_eq!((error.code, error.msg), (code, msg), "{text}");
        }
        let error = call(Path::new("/nonexistent/p"), &[], b"").unwrap_err();
        assert!(
            error.msg.starts_with("cannot run plugin /nonexistent/p: "),
            "{error}"
        );
    }
}
