//! All cases, one after the other.

use std::fmt::Display;
use std::io::Write as _;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ::tests::Backend;
use fastrand::Rng;

use crate::trial::{Outcome, record, trial};
use crate::{After, Case, Error, Fault, Kind, Machine, Options, Setting, Tally, Verb};

/// Those of the chain that are failed.
const PLUGINS: [&str; 3] = ["bridge", "portmap", "bandwidth"];
/// A case that takes longer is told of.
const SLOW: Duration = Duration::from_secs(10);

/// Makes the faults that are asked for; findings are told on standard error as they come.
///
/// # Errors
/// Something could not be tried.
pub fn run(options: &Options) -> Result<Tally, Error> {
    lab::trace::supported()?;
    let run = Run {
        options,
        began: Instant::now(),
        wanted: AtomicUsize::new(0),
        tally: Mutex::default(),
    };
    let mut is_possible = !Setting::all().any(|setting| options.only.allows(&[&setting]));
    for setting in Setting::all().filter(|setting| options.only.allows(&[setting])) {
        if options.against.is_some() && setting.backend == Backend::Nftables {
            run.say(&format!(
                "{setting}: left out, since others may not know the backend"
            ));
            continue;
        }
        let machines = (0..options.jobs.max(1)).map(|_| run.machine(setting));
        if let Some(machines) = machines.collect::<Result<Option<Vec<_>>, _>>()? {
            is_possible = true;
            run.on(setting, machines)?;
        }
    }
    // Where no machine could be made that is said already.
    if is_possible && run.wanted.into_inner() == 0 {
        return Err(nobody(options).into());
    }
    Ok(run
        .tally
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner))
}

/// That no case has the name which is asked for, and what the parts of names are.
fn nobody(options: &Options) -> String {
    let list = |all: &[&dyn Display]| {
        let all: Vec<String> = all.iter().map(ToString::to_string).collect();
        all.join(", ")
    };
    let settings: Vec<Setting> = Setting::all().collect();
    let settings: Vec<&dyn Display> = settings.iter().map(|one| one as _).collect();
    let verbs = Verb::ALL.each_ref().map(|verb| verb as &dyn Display);
    let plugins = PLUGINS.each_ref().map(|plugin| plugin as &dyn Display);
    let afters = Verb::Add.afters(Kind::Kill).iter();
    let afters: Vec<&dyn Display> = afters.map(|after| after as _).collect();
    let faults = Fault::names();
    let faults: Vec<&dyn Display> = faults.iter().map(|fault| fault as _).collect();
    format!(
        "--only {}: no case has a name that begins so. The parts of names are\n  SETTING  {}\n  VERB     \
         {}\n  PLUGIN   {}\n  FAULT    {}\n  AFTER    {}\nand PROCESS.CALL.NTH, as a finding tells it; not each \
         goes with each",
        options.only,
        list(&settings),
        list(&verbs),
        list(&plugins),
        list(&faults),
        list(&afters),
    )
}

struct Run<'a> {
    options: &'a Options,
    began: Instant,
    /// How many cases have the name that is asked for.
    wanted: AtomicUsize,
    tally: Mutex<Tally>,
}

