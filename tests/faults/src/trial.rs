//! One fault, and what it leaves.

use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use lab::Namespace;
use lab::trace::{Entry, Next};
use nix::libc;
use serde_json::Value;
use tests::{Answer, State, kind, with};

use crate::machine::{Machine, POD};
use crate::point::Counter;
use crate::{After, Case, Error, Fault, Point, Verb};

/// How long the kernel may take to remove a namespace with what is in it.
const TEARDOWN: Duration = Duration::from_secs(2);

/// What a fault may bring to light.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// Something is left or lost in the end.
    Leak,
    /// The same, and nothing but flows of UDP, which end by themselves.
    Flow,
    /// An ADD that failed has left something.
    Left,
    /// An ADD succeeds, and CHECK finds that not all is there.
    Hollow,
    /// The DEL or GC after the fault fails, or the second ADD neither works nor is refused.
    Stuck,
    /// The call that was failed answers nothing that a runtime can use.
    Unclear,
    /// It does not end.
    Hung,
}

/// What became of a case.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The call has ended before it came to the point.
    Survived,
    /// All is as it was before.
    Clean,
    /// A flaw, and what it is in words.
    Found(Flaw, String),
}

/// A pod that a call is about to be made for, the calls before it having been made.
struct Stage<'a> {
    machine: &'a Machine,
    verb: Verb,
    /// The plugin's place in the chain.
    index: usize,
    /// The chain's configurations, as a runtime has them for DEL.
    configs: Vec<Value>,
    /// What the call is given.
    config: Value,
    /// `None` once it has been removed.
    pod: Option<Namespace>,
    netns: PathBuf,
}

/// Makes the case on a machine that is as it was at first.
///
/// # Errors
/// It could not be tried.
pub fn trial(machine: &Machine, case: &Case) -> Result<Outcome, Error> {
    let mut stage = Stage::prepare(machine, case.verb, &case.plugin)?;
    let may_die = case.point.process == 0 && case.fault.may_be_deadly(case.point.number);
    // What it holds is read only where it will be asked: that takes longer than the call itself.
    let is_killed = case.fault == Fault::Kill && case.point.process == 0;
    let is_asked = case.verb == Verb::Add && !is_killed;
    let before = is_asked.then(|| stage.state()).transpose()?;
    let mut counter = Counter::default();
    let at = |entry: &Entry| match counter.point(entry).is(&case.point) {
        true => case.fault.next(),
        false => Next::Proceed,
    };
    let traced = match stage.trace(at) {
        Err(error) => return Ok(Outcome::Found(Flaw::Hung, error.to_string())),
        Ok(traced) => traced,
    };
    let reached = traced.faults > 0;
    let answer = Answer::from(traced.output);
    let is_dead = reached && may_die && answer.status < 0;
    let mut flaw = None;
    if !is_dead {
        let could_write = case.point.process > 0 || !writes(&case.point);
        flaw = answer
            .is_unclear(could_write)
            .map(|what| (Flaw::Unclear, what));
    }
    if let Some(before) = before.filter(|_| !is_dead && answer.status != 0) {
        let left = stage.state()?.differs_from(&before);
        let left = left.map(|left| (Flaw::Left, format!("{}\n{left}", answer.told())));
        flaw = left.or(flaw);
    }
    let is_done = !is_dead && answer.status == 0;
    if is_done && case.verb == Verb::Add {
        stage.knows(&answer.json);
        flaw = flaw.or(stage.is_hollow()?.map(|what| (Flaw::Hollow, what)));
    }
    let mended = stage.mend(case.after, is_done)?;
    let leak = stage.settled()?.map(|leak| match is_flows(&leak) {
        true => (Flaw::Flow, leak),
        false => (Flaw::Leak, leak),
    });
    let found = leak.or(mended.map(|what| (Flaw::Stuck, what))).or(flaw);
    Ok(match found {
        Some((flaw, what)) => Outcome::Found(flaw, what),
        None if reached => Outcome::Clean,
        None => Outcome::Survived,
    })
}

