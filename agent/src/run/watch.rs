//! The API's nodes, listed and watched. Whatever it answers, this goes on.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ApiResource, ListParams, Object};
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, DefaultBackoff, Error, Event};
use kube::{Client, ResourceExt};
use plan::kubernetes::{Spec, Status, Told};
use tokio::sync::{Notify, mpsc};
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

use super::client::in_full;
use super::metrics::Metrics;
use crate::nodes::Heard;

/// Of a Node no more than is looked at: its images alone may be tens of kilobytes.
type Slim = Object<Spec, Status>;

/// How long the API may take for a part of a list.
const LIST_LIMIT: Duration = Duration::from_secs(60);

/// Tells of nodes until the other end is gone. `relist` has all of them listed anew.
pub async fn watch(
    client: Client,
    tell: mpsc::Sender<Heard>,
    relist: Arc<Notify>,
    metrics: Arc<Metrics>,
) {
    let mut backoff = DefaultBackoff::default();
    loop {
        tokio::select! {
            () = follow(&client, &tell, &mut backoff, &metrics) => {}
            () = relist.notified() => info!("the nodes are listed anew"),
        }
        if tell.is_closed() {
            return;
        }
    }
}

/// A list and what follows, until all must be listed anew.
async fn follow(
    client: &Client,
    tell: &mpsc::Sender<Heard>,
    backoff: &mut DefaultBackoff,
    metrics: &Metrics,
) {
    let mut events = pin!(watcher::watcher(api(client), watcher::Config::default()));
    let mut is_listing = true;
    loop {
        let next = events.next();
        let event = if is_listing {
            timeout(LIST_LIMIT, next).await
        } else {
            // The watcher has a limit of its own for a stream that is silent.
            Ok(next.await)
        };
        let failed = match event {
            Ok(Some(Ok(event))) => {
                if !matches!(event, Event::Init) {
                    backoff.reset();
                    metrics.api_answered();
                }
                is_listing = match event {
                    Event::Init | Event::InitApply(_) => true,
                    Event::InitDone | Event::Apply(_) | Event::Delete(_) => false,
                };
                if tell.send(heard(event)).await.is_err() {
                    return;
                }
                continue;
            }
            Ok(Some(Err(error))) => Some(error),
            Ok(None) => return,
            Err(_) => None,
        };
        metrics.api_failed();
        let anew = failed.as_ref().is_none_or(must_list);
        let reason = failed.map_or_else(
            || format!("no answer to a list within {} s", LIST_LIMIT.as_secs()),
            |error| in_full(&error),
        );
        let pause = backoff.next().unwrap_or(LIST_LIMIT);
        warn!(
            pause_ms = pause.as_millis(),
            "the API does not answer as it should; routes stay as they are: {reason}"
        );
        sleep(pause).await;
        if anew {
            debug!("a new list");
            return;
        }
    }
}

/// Whether there is no going on from here: the library itself lists anew where a watch that runs is told
/// so, but not where one is refused at its start.
fn must_list(error: &Error) -> bool {
    match error {
        Error::InitialListFailed(_) | Error::NoResourceVersion => true,
        Error::WatchStartFailed(kube::Error::Api(status)) => {
            !matches!(status.code, 429 | 500..=503)
        }
        Error::WatchError(status) => status.code == 410,
        Error::WatchStartFailed(_) | Error::WatchFailed(_) => false,
    }
}

/// All nodes, once.
pub async fn list(client: &Client) -> kube::Result<Vec<Told>> {
    let nodes = api(client).list(&ListParams::default()).await?;
    Ok(nodes.items.iter().map(told).collect())
}

fn api(client: &Client) -> Api<Slim> {
    Api::all_with(client.clone(), &ApiResource::erase::<Node>(&()))
}

fn heard(event: Event<Slim>) -> Heard {
    match event {
        Event::Init => Heard::Begin,
        Event::InitApply(node) => Heard::Listed(told(&node)),
        Event::InitDone => Heard::Complete,
        Event::Apply(node) => Heard::Applied(told(&node)),
        Event::Delete(node) => Heard::Deleted(told(&node).name),
    }
}

fn told(node: &Slim) -> Told {
    let since = node.creation_timestamp();
    let since = since.map(|since| since.0.to_string()).unwrap_or_default();
    let none = Status::default();
    let status = node.status.as_ref().unwrap_or(&none);
    Told::new(&node.name_any(), &since, &node.spec, status)
}
