//! What is counted, in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use node::{Network, Says, Told};

use crate::{Finding, Outlook, Reason};

/// Those without labels: name, type, help.
const NUMBERS: [(&str, &str, &str); 12] = [
    (
        "ready",
        "gauge",
        "Whether pods have a network on this node.",
    ),
    ("nodes", "gauge", "Nodes that the API tells of."),
    (
        "routes_wanted",
        "gauge",
        "Routes to other nodes' pods that there should be.",
    ),
    ("routes_present", "gauge", "Routes of these that are there."),
    (
        "reconciles_total",
        "counter",
        "Times that all was looked at.",
    ),
    ("reconcile_seconds_total", "counter", "Time that this took."),
    ("reconcile_last_seconds", "gauge", "Time that it took last."),
    (
        "api_silent_seconds",
        "gauge",
        "Time since the API last told something.",
    ),
    (
        "api_failures_total",
        "counter",
        "Answers of the API that were none.",
    ),
    ("gc_runs_total", "counter", "Runs of GC."),
    ("gc_failures_total", "counter", "Runs of GC that failed."),
    (
        "gc_removed_total",
        "counter",
        "Attachments that GC removed.",
    ),
];

/// What is counted.
#[derive(Debug, Default)]
pub struct Metrics {
    api_answered: AtomicU64,
    api_failures: AtomicU64,
    reconciles: AtomicU64,
    reconcile_micros: AtomicU64,
    last_micros: AtomicU64,
    gc_runs: AtomicU64,
    gc_failures: AtomicU64,
    gc_removed: AtomicU64,
    state: Mutex<State>,
}

/// What the last look at the node found.
#[derive(Debug, Default, Clone)]
struct State {
    nodes: usize,
    wanted: usize,
    present: usize,
    ready: bool,
    why: String,
    findings: Vec<Finding>,
    pools: BTreeMap<(String, String), (u128, u128)>,
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}

