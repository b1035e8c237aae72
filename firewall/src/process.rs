//! Runs a program that is not to be trusted to end, nor to stop talking.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::{Pid, PidfdFlags, Signal, getpgid, kill_process_group, pidfd_open};
use rustix::time::Timespec;

/// What is kept of a program's complaints, in bytes.
const MAX_STDERR: usize = 64 * 1024;
/// What is read at once, in bytes.
const AT_ONCE: usize = 16 * 1024;

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

/// Runs a program that reads `input` to its end.
///
/// # Errors
/// It cannot be run.
pub fn run(command: &mut Command, input: Vec<u8>, limits: Limits) -> io::Result<End> {
    let mut running = Running::start(command, limits.stdout)?;
    running.feed(input);
    running.end(limits.time)
}

/// A program at work. It is killed where nobody waits for its end, and what it has started with it where it
/// was started as the leader of a process group.
#[derive(Debug)]
pub struct Running {
    child: Child,
    has_ended: bool,
    stdin: Option<File>,
    /// What it is still to be given.
    input: Vec<u8>,
    /// Why it could not be given that.
    unfed: Option<io::Error>,
    stdout: Pipe,
    stderr: Pipe,
    /// What it may say on standard output, in bytes.
    most: usize,
}

impl Running {
    /// Starts a program that reads its input, and may say so many bytes on standard output.
    ///
    /// # Errors
    /// It cannot be run.
    pub fn start(command: &mut Command, most: usize) -> io::Result<Running> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let stdin = child.stdin.take().map(OwnedFd::from);
        let stdout = child.stdout.take().map(OwnedFd::from);
        let stderr = child.stderr.take().map(OwnedFd::from);
        let mut running = Running {
            child,
            has_ended: false,
            stdin: None,
            input: Vec::new(),
            unfed: None,
            stdout: Pipe::default(),
            stderr: Pipe::default(),
            most,
        };
        running.stdin = stdin.map(without_blocking).transpose()?;
        running.stdout.from = stdout.map(without_blocking).transpose()?;
        running.stderr.from = stderr.map(without_blocking).transpose()?;
        Ok(running)
    }

    /// Gives it all its input, as far as it takes that at once; the rest while its end is waited for.
    pub fn feed(&mut self, input: Vec<u8>) {
        self.input = input;
        self.write();
    }

    /// Waits for its end, for so long.
    ///
    /// # Errors
    /// The kernel's.
    pub fn end(mut self, limit: Duration) -> io::Result<End> {
        let since = Instant::now();
        let left = || limit.saturating_sub(since.elapsed());
        // What a program has started may keep its pipes open.
        while self.stdout.from.is_some() || self.stderr.from.is_some() {
            if !self.await_pipes(left())? {
                return Ok(End::TimedOut);
            }
            self.write();
            if let Some(error) = self.unfed.take() {
                return Err(error);
            }
            let most = self.most.saturating_add(1);
            self.stdout.read(most)?;
            if self.stdout.kept.len() > self.most {
                // It is told that nobody listens.
                self.stdout.from = None;
            }
            self.stderr.read(MAX_STDERR)?;
        }
        let Some(status) = self.wait(left())? else {
            return Ok(End::TimedOut);
        };
        let stdout = std::mem::take(&mut self.stdout.kept);
        if stdout.len() > self.most {
            return Ok(End::TooMuch);
        }
        Ok(End::Ended(Output {
            status,
            stdout,
            stderr: std::mem::take(&mut self.stderr.kept),
        }))
    }

    /// Writes what the program takes now. One that does not read must not keep us; it says why by
    /// its exit status. One that reads less than it should would do so, and succeed.
    fn write(&mut self) {
        let Some(stdin) = &mut self.stdin else {
            return;
        };
        while !self.input.is_empty() {
            match stdin.write(&self.input) {
                Ok(written) => drop(self.input.drain(..written)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => {
                    self.unfed = Some(error).filter(|it| it.kind() != ErrorKind::BrokenPipe);
                    break;
                }
            }
        }
        self.stdin = None;
    }

    /// Waits until one of the pipes can be used, or is closed; false where the time is up.
    fn await_pipes(&self, left: Duration) -> io::Result<bool> {
        let pipes = [
            (&self.stdin, PollFlags::OUT),
            (&self.stdout.from, PollFlags::IN),
            (&self.stderr.from, PollFlags::IN),
        ];
        let open = pipes.into_iter();
        let open = open.filter_map(|(pipe, flags)| Some(PollFd::new(pipe.as_ref()?, flags)));
        await_any(&mut open.collect::<Vec<_>>(), left)
    }

    /// Waits for the process, whose pipes are closed.
    fn wait(&mut self, left: Duration) -> io::Result<Option<ExitStatus>> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let process = pid.map(|pid| pidfd_open(pid, PidfdFlags::empty()));
        // Before Linux 5.3 nobody can wait for a process and a time.
        if let Some(Ok(process)) = process {
            let mut ended = [PollFd::new(&process, PollFlags::IN)];
            if !await_any(&mut ended, left)? {
                return Ok(None);
            }
        }
        let status = self.child.wait()?;
        self.has_ended = true;
        Ok(Some(status))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.has_ended {
            // It is waited for only below: until then its number is nobody else's.
            let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
            if let Some(leader) = pid.filter(|pid| getpgid(Some(*pid)) == Ok(*pid)) {
                let _ = kill_process_group(leader, Signal::KILL);
            }
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// What a program says.
#[derive(Debug, Default)]
struct Pipe {
    /// Until nobody can say more.
    from: Option<File>,
    kept: Vec<u8>,
}

impl Pipe {
    /// Reads what is there, and keeps up to `most` bytes in all.
    fn read(&mut self, most: usize) -> io::Result<()> {
        let Some(from) = &mut self.from else {
            return Ok(());
        };
        let mut buffer = [0; AT_ONCE];
        match from.read(&mut buffer) {
            Ok(0) => self.from = None,
            Ok(length) => {
                let kept = length.min(most.saturating_sub(self.kept.len()));
                self.kept.extend(buffer.iter().take(kept));
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

fn without_blocking(pipe: OwnedFd) -> io::Result<File> {
    ioctl_fionbio(pipe.as_fd(), true)?;
    Ok(pipe.into())
}

/// Waits until one is ready; false where the time is up.
fn await_any(these: &mut [PollFd], left: Duration) -> io::Result<bool> {
    let left = Timespec::try_from(left).ok();
    match poll(these, left.as_ref()) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;

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

    /// One is killed with its leader, one after it.
    #[test]
    fn a_group_ends_with_its_leader() {
        let folder = tempfile::tempdir().unwrap();
        let noted = folder.path().join("pid");
        for then in ["wait", "exit 0"] {
            let script = format!("sleep 1000 & echo $! >{}; {then}", noted.display());
            let mut command = Command::new("sh");
            command.args(["-c", &script]).process_group(0);
            let limits = Limits {
                time: Duration::from_secs(1),
                stdout: 0,
            };
            let end = run(&mut command, Vec::new(), limits).unwrap();
            assert!(matches!(end, End::TimedOut), "{end:?}");
            let pid = std::fs::read_to_string(&noted).unwrap();
            let stat = format!("/proc/{}/stat", pid.trim());
            let since = Instant::now();
            // Whoever takes it over may leave it unburied.
            let lives = || std::fs::read_to_string(&stat).is_ok_and(|it| !it.contains(") Z "));
            while lives() {
                assert!(since.elapsed() < Duration::from_secs(30), "{then}");
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}
