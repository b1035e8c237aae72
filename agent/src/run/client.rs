//! How the API is spoken with.

use std::iter;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tower::timeout::TimeoutLayer;
use tower::{BoxError, ServiceBuilder};

use super::Error;
use crate::finding::{MOST_OF_MESSAGE, printable};

/// How long a connection may take to come up.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// How long a request may be without the begin of an answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// How long a connection may be silent before its other end is probed, by the kernel and without a request.
const SILENT: Duration = Duration::from_secs(15);
/// Between two probes.
const PROBES_APART: Duration = Duration::from_secs(5);
/// So many without an answer, and it is lost.
const PROBES: u32 = 3;

/// Who speaks with the API that a kubeconfig names, and the API's address where that is no name; else the pod's
/// service account says where it is, or `KUBECONFIG`.
///
/// # Errors
/// Nothing says where the API is.
pub async fn client(kubeconfig: Option<&Path>) -> Result<(Client, Option<IpAddr>), Error> {
    let wrong = |error: &(dyn std::error::Error + 'static)| Error::Config(in_full(error));
    let config = match kubeconfig {
        Some(file) => {
            let file = Kubeconfig::read_from(file).map_err(|error| wrong(&error))?;
            let asked = KubeConfigOptions::default();
            let config = Config::from_custom_kubeconfig(file, &asked).await;
            config.map_err(|error| wrong(&error))?
        }
        None => Config::infer().await.map_err(|error| wrong(&error))?,
    };
    let host = config.cluster_url.host().unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse().ok();
    let client = make(config).map_err(|error| wrong(&error))?;
    Ok((client, address))
}

/// As the library makes it, with other limits. What failed is tried again by who asked, where it is counted
/// and said.
fn make(config: Config) -> kube::Result<Client> {
    // The library says that it knows no proxy.
    if config.proxy_url.is_some() {
        return Client::try_from(config);
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_connect_timeout(Some(CONNECT_LIMIT));
    tcp.set_keepalive(Some(SILENT));
    tcp.set_keepalive_interval(Some(PROBES_APART));
    tcp.set_keepalive_retries(Some(PROBES));
    let connector = config.rustls_https_connector_with_connector(tcp)?;
    let http = legacy::Client::builder(TokioExecutor::new()).build::<_, Body>(connector);
    let service = ServiceBuilder::new()
        .layer(TimeoutLayer::new(ANSWER_LIMIT))
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(http);
    Ok(ClientBuilder::new(service, config.default_namespace).build())
}

/// An error with all that led to it, each once: what failed in the end is what a person can mend.
pub fn in_full(error: &(dyn std::error::Error + 'static)) -> String {
    let mut words = error.to_string();
    for cause in iter::successors(error.source(), |cause| cause.source()) {
        let cause = cause.to_string();
        if !words.contains(&cause) {
            words.push_str(": ");
            words.push_str(&cause);
        }
    }
    // The API's own words are in it.
    printable(&words, MOST_OF_MESSAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Failed(&'static str, #[source] Option<Box<Failed>>);

    #[test]
    fn an_error_is_told_with_what_led_to_it() {
        let cause = |words, cause| Some(Box::new(Failed(words, cause)));
        let deep = cause("refused", None);
        let middle = cause("connect", cause("connect", deep));
        let error = Failed("no answer", middle);
        assert_eq!(in_full(&error), "no answer: connect: refused");
        assert_eq!(in_full(&Failed("alone", None)), "alone");
        let hostile = Failed("a\n\u{1b}[2Jb", None);
        assert_eq!(in_full(&hostile), "a\u{fffd}\u{fffd}[2Jb");
    }
}