impl Run<'_> {
    fn machine(&self, setting: Setting) -> Result<Option<Machine>, Error> {
        Machine::new(setting, self.options.against.as_deref())
    }

    fn on(&self, setting: Setting, mut machines: Vec<Machine>) -> Result<(), Error> {
        for verb in Verb::ALL {
            for plugin in PLUGINS {
                if !self.options.only.allows(&[&setting, &verb, &plugin]) {
                    continue;
                }
                let Some(cases) = self.cases(machines.first(), setting, verb, plugin)? else {
                    continue;
                };
                self.say(&format!("{setting}/{verb}/{plugin}: {} cases", cases.len()));
                let at_a_time = machines.len();
                let work = |(first, machine)| {
                    let mut own = cases.iter().skip(first).step_by(at_a_time);
                    own.try_fold(machine, |machine, case| self.make(machine, case))
                };
                machines = std::thread::scope(|scope| {
                    let begun = machines.drain(..).enumerate();
                    let begun: Vec<_> = begun.map(|it| scope.spawn(move || work(it))).collect();
                    begun
                        .into_iter()
                        .map(|it| it.join().unwrap_or_else(|panic| resume_unwind(panic)))
                        .collect::<Result<_, _>>()
                })?;
            }
        }
        Ok(())
    }

    /// The cases of one call, or a sample of each kind of them; `None` where the plugins do not know it.
    fn cases(
        &self,
        machine: Option<&Machine>,
        setting: Setting,
        verb: Verb,
        plugin: &str,
    ) -> Result<Option<Vec<Case>>, Error> {
        let Some(machine) = machine.filter(|machine| verb != Verb::Gc || machine.knows_gc) else {
            return Ok(None);
        };
        let points = record(machine, verb, plugin)?;
        let mut random = Rng::with_seed(self.options.seed);
        let mut cases = Vec::new();
        for kind in Kind::ALL {
            let afters = verb.afters(kind).iter();
            for after in afters.filter(|after| machine.knows_gc || **after != After::Gc) {
                let mut all = Vec::new();
                for point in &points {
                    let faults = Fault::all_of(point.number).into_iter();
                    let faults = faults.filter(|fault| fault.kind() == kind);
                    all.extend(faults.map(|fault| Case {
                        setting,
                        verb,
                        plugin: plugin.to_owned(),
                        fault,
                        after: *after,
                        point: point.clone(),
                    }));
                }
                all.retain(|case| self.is_wanted(case));
                self.wanted.fetch_add(all.len(), Ordering::Relaxed);
                if let Some(sample) = self.options.sample {
                    random.shuffle(&mut all);
                    all.truncate(sample);
                }
                cases.extend(all);
            }
        }
        Ok(Some(cases))
    }

    fn is_wanted(&self, case: &Case) -> bool {
        let Case {
            setting,
            verb,
            plugin,
            fault,
            after,
            point,
        } = case;
        let only = &self.options.only;
        only.allows(&[setting, verb, plugin, fault, after, point])
    }

    /// Makes a case; the machine for the next one.
    fn make(&self, machine: Machine, case: &Case) -> Result<Machine, Error> {
        let began = Instant::now();
        let outcome = trial(&machine, case).map_err(|error| format!("{case}: {error}"))?;
        if began.elapsed() > SLOW {
            self.say(&format!("{case}: took {:.0?}", began.elapsed()));
        }
        let tally = self.tally.lock();
        tally
            .unwrap_or_else(PoisonError::into_inner)
            .count(case, &outcome);
        let Outcome::Found(flaw, what) = outcome else {
            return Ok(machine);
        };
        let against = self.options.against.as_deref();
        let more = against.map_or_else(String::new, |folder| {
            format!(" --against {}", folder.display())
        });
        self.say(&format!(
            "{case}: {flaw:?} ({})\n{what}\nagain: make faults FAULTS='--only {case}{more}'",
            case.point.program
        ));
        drop(machine);
        let again = self.machine(case.setting)?;
        again.ok_or_else(|| "no more machine can be made".into())
    }

    fn say(&self, what: &str) {
        let seconds = self.began.elapsed().as_secs();
        // Who does not listen misses nothing of the table.
        let _ = writeln!(std::io::stderr(), "{seconds:>5}s  {what}");
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn a_name_that_nothing_has_is_an_error_that_names_what_there_is() {
        let options = Options::parse_from(["faults", "--only", "nft-duel/ADD"]);
        let refused = run(&options).unwrap_err().to_string();
        for words in [
            "--only nft-duel/ADD:",
            "nft-dual, ",
            "ADD, DEL, GC",
            "bridge, portmap, bandwidth",
            "kill, ENOSPC, EIO",
            "netlink-busy, dump-interrupted",
            "del, lost, gone, gc, again",
        ] {
            assert!(refused.contains(words), "{words}: {refused}");
        }
    }
}
