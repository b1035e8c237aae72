//! Programs watched at every system call that they and their children make, by ptrace(2).

#[cfg_attr(not(target_arch = "x86_64"), path = "trace/elsewhere.rs")]
mod call;
mod netlink;

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::error::Doing;
use crate::process::collect;
use crate::{Error, Result};

/// How long a program may take with all that it starts.
const PATIENCE: Duration = Duration::from_secs(120);

/// What a program did.
#[derive(Debug)]
pub struct Traced {
    /// Its status and what it printed.
    pub output: Output,
    /// The program, then all that it started, in the order in which they came to be.
    pub processes: Vec<Process>,
    /// How many of the faults that were asked for were made: of netlink, not every call can have one.
    pub faults: u64,
}

/// A process that was watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// The file that it ran last.
    pub program: PathBuf,
    /// How many system calls it and its threads began, the first `execve` apart.
    pub system_calls: u64,
    /// The most memory that it had at a time, its children apart, in KiB: `VmHWM` of proc_pid_status(5).
    pub peak: u64,
    pid: Pid,
}

/// A process is about to make a system call.
#[derive(Debug)]
pub struct Entry<'a> {
    /// The process; this call is counted.
    pub process: &'a Process,
    /// Its place among those that were started: 0 is the program itself.
    pub place: usize,
    /// The how-manieth system call of all processes this is: the first is 1.
    pub nth: u64,
    thread: Pid,
}

/// What is to become of a process that is about to make a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// It makes it.
    Proceed,
    /// It is killed, and does not make it. Its children live on.
    Kill,
    /// The call fails with that error, and is not made. (`close` is made: it frees its descriptor
    /// whatever it answers.)
    Fail(Errno),
    /// What it asks for by netlink is refused by the kernel, which answers with that error: the first
    /// request of the message that is sent.
    Refuse(Errno),
    /// The part of a dump that it reads by netlink says that the dump was interrupted.
    Interrupt,
}

/// Whether calls can be made to fail here, and netlink to answer otherwise: on x86-64.
pub const CAN_FAIL: bool = cfg!(target_arch = "x86_64");

impl Entry<'_> {
    /// The call's number, as in asm/unistd.h; `None` where the kernel does not tell.
    pub fn number(&self) -> Option<u64> {
        call::number(self.thread)
    }
}

/// Runs the program with `input` on its standard input, to the end of all that it starts, and asks
/// `at_entry` at each system call. The calling thread must have no other child.
///
/// # Errors
/// It cannot be started or traced, or takes more than two minutes and is killed. That it fails is in
/// its status.
pub fn trace(
    command: &mut Command,
    input: &[u8],
    at_entry: impl FnMut(&Entry) -> Next,
) -> Result<Traced> {
    let program = command.get_program().display().to_string();
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    raw::be_traced(command);
    let mut child = command.spawn().doing(format!("start {program}"))?;
    let group = Pid::from_raw(child.id().cast_signed());
    let (stdin, input) = (child.stdin.take(), input.to_owned());
    let (stdout, stderr) = (collect(child.stdout.take()), collect(child.stderr.take()));
    // In a thread, since it may answer before it has read all; one that does not care for its input
    // is no error.
    thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(&input)));
    let (ended, end) = channel::<()>();
    let watchdog = thread::spawn(move || {
        let late = end.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout);
        late && killpg(group, Signal::SIGKILL).is_ok()
    });
    let traced = Tracer::new(group, at_entry).run();
    drop(ended);
    let late = watchdog.join().unwrap_or_default();
    let traced = traced
        .map_err(std::io::Error::from)
        .doing(format!("trace {program}"))?;
    if late {
        return Err(Error::Failed(format!(
            "{program}: not finished after {PATIENCE:?}"
        )));
    }
    let output = Output {
        status: traced.status,
        stdout: stdout.recv().unwrap_or_default(),
        stderr: stderr.recv().unwrap_or_default(),
    };
    Ok(Traced {
        output,
        processes: traced.processes,
        faults: traced.faults,
    })
}

