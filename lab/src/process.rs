//! Programs that run inside a namespace.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::Doing;
use crate::{Error, Namespace, Result};

/// How long a program may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The program of that name on `PATH`, or where administrators' tools are.
pub fn find_tool(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

impl Namespace {
    /// Starts the program in the namespace.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn spawn(&self, command: &mut Command) -> Result<Child> {
        self.run(|| command.spawn())?
            .doing(format!("start {}", command.get_program().display()))
    }

    /// Runs the program in the namespace with `input` on its standard input, to its end.
    ///
    /// # Errors
    /// It cannot be started, or takes more than a minute and is killed. That it fails is in its
    /// status.
    pub fn output(&self, command: &mut Command, input: &[u8]) -> Result<Output> {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let program = command.get_program().display().to_string();
        let child = self.spawn(command)?;
        finish(child, input, PATIENCE).doing(program)
    }

    /// Runs the program in the namespace and returns its standard output.
    ///
    /// # Errors
    /// It cannot be started, or fails; what it wrote to standard error is in the message.
    pub fn read(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let output = self.output(Command::new(program).args(arguments), b"")?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(Error::Failed(format!(
            "{program} {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        )))
    }
}

/// Feeds the child and collects what it says; kills it when `patience` has passed.
///
/// # Errors
/// It has been killed, or cannot be waited for.
pub fn finish(mut child: Child, input: &[u8], patience: Duration) -> io::Result<Output> {
    let end = Instant::now() + patience;
    let stdin = child.stdin.take();
    let stdout = collect(child.stdout.take());
    let stderr = collect(child.stderr.take());
    let input = input.to_owned();
    // In a thread, since a child may answer before it has read all; one that does not care for its
    // input is no error.
    thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(&input)));
    let collected = await_end(&stdout, end).zip(await_end(&stderr, end));
    loop {
        if let (Some(status), Some((stdout, stderr))) = (child.try_wait()?, &collected) {
            return Ok(Output {
                status,
                stdout: stdout.clone(),
                stderr: stderr.clone(),
            });
        }
        if Instant::now() >= end {
            child.kill()?;
            child.wait()?;
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("not finished after {patience:?}"),
            ));
        }
        // Its output has ended, so it is about to: nothing tells of that with a deadline.
        thread::sleep(Duration::from_millis(1));
    }
}

/// Reads to the end in a thread of its own.
pub(crate) fn collect(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut all = Vec::new();
        // An error ends the output as the child's death does; its status tells.
        let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut all));
        sender.send(all)
    });
    receiver
}

fn await_end(pipe: &Receiver<Vec<u8>>, end: Instant) -> Option<Vec<u8>> {
    pipe.recv_timeout(end.saturating_duration_since(Instant::now()))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piped(program: &str, arguments: &[&str]) -> Child {
        Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    #[test]
    fn more_than_a_pipe_holds_goes_through() {
        let much = vec![b'x'; 1 << 20];
        let output = finish(piped("cat", &[]), &much, PATIENCE).unwrap();
        assert!(output.status.success());
        assert_eq!(output.stdout, much);
    }

    #[test]
    fn both_streams_and_the_status_are_told_apart() {
        let script = "echo out; echo err >&2; exit 3";
        let output = finish(piped("sh", &["-c", script]), b"unread", PATIENCE).unwrap();
        assert_eq!(output.status.code(), Some(3));
        assert_eq!(output.stdout, b"out\n");
        assert_eq!(output.stderr, b"err\n");
    }

    #[test]
    fn a_program_that_does_not_end_is_killed() {
        let child = piped("sleep", &["1000"]);
        let error = finish(child, b"", Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
