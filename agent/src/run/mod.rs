//! The agent as it runs: what the API and the kernel tell, and what is done then. Nothing that either
//! answers ends it.

mod client;
mod collect;
mod http;
mod kernel;
mod log;
mod metrics;
mod report;
mod watch;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use net::Netlink;
use plan::kubernetes::Told;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until};
use tracing::{error, info, warn};

use crate::nodes::{Heard, Nodes};
use crate::{Finding, Outlook, Reason, Seen, Settings, Step};
use client::client;
use metrics::Metrics;
use report::Report;

pub use tracing::Level;

/// How long is waited for more after a change, and between two looks at the node: hundreds of changes come
/// together where many nodes do.
const GATHER: Duration = Duration::from_millis(100);
/// See [`GATHER`].
const APART: Duration = Duration::from_millis(500);
/// When is tried again what failed on this node: at first, and at last.
const RETRY: Duration = Duration::from_secs(3);
/// See [`RETRY`].
const RETRY_LIMIT: Duration = Duration::from_secs(60);
/// How long the API may take to list all nodes once.
const LIST_LIMIT: Duration = Duration::from_secs(60);
/// How many words of the API may wait.
const WAITING: usize = 1024;

/// How the agent runs.
#[derive(Debug, Clone)]
pub struct Options {
    /// What does not change.
    pub settings: Settings,
    /// Where the API is; else the pod's service account says, or `KUBECONFIG`.
    pub kubeconfig: Option<PathBuf>,
    /// Where readiness, liveness and metrics are served.
    pub listen: SocketAddr,
    /// The folder that the plugins are installed from, and that which they are installed into.
    pub install: Option<(PathBuf, PathBuf)>,
    /// The command that does GC and prints in JSON what was gone.
    pub collect: Option<Vec<OsString>>,
    /// How often all is looked at although nothing was heard.
    pub resync: Duration,
    /// How much is said on standard error.
    pub level: Level,
}

/// Why the agent cannot run at all.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing says where the API is.
    #[error("where the API is cannot be read: {0}")]
    Config(String),
    /// The API does not tell of its nodes.
    #[error("the API does not tell of its nodes: {0}")]
    Api(String),
    /// The process cannot have what it needs.
    #[error("cannot begin: {0}")]
    Io(#[from] io::Error),
}

/// Runs until a signal ends it (SIGTERM, SIGINT). Routes and conflist then stay: pods go on without it.
///
/// # Errors
/// It cannot begin.
pub fn run(options: &Options) -> Result<(), Error> {
    log::begin(options.level);
    runtime()?.block_on(go(options))
}

/// The nodes as the API tells of them now. `kubeconfig` says where it is, as in [`Options`].
///
/// # Errors
/// It does not tell.
pub fn list(kubeconfig: Option<&Path>) -> Result<Vec<Told>, Error> {
    runtime()?.block_on(async {
        let (client, _) = client(kubeconfig).await?;
        let listed = watch::list(&client);
        let limit = tokio::time::timeout(LIST_LIMIT, listed).await;
        let listed = limit.map_err(|error| Error::Api(error.to_string()))?;
        listed.map_err(|error| Error::Api(client::in_full(&error)))
    })
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build()
}

async fn go(options: &Options) -> Result<(), Error> {
    let (client, api) = client(options.kubeconfig.as_deref()).await?;
    let mut options = options.clone();
    options.settings.api.extend(api);
    let options = &options;
    let own = &options.settings.own;
    let metrics = Arc::new(Metrics::default());
    let (changed, relist) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tell, hear) = mpsc::channel(WAITING);
    let (said, reports) = tokio::sync::watch::channel(None);
    kernel::listen(Arc::clone(&changed))?;
    tokio::spawn(http::serve(
        options.listen,
        own.as_str().into(),
        Arc::clone(&metrics),
    ));
    if let Some(command) = &options.collect {
        let every = options.resync;
        tokio::spawn(collect::collect(
            command.clone(),
            every,
            Arc::clone(&metrics),
        ));
    }
    let resync = options.resync;
    tokio::spawn(report::report(
        client.clone(),
        own.clone(),
        reports,
        resync,
        Arc::clone(&relist),
        Arc::clone(&metrics),
    ));
    tokio::spawn(watch::watch(client, tell, relist, Arc::clone(&metrics)));
    info!("agent of node {own} {}", env!("CARGO_PKG_VERSION"));
    let agent = Agent {
        options,
        nodes: Nodes::default(),
        metrics,
        said,
        known: BTreeSet::new(),
        installed: None,
        failures: 0,
    };
    agent.tend(hear, &changed).await?;
    info!("the agent of node {own} ends; routes and conflist stay");
    Ok(())
}

/// What is known while it runs.
struct Agent<'a> {
    options: &'a Options,
    nodes: Nodes,
    metrics: Arc<Metrics>,
    said: tokio::sync::watch::Sender<Option<Report>>,
    /// What was wrong at the last look.
    known: BTreeSet<Finding>,
    /// When the plugins were last compared with those that they are installed from.
    installed: Option<std::time::Instant>,
    /// How many looks in a row did not do all that was to be done.
    failures: u32,
}

/// How long is waited after so many looks that failed, the first among them: what fails for a moment is right
/// soon, and what stays costs little.
fn retry(failures: u32) -> Duration {
    let doubled = 1_u32 << failures.saturating_sub(1).min(8);
    RETRY.saturating_mul(doubled).min(RETRY_LIMIT)
}