/// Whether processes can be traced here; else why not, so that a test can skip and say so.
///
/// # Errors
/// What failed.
pub fn supported() -> std::result::Result<(), String> {
    let traced = trace(&mut Command::new("true"), b"", |_| Next::Proceed);
    traced
        .map(drop)
        .map_err(|error| format!("no process can be traced: {error}"))
}

struct Tracer<F> {
    root: Pid,
    status: ExitStatus,
    threads: HashMap<Pid, Thread>,
    processes: Vec<Process>,
    entries: u64,
    faults: u64,
    at_entry: F,
}

#[derive(Clone, Copy)]
struct Thread {
    /// Its process's place.
    process: usize,
    /// Whether it is within a system call: the next stop at one is its exit.
    inside: bool,
    /// What is to be done at that exit.
    then: Option<Then>,
    /// The error that the kernel's next one is to become.
    refused: Option<Errno>,
}

/// What is done when a call returns.
#[derive(Clone, Copy)]
enum Then {
    Fail(Errno),
    /// What it has sent becomes again what it was, since it may be sent again.
    Restore(u64, [u8; 2]),
    Interrupt,
}

impl<F: FnMut(&Entry) -> Next> Tracer<F> {
    fn new(root: Pid, at_entry: F) -> Tracer<F> {
        Tracer {
            root,
            status: ExitStatus::default(),
            threads: HashMap::new(),
            processes: Vec::new(),
            entries: 0,
            faults: 0,
            at_entry,
        }
    }