/// The system calls of one call, none of which is failed.
///
/// # Errors
/// The call does not succeed, or leaves something.
pub fn record(machine: &Machine, verb: Verb, plugin: &str) -> Result<Vec<Point>, Error> {
    let mut stage = Stage::prepare(machine, verb, plugin)?;
    let mut points = Vec::new();
    let mut counter = Counter::default();
    let traced = stage.trace(|entry| {
        points.push(counter.point(entry));
        Next::Proceed
    })?;
    let answer = Answer::from(traced.output);
    if answer.status != 0 {
        return Err(format!("{verb} of {plugin} without a fault: {}", answer.told()).into());
    }
    if verb == Verb::Add {
        stage.knows(&answer.json);
    }
    let after = if verb == Verb::Gc {
        After::Gc
    } else {
        After::Del
    };
    let stuck = stage.mend(after, true)?;
    // Some leave flows, whatever happens.
    let left = stage.settled()?.filter(|left| !is_flows(left));
    match stuck.or(left) {
        Some(what) => Err(format!("{verb} of {plugin} without a fault: {what}").into()),
        None => Ok(points),
    }
}

/// Whether a difference is of flows alone.
fn is_flows(left: &str) -> bool {
    left.lines().all(|line| line.starts_with("left: flow: "))
}

/// Whether the call may be the one by which the plugin answers.
fn writes(point: &Point) -> bool {
    let writes = [libc::SYS_write, libc::SYS_writev];
    writes
        .iter()
        .any(|number| u64::try_from(*number) == Ok(point.number))
}

