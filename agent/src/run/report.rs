//! What the API is told: this node's condition, and events.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, NodeCondition, ObjectReference};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::DefaultBackoff;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tracing::{info, warn};

use super::client::in_full;
use super::metrics::Metrics;
use crate::{Finding, Reason};

/// Who says so.
const NAME: &str = "podnet-agent";
/// The condition by which pods are kept off a node whose network is not there.
const CONDITION: &str = "NetworkUnavailable";
/// Where events about nodes are, which are in no namespace: older APIs take them in this one alone.
const EVENTS: &str = "kube-system";
/// How long the API may take for one answer.
const LIMIT: Duration = Duration::from_secs(15);
/// How many events are sent for one look at the node: in a large cluster every agent sees the same bad
/// node.
const MOST: usize = 10;
/// How many bytes of an event's note the API takes.
const NOTE: usize = 1023;

/// What the API is to be told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Why pods have no network on this node; none where they have.
    pub obstacle: Option<Finding>,
    /// What is wrong.
    pub findings: Vec<Finding>,
}

/// Tells the API for as long as there is a sender. Every `resync` it looks whether all is still as told, and
/// has the nodes listed anew where the API's store was rolled back.
pub async fn report(
    client: Client,
    own: String,
    mut reports: watch::Receiver<Option<Report>>,
    resync: Duration,
    relist: Arc<Notify>,
    metrics: Arc<Metrics>,
) {
    let events: Api<Event> = Api::namespaced(client.clone(), EVENTS);
    let api: Api<Node> = Api::all(client);
    let mut backoff = DefaultBackoff::default();
    let mut told = Told::default();
    let mut age = Age::default();
    let mut due = Instant::now();
    loop {
        let changed = timeout_at(due, reports.changed()).await;
        if let Ok(Err(_)) = changed {
            return;
        }
        let is_due = changed.is_err();
        if is_due {
            due = Instant::now() + resync;
        }
        loop {
            // Before anything is waited for: what is borrowed keeps others from saying more.
            let Some(report) = reports.borrow_and_update().clone() else {
                break;
            };
            if !is_due && told.obstacle.as_ref() == Some(&report.obstacle) {
                send_events(&events, &own, &report, &mut told, is_due).await;
                break;
            }
            let said = timeout(LIMIT, condition(&api, &own, &report, &mut age)).await;
            match said {
                Ok(Ok(is_rolled_back)) => {
                    metrics.api_answered();
                    backoff.reset();
                    if is_rolled_back {
                        warn!("the API knows less than before: its store was rolled back");
                        relist.notify_one();
                    }
                    told.obstacle = Some(report.obstacle.clone());
                    send_events(&events, &own, &report, &mut told, is_due).await;
                    break;
                }
                failed => {
                    metrics.api_failed();
                    let why = match failed {
                        Ok(Err(why)) => why,
                        _ => format!("no answer within {} s", LIMIT.as_secs()),
                    };
                    let pause = backoff.next().unwrap_or(LIMIT);
                    warn!(
                        pause_ms = pause.as_millis(),
                        "the condition of node {own} cannot be set: {why}"
                    );
                    sleep(pause).await;
                }
            }
        }
    }
}

/// How old what the API told last was: the version of its whole store, and of the own Node. Neither goes back,
/// but where the store was rolled back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Age {
    store: u64,
    node: u64,
}

impl Age {
    fn new(store: Option<&str>, node: Option<&str>) -> Age {
        let number = |text: Option<&str>| text.and_then(|text| text.parse().ok());
        Age {
            store: number(store).unwrap_or_default(),
            node: number(node).unwrap_or_default(),
        }
    }

    fn is_before(self, other: Age) -> bool {
        self.store < other.store || self.node < other.node
    }
}

