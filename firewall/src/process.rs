//! Runs a program that is not to be trusted to end, nor to stop talking.

use std::io::{self, Read, Write as _};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use process_control::{ChildExt as _, Control as _, ExitStatus};

/// What is kept of a program's complaints, in bytes.
const MAX_STDERR: usize = 64 * 1024;
/// What was said last is given this long to arrive, however late it is.
const LEAST: Duration = Duration::from_secs(1);

/// What a program may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// From its start to its end.
    pub time: Duration,
    /// On standard output, in bytes.
    pub stdout: usize,
}

/// How a program ended.
#[derive(Debug)]
pub enum End {
    /// By itself.
    Ended(Output),
    /// It took too long, and was killed.
    TimedOut,
    /// It said too much. Nobody has listened on.
    TooMuch,
}

/// What a program that ended left.
#[derive(Debug)]
pub struct Output {
    /// How it ended.
    pub status: ExitStatus,
    /// All that it said.
    pub stdout: Vec<u8>,
    /// The begin of its complaints.
    pub stderr: Vec<u8>,
}

/// Runs a program that reads `input`.
///
/// # Errors
/// It cannot be run.
pub fn run(command: &mut Command, input: Vec<u8>, limits: Limits) -> io::Result<End> {
    let start = Instant::now();
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that does not read must not keep us; it says why by its exit status.
        std::thread::spawn(move || stdin.write_all(&input));
    }
    let stdout = child.stdout.take();
    let stdout = listen(stdout, limits.stdout.saturating_add(1), false);
    let stderr = listen(child.stderr.take(), MAX_STDERR, true);
    let controlled = child.controlled();
    let ended = controlled.time_limit(limits.time).terminate_for_timeout();
    let status = ended.wait()?;
    // What a program has started may keep its pipes open.
    let left = || limits.time.saturating_sub(start.elapsed()).max(LEAST);
    let (Some(status), Ok(stdout), Ok(stderr)) = (
        status,
        stdout.recv_timeout(left()),
        stderr.recv_timeout(left()),
    ) else {
        return Ok(End::TimedOut);
    };
    let (stdout, stderr) = (stdout?, stderr?);
    if stdout.len() > limits.stdout {
        return Ok(End::TooMuch);
    }
    Ok(End::Ended(Output {
        status,
        stdout,
        stderr,
    }))
}

/// Reads on a thread of its own up to `most` bytes. What follows is thrown away where the program is
/// to go `on`; else it is told, by a pipe that is closed, that nobody listens.
fn listen(
    pipe: Option<impl Read + Send + 'static>,
    most: usize,
    on: bool,
) -> Receiver<io::Result<Vec<u8>>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        let read = pipe.map_or(Ok(()), |mut pipe| {
            let most = u64::try_from(most).unwrap_or(u64::MAX);
            pipe.by_ref().take(most).read_to_end(&mut kept)?;
            if on {
                io::copy(&mut pipe, &mut io::sink())?;
            }
            Ok(())
        });
        // Nobody may wait for it any more.
        let _ = sender.send(read.map(|()| kept));
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, input: &str, seconds: u64) -> End {
        let limits = Limits {
            time: Duration::from_secs(seconds),
            stdout: 100_000,
        };
        let mut command = Command::new("sh");
        run(command.args(["-c", script]), input.into(), limits).unwrap()
    }

    #[test]
    fn what_it_says_arrives() {
        let End::Ended(output) = sh("cat; echo no >&2; exit 3", "yes\n", 60) else {
            panic!("not ended");
        };
        assert_eq!(output.status.code(), Some(3));
        assert_eq!(
            (output.stdout.as_slice(), output.stderr.as_slice()),
            (&b"yes\n"[..], &b"no\n"[..])
        );
    }

    #[test]
    fn one_that_does_not_stop_talking_is_not_listened_to() {
        // As much as may be, one byte more, and for ever.
        assert!(
            matches!(sh("head -c 100000 /dev/zero", "", 60), End::Ended(output) if output.stdout.len() == 100_000)
        );
        for script in [
            "head -c 100001 /dev/zero",
            "while :; do echo x; done",
            "exec yes",
        ] {
            assert!(matches!(sh(script, "", 60), End::TooMuch), "{script}");
        }
    }

    #[test]
    fn complaints_are_cut_and_are_no_reason_to_fail() {
        let End::Ended(output) = sh("head -c 10000000 /dev/zero >&2; echo done", "", 60) else {
            panic!("not ended");
        };
        assert!(output.status.success());
        assert_eq!(
            (output.stdout.as_slice(), output.stderr.len()),
            (&b"done\n"[..], MAX_STDERR)
        );
        assert!(matches!(sh("exec yes >&2", "", 1), End::TimedOut));
    }

    #[test]
    fn what_a_program_leaves_running_keeps_nobody() {
        assert!(matches!(sh("sleep 4 & exit 0", "", 1), End::TimedOut));
        assert!(matches!(sh("exec sleep 1000", "", 1), End::TimedOut));
    }
}