impl<'a> Stage<'a> {
    fn prepare(machine: &'a Machine, verb: Verb, plugin: &str) -> Result<Stage<'a>, Error> {
        let configs = machine.configs();
        let index = configs.iter().position(|config| kind(config) == plugin);
        let index = index.ok_or_else(|| format!("no {plugin} in the chain"))?;
        let pod = machine.world.node.namespace(POD);
        let mut stage = Stage {
            config: configs.get(index).cloned().unwrap_or_default(),
            netns: pod.path().to_owned(),
            pod: Some(pod),
            machine,
            verb,
            index,
            configs,
        };
        match verb {
            Verb::Add => {
                let result = stage.add(index)?;
                stage.config = with(&stage.config, "prevResult", &result);
            }
            Verb::Del => {
                stage.attach()?;
                for later in (index + 1..stage.configs.len()).rev() {
                    stage.succeed("DEL", later)?;
                }
            }
            Verb::Gc => {
                stage.attach()?;
                for earlier in 0..index {
                    stage.succeed("GC", earlier)?;
                }
            }
        }
        if verb != Verb::Add {
            stage.config = stage.given(verb, index);
        }
        Ok(stage)
    }

    /// ADD of the first plugins; the result.
    fn add(&self, plugins: usize) -> Result<Value, Error> {
        let mut result = Value::Null;
        for config in self.configs.iter().take(plugins) {
            let config = with(config, "prevResult", &result);
            let answer = self.call("ADD", &config)?;
            if answer.status != 0 {
                return Err(format!("ADD of {}: {}", kind(&config), answer.told()).into());
            }
            result = answer.json;
        }
        Ok(result)
    }

    /// ADD of the chain, and flows to the pod.
    fn attach(&mut self) -> Result<(), Error> {
        let result = self.add(self.configs.len())?;
        self.knows(&result);
        self.machine.make_flows();
        Ok(())
    }

    /// The runtime has a result for the pod.
    fn knows(&mut self, result: &Value) {
        for config in &mut self.configs {
            *config = with(config, "prevResult", result);
        }
    }

    /// What a plugin is given by that verb.
    fn given(&self, verb: Verb, index: usize) -> Value {
        let config = self.configs.get(index).cloned().unwrap_or_default();
        match verb {
            Verb::Gc => {
                let bare = with(&config, "prevResult", &Value::Null);
                self.machine
                    .gc_config(&with(&bare, "runtimeConfig", &Value::Null))
            }
            Verb::Add | Verb::Del => config,
        }
    }

    /// What CHECK says of what the call has made.
    fn is_hollow(&self) -> Result<Option<String>, Error> {
        if !self.machine.knows_check {
            return Ok(None);
        }
        let answer = self.call("CHECK", &self.given(Verb::Add, self.index))?;
        Ok((answer.status != 0).then(|| answer.told()))
    }

    fn call(&self, verb: &str, config: &Value) -> Result<Answer, Error> {
        let netns = (verb != "GC").then_some(self.netns.as_path());
        self.machine.call(verb, config, netns)
    }

    fn trace(&self, at: impl FnMut(&Entry) -> Next) -> Result<lab::trace::Traced, lab::Error> {
        let netns = (self.verb != Verb::Gc).then_some(self.netns.as_path());
        self.machine
            .trace(&self.verb.to_string(), &self.config, netns, at)
    }

    /// A call that nothing hinders.
    fn succeed(&self, verb: &str, index: usize) -> Result<(), Error> {
        let as_verb = if verb == "GC" { Verb::Gc } else { Verb::Del };
        let answer = self.call(verb, &self.given(as_verb, index))?;
        match answer.status {
            0 => Ok(()),
            _ => Err(format!("{verb} of plugin {index}: {}", answer.told()).into()),
        }
    }

    /// What a runtime does next; what went wrong with it. A DEL or GC that has succeeded is not made
    /// again.
    fn mend(&mut self, after: After, is_done: bool) -> Result<Option<String>, Error> {
        self.machine.make_flows();
        match after {
            After::Del => {}
            After::Lost => {
                for config in &mut self.configs {
                    *config = with(config, "prevResult", &Value::Null);
                    *config = with(config, "runtimeConfig", &Value::Null);
                }
            }
            After::Gone => {
                if let Some(pod) = self.pod.take() {
                    pod.remove()?;
                }
            }
            After::Gc => {
                let first = if is_done && self.verb == Verb::Gc {
                    self.index + 1
                } else {
                    0
                };
                return self.each("GC", first..self.configs.len());
            }
            After::Again => {
                if let Some(stuck) = self.again()? {
                    return Ok(Some(stuck));
                }
            }
        }
        let last = match self.verb {
            Verb::Del if is_done && after != After::Again => self.index,
            _ => self.configs.len(),
        };
        self.each("DEL", (0..last).rev())
    }

    /// One call of each plugin, whatever the others answer; the failures.
    fn each(
        &self,
        verb: &str,
        plugins: impl Iterator<Item = usize>,
    ) -> Result<Option<String>, Error> {
        let mut failed = Vec::new();
        for index in plugins {
            if let Err(error) = self.succeed(verb, index) {
                failed.push(error.to_string());
            }
        }
        Ok((!failed.is_empty()).then(|| failed.join("\n")))
    }

    /// ADD once more; what is wrong with its answer.
    fn again(&mut self) -> Result<Option<String>, Error> {
        let mut result = Value::Null;
        for config in self.configs.clone() {
            let config = with(&config, "prevResult", &result);
            let answer = self.call("ADD", &config)?;
            if answer.status != 0 {
                let unclear = answer.is_unclear(true);
                return Ok(unclear.map(|what| format!("ADD again of {}: {what}", kind(&config))));
            }
            result = answer.json;
        }
        self.knows(&result);
        Ok(None)
    }

    fn state(&self) -> Result<State, Error> {
        self.machine.state(self.pod.as_ref())
    }

    /// What is left in the end, when the kernel has done what it does later.
    fn settled(&mut self) -> Result<Option<String>, Error> {
        let end = Instant::now() + TEARDOWN;
        let left = loop {
            match self.state()?.differs_from(&self.machine.before) {
                Some(_) if Instant::now() < end => sleep(Duration::from_millis(100)),
                left => break left,
            }
        };
        if let Some(pod) = self.pod.take() {
            pod.remove()?;
        }
        Ok(left)
    }
}