/// Sets the condition, where it is another; whether the API's store was rolled back.
async fn condition(
    api: &Api<Node>,
    own: &str,
    report: &Report,
    age: &mut Age,
) -> Result<bool, String> {
    // As a list, which tells the version of the store as well. It is asked of the store itself, and no cache.
    let asked = ListParams::default().fields(&format!("metadata.name={own}"));
    let listed = api.list(&asked).await.map_err(|error| in_full(&error))?;
    let store = listed.metadata.resource_version;
    let node = listed.items.into_iter().next();
    let version = node.as_ref();
    let version = version.and_then(|node| node.metadata.resource_version.as_deref());
    let mut seen = Age::new(store.as_deref(), version);
    if node.is_none() {
        // It may have been deleted.
        seen.node = age.node;
    }
    let is_rolled_back = seen.is_before(*age);
    *age = seen;
    let Some(node) = node else {
        let unknown = "the API knows no node of this name";
        return is_rolled_back.then_some(true).ok_or(unknown.to_owned());
    };
    let conditions = node.status.and_then(|status| status.conditions);
    let before = conditions.unwrap_or_default();
    let before = before.iter().find(|one| one.type_ == CONDITION);
    if let Some(patch) = patch(report, before, &Timestamp::now().to_string()) {
        let patch = Patch::Strategic(patch);
        let patched = api.patch_status(own, &PatchParams::default(), &patch).await;
        patched.map_err(|error| in_full(&error))?;
        info!("condition {CONDITION} of node {own} is {}", status(report));
    }
    Ok(is_rolled_back)
}

fn status(report: &Report) -> &'static str {
    match report.obstacle {
        None => "False",
        Some(_) => "True",
    }
}

/// What makes the condition as it is reported; nothing where it says so already.
fn patch(report: &Report, before: Option<&NodeCondition>, now: &str) -> Option<Value> {
    let (reason, message) = match &report.obstacle {
        None => ("PodNetworkReady", "routes and conflist are in place"),
        Some(finding) => (finding.reason.as_str(), finding.message.as_str()),
    };
    let status = status(report);
    let is_it = |before: &NodeCondition| {
        before.status == status
            && before.reason.as_deref() == Some(reason)
            && before.message.as_deref() == Some(message)
    };
    if before.is_some_and(is_it) {
        return None;
    }
    let since = before.filter(|before| before.status == status);
    let since = since.and_then(|before| before.last_transition_time.as_ref());
    let since = since.map_or_else(|| now.to_owned(), |since| since.0.to_string());
    Some(json!({ "status": { "conditions": [{
        "type": CONDITION,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": now,
        "lastTransitionTime": since,
    }] } }))
}

/// What the API was told.
#[derive(Debug, Default)]
struct Told {
    /// By the condition, where it was.
    obstacle: Option<Option<Finding>>,
    /// By events, as long as it is so.
    events: BTreeSet<(String, Reason)>,
    /// What was so when last it was due, and is still.
    lasting: BTreeSet<(String, Reason)>,
}

fn key(finding: &Finding) -> (String, Reason) {
    (finding.node.clone(), finding.reason)
}

impl Told {
    /// What is to be an event now. What is wrong with another node must have lasted: one that joins has no range
    /// for a moment, and every agent sees that. Of several with one reason the first speaks for all.
    fn due<'a>(&mut self, report: &'a Report, own: &str, is_due: bool) -> Vec<&'a Finding> {
        let now: BTreeSet<_> = report.findings.iter().map(key).collect();
        self.events.retain(|one| now.contains(one));
        self.lasting.retain(|one| now.contains(one));
        let mut seen = BTreeSet::new();
        let findings = report.findings.iter().filter(|finding| {
            let key = key(finding);
            (finding.node == own || self.lasting.contains(&key))
                && !self.events.contains(&key)
                && seen.insert(key)
        });
        let due = findings.take(MOST).collect();
        if is_due {
            self.lasting = now;
        }
        due
    }
}

/// An event for each finding that is due. What does not arrive is sent again with the next report; the log and
/// the metrics have it as well.
async fn send_events(api: &Api<Event>, own: &str, report: &Report, told: &mut Told, is_due: bool) {
    for finding in told.due(report, own, is_due) {
        let event = event(finding, own, Timestamp::now());
        let sent = timeout(LIMIT, api.create(&PostParams::default(), &event)).await;
        let why = match sent {
            Ok(Ok(_)) => {
                told.events.insert(key(finding));
                continue;
            }
            Ok(Err(error)) => in_full(&error),
            Err(_) => format!("no answer within {} s", LIMIT.as_secs()),
        };
        warn!(
            node = finding.node,
            reason = finding.reason.as_str(),
            "the event cannot be sent: {why}"
        );
        return;
    }
}