    fn run(mut self) -> nix::Result<Self> {
        // Stopped by its exec, since it has asked to be traced.
        waitpid(self.root, Some(WaitPidFlag::__WALL))?;
        let all = Options::PTRACE_O_TRACESYSGOOD
            | Options::PTRACE_O_TRACEFORK
            | Options::PTRACE_O_TRACEVFORK
            | Options::PTRACE_O_TRACECLONE
            | Options::PTRACE_O_TRACEEXEC
            | Options::PTRACE_O_TRACEEXIT
            | Options::PTRACE_O_EXITKILL;
        ptrace::setoptions(self.root, all)?;
        self.thread(self.root);
        resume(self.root, None)?;
        let mine = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
        loop {
            match waitpid(None, Some(mine)) {
                Ok(status) => self.step(status)?,
                Err(Errno::ECHILD) => return Ok(self),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    fn step(&mut self, status: WaitStatus) -> nix::Result<()> {
        match status {
            WaitStatus::PtraceSyscall(thread) => self.at_system_call(thread),
            WaitStatus::PtraceEvent(thread, _, event) => {
                self.at_event(thread, event);
                resume(thread, None)
            }
            WaitStatus::Stopped(thread, signal) => {
                // What has just been started is stopped once by the kernel itself.
                let new = !self.threads.contains_key(&thread) && signal == Signal::SIGSTOP;
                self.thread(thread);
                resume(thread, (!new).then_some(signal))
            }
            WaitStatus::Exited(thread, code) => {
                self.forget(thread, ExitStatus::from_raw(code << 8));
                Ok(())
            }
            WaitStatus::Signaled(thread, signal, _) => {
                self.forget(thread, ExitStatus::from_raw(signal as i32));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn at_system_call(&mut self, thread: Pid) -> nix::Result<()> {
        let mut known = self.thread(thread);
        known.inside = !known.inside;
        let next = if known.inside {
            self.entered(thread, known.process)
        } else {
            gone_is_fine(self.end(thread, &mut known))?;
            Next::Proceed
        };
        self.threads.insert(thread, known);
        if next == Next::Kill {
            self.faults += 1;
            let process = self.processes.get(known.process);
            return process.map_or(Ok(()), |process| {
                gone_is_fine(kill(process.pid, Signal::SIGKILL))
            });
        }
        gone_is_fine(self.begin(thread, next))?;
        resume(thread, None)
    }

    /// Asks what is to become of a call.
    fn entered(&mut self, thread: Pid, place: usize) -> Next {
        let Some(process) = self.processes.get_mut(place) else {
            return Next::Proceed;
        };
        process.system_calls += 1;
        self.entries += 1;
        (self.at_entry)(&Entry {
            process,
            place,
            nth: self.entries,
            thread,
        })
    }

    /// Makes the fault, or has it made when the call returns.
    fn begin(&mut self, thread: Pid, next: Next) -> nix::Result<()> {
        let then = match next {
            Next::Proceed | Next::Kill => return Ok(()),
            Next::Interrupt => Some(Then::Interrupt),
            Next::Fail(errno) => {
                call::skip(thread)?;
                self.faults += 1;
                Some(Then::Fail(errno))
            }
            Next::Refuse(_) => call::spoil(thread)?.map(|(at, was)| Then::Restore(at, was)),
        };
        if let Some(known) = self.threads.get_mut(&thread) {
            known.then = then;
            if let (Next::Refuse(errno), Some(_)) = (next, then) {
                known.refused = Some(errno);
            }
        }
        Ok(())
    }

    fn end(&mut self, thread: Pid, known: &mut Thread) -> nix::Result<()> {
        match known.then.take() {
            Some(Then::Fail(errno)) => call::fail(thread, errno)?,
            Some(Then::Restore(address, was)) => call::put(thread, address, &was),
            Some(Then::Interrupt) => {
                self.faults += u64::from(call::change(thread, netlink::interrupt)?);
            }
            None => {}
        }
        let Some(errno) = known.refused else {
            return Ok(());
        };
        if call::change(thread, |bytes| netlink::refuse(bytes, errno))? && !call::peeks(thread)? {
            known.refused = None;
            self.faults += 1;
        }
        Ok(())
    }

    fn at_event(&mut self, thread: Pid, event: i32) {
        let place = self.thread(thread).process;
        let Some(process) = self.processes.get_mut(place) else {
            return;
        };
        match event {
            libc::PTRACE_EVENT_EXEC => process.program = program_of(process.pid),
            libc::PTRACE_EVENT_EXIT => {
                let peak = status_of(thread, "VmHWM").unwrap_or_default();
                process.peak = process.peak.max(peak);
            }
            _ => {}
        }
    }

    /// The thread; one that is new belongs to its process, or is the first of one.
    fn thread(&mut self, thread: Pid) -> Thread {
        if let Some(known) = self.threads.get(&thread) {
            return *known;
        }
        let group = status_of(thread, "Tgid").and_then(|group| i32::try_from(group).ok());
        let pid = group.map_or(thread, Pid::from_raw);
        let leader = self.threads.get(&pid).map(|leader| leader.process);
        let process = leader.unwrap_or_else(|| {
            self.processes.push(Process {
                program: program_of(pid),
                system_calls: 0,
                peak: 0,
                pid,
            });
            self.processes.len() - 1
        });
        let new = Thread {
            process,
            inside: false,
            then: None,
            refused: None,
        };
        self.threads.insert(thread, new);
        new
    }

    fn forget(&mut self, thread: Pid, status: ExitStatus) {
        self.threads.remove(&thread);
        if thread == self.root {
            self.status = status;
        }
    }
}

/// Lets it run to the next stop, with the signal that stopped it.
fn resume(thread: Pid, signal: Option<Signal>) -> nix::Result<()> {
    gone_is_fine(ptrace::syscall(thread, signal))
}

/// One that has been killed meanwhile stops no more.
fn gone_is_fine(done: nix::Result<()>) -> nix::Result<()> {
    match done {
        Err(Errno::ESRCH) => Ok(()),
        done => done,
    }
}

fn program_of(pid: Pid) -> PathBuf {
    fs::read_link(Path::new("/proc").join(pid.to_string()).join("exe")).unwrap_or_default()
}

/// A number of `/proc/PID/status`.
fn status_of(pid: Pid, key: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    number_of(&text, key)
}

fn number_of(status: &str, key: &str) -> Option<u64> {
    let mut lines = status.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = lines.find(|(name, _)| *name == key)?;
    value.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_status() {
        let text = "Name:\tsh\nTgid:\t12\nVmHWM:\t    2048 kB\n";
        assert_eq!(number_of(text, "Tgid"), Some(12));
        assert_eq!(number_of(text, "VmHWM"), Some(2048));
        assert_eq!(number_of(text, "VmRSS"), None);
    }
}