fn add(counter: &AtomicU64, number: u64) {
    counter.fetch_add(number, Ordering::Relaxed);
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Metrics {
    /// The API has told something.
    pub fn api_answered(&self) {
        self.api_answered.store(now(), Ordering::Relaxed);
    }

    /// The API has not answered as it should.
    pub fn api_failed(&self) {
        add(&self.api_failures, 1);
    }

    /// GC is done; how many attachments it removed, or `None` where it could not.
    pub fn collected(&self, removed: Option<u64>) {
        add(&self.gc_runs, 1);
        match removed {
            Some(removed) => add(&self.gc_removed, removed),
            None => add(&self.gc_failures, 1),
        }
    }

    /// All was looked at, and made so, in that time.
    pub fn reconciled(&self, took: Duration, nodes: usize, outlook: &Outlook) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        add(&self.reconciles, 1);
        add(&self.reconcile_micros, micros);
        self.last_micros.store(micros, Ordering::Relaxed);
        let why = outlook.obstacles().next().map(ToString::to_string);
        self.set(State {
            nodes,
            wanted: outlook.wanted(),
            present: outlook.present(),
            ready: why.is_none(),
            why: why.unwrap_or_default(),
            findings: outlook.findings.clone(),
            pools: outlook.node.networks.iter().flat_map(pools).collect(),
        });
    }

    /// The node could not be looked at, as that finding says.
    pub fn unread(&self, finding: &Finding) {
        let mut state = self.state();
        state.ready = false;
        state.why = finding.to_string();
        state.findings.retain(|one| one.reason != finding.reason);
        state.findings.push(finding.clone());
        self.set(state);
    }

    fn set(&self, state: State) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    fn state(&self) -> State {
        let state = self.state.lock();
        state.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether pods have a network here; else why not.
    ///
    /// # Errors
    /// Why not.
    pub fn ready(&self) -> Result<(), String> {
        let state = self.state();
        if state.ready {
            return Ok(());
        }
        Err(match state.why.as_str() {
            "" => "the nodes are not known yet: the API has not told of them".to_owned(),
            why => why.to_owned(),
        })
    }

    /// What the node of that name has, and what is wrong, for `podnet doctor`.
    pub fn says(&self, own: &str) -> Says {
        let ready = self.ready();
        let findings = self.state().findings.into_iter().map(|one| Told {
            node: one.node,
            reason: one.reason.to_string(),
            message: one.message,
        });
        Says {
            node: own.to_owned(),
            ready: ready.is_ok(),
            why: ready.err().unwrap_or_default(),
            findings: findings.collect(),
        }
    }

    /// All of it, for Prometheus.
    pub fn text(&self) -> String {
        let state = self.state();
        let mut text = String::new();
        for (metric, value) in NUMBERS.into_iter().zip(self.numbers(&state)) {
            write(&mut text, metric, &[(String::new(), value)]);
        }
        let findings = Reason::ALL.iter().map(|reason| {
            let findings = state.findings.iter();
            let count = findings.filter(|one| one.reason == *reason).count();
            (format!("{{reason=\"{reason}\"}}"), count.to_string())
        });
        let findings: Vec<_> = findings.collect();
        let help = "What is wrong, by its reason.";
        write(&mut text, ("findings", "gauge", help), &findings);
        let pools = |pick: fn(&(u128, u128)) -> u128| {
            let pools = state.pools.iter();
            let samples = pools.map(|((network, range), pool)| {
                let labels = format!("{{network={network:?},range={range:?}}}");
                (labels, pick(pool).to_string())
            });
            samples.collect::<Vec<_>>()
        };
        let help = "Addresses of a range that are reserved.";
        write(
            &mut text,
            ("pool_taken", "gauge", help),
            &pools(|(taken, _)| *taken),
        );
        let help = "Addresses of a range that there are.";
        write(
            &mut text,
            ("pool_size", "gauge", help),
            &pools(|(_, size)| *size),
        );
        text
    }

    /// The values of [`NUMBERS`], in their order.
    fn numbers(&self, state: &State) -> [String; NUMBERS.len()] {
        let seconds = |micros: &AtomicU64| {
            let micros = Duration::from_micros(get(micros));
            micros.as_secs_f64().to_string()
        };
        let count = |counter: &AtomicU64| get(counter).to_string();
        let silent = match get(&self.api_answered) {
            0 => "+Inf".to_owned(),
            at => now().saturating_sub(at).to_string(),
        };
        [
            u8::from(state.ready).to_string(),
            state.nodes.to_string(),
            state.wanted.to_string(),
            state.present.to_string(),
            count(&self.reconciles),
            seconds(&self.reconcile_micros),
            seconds(&self.last_micros),
            silent,
            count(&self.api_failures),
            count(&self.gc_runs),
            count(&self.gc_failures),
            count(&self.gc_removed),
        ]
    }
}

/// A metric with its samples, each its labels and its value.
fn write(text: &mut String, (name, kind, help): (&str, &str, &str), samples: &[(String, String)]) {
    // Writing to a text cannot fail.
    let _ = writeln!(
        text,
        "# HELP podnet_agent_{name} {help}\n# TYPE podnet_agent_{name} {kind}"
    );
    for (labels, value) in samples {
        let _ = writeln!(text, "podnet_agent_{name}{labels} {value}");
    }
}

/// How many addresses of each range of a network are taken, and how many there are.
fn pools(network: &Network) -> Vec<((String, String), (u128, u128))> {
    let reservations = network.reservations.as_deref().unwrap_or_default();
    let pools = network.pools.iter().map(|pool| {
        let ranges: Vec<_> = pool
            .0
            .iter()
            .map(|range| range.subnet.to_string())
            .collect();
        let key = (network.name.clone(), ranges.join(","));
        (key, (pool.taken(reservations), pool.size()))
    });
    pools.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_of_the_text_format() {
        let metrics = Metrics::default();
        metrics.collected(Some(3));
        metrics.collected(None);
        metrics.api_failed();
        let text = metrics.text();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(name.starts_with("podnet_agent_"), "{line}");
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
        for line in [
            "podnet_agent_gc_removed_total 3",
            "podnet_agent_gc_failures_total 1",
            "podnet_agent_api_silent_seconds +Inf",
            "podnet_agent_findings{reason=\"NextHopOffLink\"} 0",
            "podnet_agent_ready 0",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} in {text}");
        }
        assert!(metrics.ready().unwrap_err().contains("not known yet"));
        let finding = Finding::new("a", Reason::KernelUnread, "links: no");
        metrics.unread(&finding);
        metrics.unread(&finding);
        assert_eq!(
            metrics.ready(),
            Err("a: KernelUnread: links: no".to_owned())
        );
        let one = "podnet_agent_findings{reason=\"KernelUnread\"} 1";
        assert!(metrics.text().contains(one));
        let says = metrics.says("a");
        assert!(!says.ready && says.why.contains("links: no"));
        assert_eq!(says.findings.len(), 1);
        assert_eq!(says.findings[0].reason, "KernelUnread");
    }
}
