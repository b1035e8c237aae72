//! Runs plugins for the runtime, and kills them on the way.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cni::runtime::{Exec, while_busy};
use lab::Namespace;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use tests::Answer;

use crate::{Fault, What, lock};

/// How long a plugin may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long it is taken to take, where none has been seen yet.
const UNKNOWN: Duration = Duration::from_millis(20);

/// How long calls take as a rule.
#[derive(Debug, Default)]
pub struct Times(Mutex<BTreeMap<String, Duration>>);

impl Times {
    fn of(&self, call: &str) -> Duration {
        lock(&self.0).get(call).copied().unwrap_or(UNKNOWN)
    }

    /// The newer weigh more, since the load changes.
    fn note(&self, call: &str, took: Duration) {
        let mut all = lock(&self.0);
        let known = all.entry(call.to_owned()).or_insert(took);
        *known = (*known * 3 + took) / 4;
    }
}

/// What runs the plugins of one step.
#[derive(Debug)]
pub struct Hand {
    network: String,
    path: OsString,
    times: Arc<Times>,
    fault: Option<Fault>,
    /// The one that may vanish.
    pod: Mutex<Option<Namespace>>,
    calls: AtomicUsize,
    seen: Mutex<Seen>,
}

/// What has become of them.
#[derive(Debug, Default)]
pub struct Seen {
    /// One has been killed.
    pub killed: Option<What>,
    /// The pod's namespace has vanished.
    pub vanished: bool,
    /// One has given an answer that is none.
    pub unclear: Option<String>,
    /// How many have been called.
    pub calls: usize,
    /// The pod's namespace, where it is still there.
    pub pod: Option<Namespace>,
}

impl Hand {
    /// For a network's plugins, with that `PATH`; what is to happen on the way.
    pub fn new(
        network: &str,
        path: &OsStr,
        times: &Arc<Times>,
        fault: Option<Fault>,
        pod: Option<Namespace>,
    ) -> Hand {
        Hand {
            network: network.to_owned(),
            path: path.to_owned(),
            times: Arc::clone(times),
            fault,
            pod: Mutex::new(pod),
            calls: AtomicUsize::new(0),
            seen: Mutex::default(),
        }
    }

    /// What has become of them, once all is done.
    pub fn seen(&self) -> Seen {
        let mut seen = std::mem::take(&mut *lock(&self.seen));
        seen.pod = lock(&self.pod).take();
        seen.calls = self.calls.load(Ordering::Relaxed);
        seen
    }

    /// Does it to the plugin, or to the pod.
    fn strike(&self, what: What, child: &Child) -> io::Result<()> {
        let process = Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
        match what {
            // One that has ended is not waited for yet: the number is still its own.
            What::Group => killpg(process, Signal::SIGKILL)?,
            What::Alone => kill(process, Signal::SIGKILL)?,
            What::Namespace => {
                if let Some(pod) = lock(&self.pod).take() {
                    pod.remove().map_err(io::Error::other)?;
                    lock(&self.seen).vanished = true;
                }
            }
        }
        Ok(())
    }

    fn start(&self, program: &Path, variables: &[(&str, &OsStr)]) -> io::Result<Child> {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", &self.path)
            .envs(variables.iter().copied())
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        while_busy(|| command.spawn())
    }
}

impl Exec for Hand {
    fn run(
        &self,
        program: &Path,
        variables: &[(&str, &OsStr)],
        stdin: &[u8],
    ) -> io::Result<Output> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let fault = self.fault.filter(|fault| fault.call == number);
        let verb = variables.iter().find(|(name, _)| *name == "CNI_COMMAND");
        let verb = verb.map(|(_, verb)| verb.to_string_lossy());
        let name = program.file_name().unwrap_or_default().display();
        let call = format!("{} {name} {}", self.network, verb.unwrap_or_default());
        let began = Instant::now();
        let mut child = self.start(program, variables)?;
        let group = i32::try_from(child.id()).map_err(io::Error::other)?;
        // Never more than a pipe takes. One that does not read it says why.
        let _ = child.stdin.take().map(|mut pipe| pipe.write_all(stdin));
        if let Some(fault) = fault {
            let moment = self.times.of(&call) * fault.moment / 1000;
            sleep(moment.saturating_sub(began.elapsed()));
            self.strike(fault.what, &child)?;
        }
        let mut output = lab::finish(child, b"", PATIENCE)?;
        let was_killed = output.status.signal() == Some(Signal::SIGKILL as i32);
        if let Some(fault) = fault.filter(|_| was_killed) {
            lock(&self.seen).killed = Some(fault.what);
            // What lives on is not done with before.
            reap(Pid::from_raw(group));
        } else {
            if fault.is_none() {
                self.times.note(&call, began.elapsed());
            }
            let unclear = Answer::from(output.clone()).is_unclear(true);
            if let Some(unclear) = unclear {
                lock(&self.seen).unclear = Some(format!("{call}: {unclear}"));
            }
        }
        // Warnings of a success are no concern of whoever runs the storm.
        if output.status.success() {
            output.stderr.clear();
        }
        Ok(output)
    }
}

/// Waits for those of the group that have lost their parent, and are this process's children since.
fn reap(group: Pid) {
    let any = Pid::from_raw(-group.as_raw());
    while waitpid(any, Some(WaitPidFlag::__WALL)).is_ok() {}
}