/// What `kubectl describe node` shows: an event about a node is in a namespace, and the node is in none.
fn event(finding: &Finding, own: &str, now: Timestamp) -> Event {
    let mut note = finding.message.clone();
    while note.len() > NOTE {
        note.pop();
    }
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{}.{:x}", finding.node, now.as_nanosecond())),
            namespace: Some(EVENTS.to_owned()),
            ..ObjectMeta::default()
        },
        event_time: Some(MicroTime(now)),
        type_: Some("Warning".to_owned()),
        reason: Some(finding.reason.to_string()),
        note: Some(note),
        action: Some("Reconcile".to_owned()),
        regarding: Some(ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(finding.node.clone()),
            // As the kubelet does it, which `kubectl describe node` looks for.
            uid: Some(finding.node.clone()),
            ..ObjectReference::default()
        }),
        reporting_controller: Some(NAME.to_owned()),
        // The API takes no longer one.
        reporting_instance: Some(own.chars().take(128).collect()),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-02T03:04:05Z";

    fn report(obstacle: Option<Finding>) -> Report {
        Report {
            obstacle,
            findings: Vec::new(),
        }
    }

    fn before(patch: &Value) -> NodeCondition {
        serde_json::from_value(patch["status"]["conditions"][0].clone()).unwrap()
    }

    #[test]
    fn an_event_about_another_node_is_of_what_lasts() {
        let finding = |node: &str| Finding::new(node, Reason::NoPodRange, "x");
        let report = |nodes: &[&str]| Report {
            obstacle: None,
            findings: nodes.iter().map(|node| finding(node)).collect(),
        };
        let mut told = Told::default();
        let mut due = |nodes: &[&str], is_due| {
            let report = report(nodes);
            let due = told.due(&report, "own", is_due);
            due.into_iter()
                .map(|one| one.node.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(due(&["joins", "own"], false), ["own"]);
        assert_eq!(due(&["bad", "joins"], true), [""; 0]);
        // It has its range.
        assert_eq!(due(&["bad"], false), ["bad"]);
        assert_eq!(due(&["bad", "joins"], true), ["bad"]);
        assert_eq!(due(&["bad", "joins"], false), ["bad", "joins"]);
    }

    #[test]
    fn what_is_older_than_before_was_rolled_back() {
        let before = Age::new(Some("200"), Some("100"));
        for (store, node, expected) in [
            ("200", "100", false),
            ("300", "100", false),
            ("300", "250", false),
            // Of a Node that has not changed since the backup the store alone tells.
            ("150", "100", true),
            ("300", "90", true),
        ] {
            let now = Age::new(Some(store), Some(node));
            assert_eq!(now.is_before(before), expected, "{now:?}");
        }
    }

    #[test]
    fn the_condition_is_set_where_it_is_another_and_keeps_its_time_else() {
        let good = patch(&report(None), None, NOW).unwrap();
        let there = before(&good);
        assert_eq!(
            (there.status.as_str(), there.type_.as_str()),
            ("False", CONDITION)
        );
        assert_eq!(patch(&report(None), Some(&there), NOW), None);
        let finding = |reason| Some(Finding::new("a", reason, "x"));
        let later = "2026-01-02T04:00:00Z";
        let bad = patch(&report(finding(Reason::NoPodRange)), Some(&there), later).unwrap();
        let bad = before(&bad);
        assert_eq!(
            (bad.status.as_str(), bad.reason.as_deref()),
            ("True", Some("NoPodRange"))
        );
        assert_eq!(
            bad.last_transition_time.as_ref().unwrap().0.to_string(),
            later
        );
        // Another reason is no transition.
        let other = report(finding(Reason::PluginMissing));
        let other = before(&patch(&other, Some(&bad), "2026-01-02T05:00:00Z").unwrap());
        assert_eq!(other.last_transition_time, bad.last_transition_time);
    }
}
