//! Readiness, liveness, metrics and findings over HTTP.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

use super::metrics::Metrics;

/// How long to wait where the address is another's, as that of an agent that is still ending.
const PAUSE: Duration = Duration::from_secs(5);
/// How long a connection may take: a probe or a scrape takes milliseconds.
const LIMIT: Duration = Duration::from_secs(10);
/// How many may be open.
const MOST: usize = 32;

/// Serves for ever what is known of the node of that name.
pub async fn serve(address: SocketAddr, own: Arc<str>, metrics: Arc<Metrics>) {
    let listener = loop {
        match TcpListener::bind(address).await {
            Ok(listener) => break listener,
            Err(error) => warn!("cannot listen on {address}, and tries again: {error}"),
        }
        sleep(PAUSE).await;
    };
    // The port may have been left to the kernel.
    let address = listener.local_addr().unwrap_or(address);
    info!("readiness, liveness and metrics at http://{address}/readyz, /livez, /metrics");
    let open = Arc::new(Semaphore::new(MOST));
    loop {
        let Ok(permit) = Arc::clone(&open).acquire_owned().await else {
            return;
        };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                warn!("no connection on {address}: {error}");
                sleep(PAUSE).await;
                continue;
            }
        };
        let (own, metrics) = (Arc::clone(&own), Arc::clone(&metrics));
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let answer = answer(&request, &own, &metrics);
                async move { Ok::<_, Infallible>(answer) }
            });
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new()).keep_alive(false);
            let served = server.serve_connection(TokioIo::new(stream), service);
            if let Ok(Err(error)) = timeout(LIMIT, served).await {
                debug!("a connection broke off: {error}");
            }
            drop(permit);
        });
    }
}

fn answer(request: &Request<Incoming>, own: &str, metrics: &Metrics) -> Response<Full<Bytes>> {
    let (status, text) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/metrics") => (StatusCode::OK, metrics.text()),
        (&Method::GET, "/livez") => (StatusCode::OK, "ok\n".to_owned()),
        (&Method::GET, "/readyz") => match metrics.ready() {
            Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
            Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
        },
        // For `podnet doctor`.
        (&Method::GET, "/findings") => (StatusCode::OK, json!(metrics.says(own)).to_string()),
        _ => (
            StatusCode::NOT_FOUND,
            "/readyz, /livez, /metrics or /findings\n".to_owned(),
        ),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response
}