impl Agent<'_> {
    /// Looks at all again and again, until a signal comes.
    async fn tend(mut self, mut hear: mpsc::Receiver<Heard>, changed: &Notify) -> io::Result<()> {
        let mut end = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut due = Instant::now();
        let mut last = Instant::now();
        loop {
            let soon = || (Instant::now() + GATHER).max(last + APART);
            tokio::select! {
                _ = end.recv() => return Ok(()),
                _ = interrupt.recv() => return Ok(()),
                heard = hear.recv() => {
                    // Its sender ends with this loop.
                    let Some(heard) = heard else { return Ok(()) };
                    if self.nodes.hear(heard) {
                        due = due.min(soon());
                    }
                }
                () = changed.notified() => due = due.min(soon()),
                () = sleep_until(due) => {
                    let next = self.reconcile();
                    last = Instant::now();
                    due = last + next.min(self.options.resync);
                }
            }
        }
    }

    /// Looks at all, and makes it so; when to look again if nothing is heard until then.
    fn reconcile(&mut self) -> Duration {
        self.install();
        // Without a whole list nothing is known to be stale.
        let Some(told) = self.nodes.told() else {
            return self.options.resync;
        };
        let started = std::time::Instant::now();
        let settings = &self.options.settings;
        let seen = Seen::look(settings);
        let (seen, netlink) = match (seen, Netlink::current()) {
            (Ok(seen), Ok(netlink)) => (seen, netlink),
            (Err(unread), _) => return self.unread(&unread.to_string()),
            (_, Err(error)) => return self.unread(&error.to_string()),
        };
        let mut outlook = Outlook::new(settings, &told, seen);
        let (gone, come) = (outlook.change.delete.len(), outlook.change.add.len());
        // What was made is looked at; of routes the kernel tells by itself.
        let next = match outlook.conflist.step {
            Step::Write => APART,
            Step::Keep | Step::Wait => self.options.resync,
        };
        outlook.make(&netlink);
        let is_done = !outlook.findings.iter().any(is_of_making);
        let next = self.after(is_done, next);
        if gone + come > 0 {
            info!(removed = gone, added = come, "routes to other nodes' pods");
        }
        self.say(&outlook);
        let took = started.elapsed();
        self.metrics.reconciled(took, told.len(), &outlook);
        let obstacle = outlook.obstacles().next().cloned();
        self.report(Report {
            obstacle,
            findings: outlook.findings,
        });
        next
    }

    /// When to look again after a look that did all, or did not.
    fn after(&mut self, is_done: bool, next: Duration) -> Duration {
        if is_done {
            self.failures = 0;
            return next;
        }
        self.failures = self.failures.saturating_add(1);
        retry(self.failures)
    }

    /// Has the API told, where that is another than before.
    fn report(&self, report: Report) {
        let is_new = |before: &mut Option<Report>| {
            let is_new = before.as_ref() != Some(&report);
            *before = Some(report);
            is_new
        };
        self.said.send_if_modified(is_new);
    }

    /// Logs what has come and what has gone.
    fn say(&mut self, outlook: &Outlook) {
        let now: BTreeSet<Finding> = outlook.findings.iter().cloned().collect();
        for new in now.difference(&self.known) {
            warn!(
                node = new.node,
                reason = new.reason.as_str(),
                "{}",
                new.message
            );
        }
        for gone in self.known.difference(&now) {
            info!(
                node = gone.node,
                reason = gone.reason.as_str(),
                "no longer so"
            );
        }
        self.known = now;
    }

    fn unread(&mut self, why: &str) -> Duration {
        let next = self.after(false, Duration::ZERO);
        error!(
            "this node cannot be looked at, and nothing is changed; tried again in {} s: {why}",
            next.as_secs()
        );
        let finding = Finding::new(&self.options.settings.own, Reason::KernelUnread, why);
        self.metrics.unread(&finding);
        self.report(Report {
            obstacle: Some(finding.clone()),
            findings: vec![finding],
        });
        next
    }

    /// The plugins, where another version or nothing is in their place. Comparing them reads them whole,
    /// so not at every change.
    fn install(&mut self) {
        let Some((from, to)) = &self.options.install else {
            return;
        };
        let is_recent = |at: std::time::Instant| at.elapsed() < self.options.resync;
        if self.installed.is_some_and(is_recent) {
            return;
        }
        self.installed = Some(std::time::Instant::now());
        let put = install::programs(from, to, false).and_then(|mut items| {
            items.push(install::loopback(from, to));
            install::put(&items)
        });
        match put {
            Ok(all) => {
                for one in all
                    .iter()
                    .filter(|one| one.done != install::Done::Unchanged)
                {
                    info!("{} is in its place", one.path.display());
                }
            }
            Err(error) => error!("the plugins cannot be installed: {error}"),
        }
    }
}

/// Whether something could not be made that may go another time: the kernel or the disk refused it.
fn is_of_making(finding: &Finding) -> bool {
    matches!(
        finding.reason,
        Reason::RouteRefused | Reason::ConflistFailed
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_is_tried_again_soon_and_then_less_often() {
        let all = [1, 2, 3, 4, 5, 6, 7, u32::MAX].map(|failures| retry(failures).as_secs());
        assert_eq!(all, [3, 6, 12, 24, 48, 60, 60, 60]);
    }
}
