//! The storm: workers that take steps, and what all of them share.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io::Write as _;
use std::net::IpAddr;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use nix::sys::prctl;

use crate::model::Known;
use crate::queue::Queue;
use crate::tenant::{Pod, Tenant};
use crate::{Error, Flaw, Ground, Layout, Options, Plan, Step, Tally, lock};

/// Makes the storm; findings are told on standard error as they come. Nothing is done, and that is said
/// aloud, where the machine cannot.
///
/// # Errors
/// Something could not be tried.
pub fn run(options: &Options) -> Result<Tally, Error> {
    options.check()?;
    // What a killed plugin has started is waited for.
    prctl::set_child_subreaper(true)?;
    let Some(ground) = Ground::new(options)? else {
        return Ok(Tally::default());
    };
    let layout = Layout {
        attachments: options.attachments.into(),
        networks: ground.networks.len(),
    };
    let numbers = (0..layout.attachments).filter(|number| layout.pod(*number) == *number);
    let storm = Storm {
        options,
        layout,
        pods: numbers
            .map(|pod| (pod, Mutex::new(Pod::new(pod, layout))))
            .collect(),
        crowds: ground.networks.iter().map(|_| Crowd::default()).collect(),
        ground,
        calm: RwLock::new(()),
        addresses: Mutex::default(),
        tally: Mutex::default(),
        began: Instant::now(),
    };
    storm.rage()?;
    storm.sweep()?;
    storm.finish()
}

/// What all workers share.
pub struct Storm<'a> {
    pub options: &'a Options,
    pub layout: Layout,
    pub ground: Ground,
    /// By the numbers of their first attachments.
    pub pods: BTreeMap<usize, Mutex<Pod>>,
    /// By the numbers of networks.
    pub crowds: Vec<Crowd>,
    /// A runtime makes no other call while it collects: who does, has it alone.
    pub calm: RwLock<()>,
    /// Whose an address is, of those that are certain.
    pub addresses: Mutex<HashMap<IpAddr, usize>>,
    pub tally: Mutex<Tally>,
    pub began: Instant,
}

/// Who may have addresses of a network.
#[derive(Debug, Default)]
pub struct Crowd {
    /// So many attachments may have some.
    pub held: AtomicUsize,
    /// So many ADDs have begun.
    pub begun: AtomicUsize,
}

impl Storm<'_> {
    fn rage(&self) -> Result<(), Error> {
        let plan = Plan::new(self.options.seed, self.layout);
        let end = self.began + Duration::from_secs(self.options.seconds);
        let queue = Queue::new(plan, self.layout, self.options.only, end);
        std::thread::scope(|scope| {
            let workers = 0..self.options.workers;
            let begun: Vec<_> = workers.map(|_| scope.spawn(|| self.work(&queue))).collect();
            let mut all = begun.into_iter();
            all.try_for_each(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)))
        })
    }

    fn work(&self, queue: &Queue) -> Result<(), Error> {
        // Also where one panics the others are to end.
        let stopping = Stopping(queue);
        while let Some(step) = queue.next() {
            self.make(&step)?;
            queue.done(&step);
            if lock(&self.tally).findings() >= self.options.most {
                queue.stop();
            }
        }
        std::mem::forget(stopping);
        Ok(())
    }

    fn make(&self, step: &Step) -> Result<(), Error> {
        if step.action == crate::Action::Gc {
            let _alone = self.calm.write().unwrap_or_else(PoisonError::into_inner);
            return self.collect(step);
        }
        let _among_others = self.calm.read().unwrap_or_else(PoisonError::into_inner);
        let pod = self.pods.get(&self.layout.pod(step.whose));
        pod.map_or(Ok(()), |pod| self.attend(step, &mut lock(pod)))
    }

    fn finish(self) -> Result<Tally, Error> {
        let Options {
            seed,
            attachments,
            workers,
            seconds,
            ..
        } = self.options;
        let names = self.ground.networks.iter().map(|it| it.list.name.as_str());
        let mut tally = self
            .tally
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        tally.head = format!(
            "seed {seed}, {seconds} s, {attachments} attachments, {workers} workers, networks {}",
            names.collect::<Vec<_>>().join(" ")
        );
        Ok(tally)
    }

    /// What is known of it from now on.
    pub fn settle(&self, tenant: &mut Tenant, known: Known) {
        let held = &self.crowds[tenant.network].held;
        match (tenant.known == Known::Absent, known == Known::Absent) {
            (true, false) => drop(held.fetch_add(1, Ordering::SeqCst)),
            (false, true) => drop(held.fetch_sub(1, Ordering::SeqCst)),
            _ => {}
        }
        tenant.known = known;
    }

    /// The attachment has no addresses for certain any more.
    pub fn forget_addresses(&self, tenant: &mut Tenant) {
        let mut all = lock(&self.addresses);
        for address in tenant.addresses.drain(..) {
            if all.get(&address) == Some(&tenant.number) {
                all.remove(&address);
            }
        }
    }

    /// Counts and tells a finding, with all that is needed to see it again.
    pub fn find(&self, flaw: Flaw, pod: &str, tenant: &mut Tenant, what: &str) {
        lock(&self.tally).find(flaw);
        let network = &self.ground.network(tenant.network).list.name;
        let (number, ifname) = (tenant.number, tenant.ifname);
        self.say(&format!(
            "{flaw:?}: attachment {number}, {network}/{pod}/{ifname}, {:?}, ports {:?}\n{what}\nits history:\n{}again: {}",
            tenant.wish,
            tenant.ports,
            tenant.history(),
            self.again(Some(number)),
        ));
        // The next DEL has to bring it in order.
        self.settle(tenant, Known::Unsure);
        self.forget_addresses(tenant);
    }

    /// The command line that makes the same steps again.
    pub fn again(&self, only: Option<usize>) -> Again<'_> {
        Again(self.options, only)
    }

    pub fn say(&self, what: &str) {
        if self.options.quiet {
            return;
        }
        let seconds = self.began.elapsed().as_secs();
        // Who does not listen misses nothing of the table.
        let _ = writeln!(std::io::stderr(), "{seconds:>5}s  {what}");
    }
}

/// A command line; that with one attachment's steps alone, where there is one, is a second one.
pub struct Again<'a>(&'a Options, Option<usize>);

impl fmt::Display for Again<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Again(options, only) = self;
        let Options {
            seconds,
            seed,
            workers,
            attachments,
            ..
        } = options;
        write!(
            f,
            "make soak SECONDS={seconds} SOAK='--seed {seed} --attachments {attachments} --workers {workers}"
        )?;
        if let Some(folder) = &options.against {
            write!(f, " --against {}", folder.display())?;
        }
        if let Some(only) = only {
            write!(f, "', its steps alone with --only {only}")
        } else {
            f.write_str("'")
        }
    }
}

/// Lets all workers end where one does so early.
struct Stopping<'a>(&'a Queue);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}
