//! The connection, and what is asked of the runtime itself.

use std::fmt;
use std::time::Duration;

use k8s_cri::v1;
use k8s_cri::v1::runtime_service_client::RuntimeServiceClient;
use tokio::runtime::{Builder, Runtime};
use tonic::transport::{Channel, Endpoint as Transport};
use tonic::{Response, Status};

use crate::error::with_causes;
use crate::{Endpoint, Error, Sandbox};

/// The longest answer that is taken, in bytes, the same as kubelet's. gRPC's usual 4 MiB are a node's
/// list with some thousand sandboxes.
const LONGEST_ANSWER: usize = 16 * 1024 * 1024;

/// A connection to a runtime.
pub struct Client {
    endpoint: Endpoint,
    limit: Duration,
    runtime: Runtime,
    service: RuntimeServiceClient<Channel>,
}

/// What a runtime is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// Its name, as `containerd`.
    pub name: String,
    /// Its own version.
    pub version: String,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("endpoint", &self.endpoint)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Connects. Connecting, and each call after it, may take as long as `limit`.
    ///
    /// # Errors
    /// Nobody listens there, or not in time.
    pub fn connect(endpoint: &Endpoint, limit: Duration) -> Result<Client, Error> {
        let unreachable = |reason: String| Error::Unreachable {
            endpoint: endpoint.clone(),
            reason,
        };
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| unreachable(error.to_string()))?;
        let transport = Transport::from_shared(endpoint.to_string())
            .map_err(|error| unreachable(with_causes(&error)))?;
        let connecting = async { tokio::time::timeout(limit, transport.connect()).await };
        let channel = match runtime.block_on(connecting) {
            Ok(channel) => channel.map_err(|error| unreachable(with_causes(&error)))?,
            Err(_) => return Err(unreachable(format!("not in {} s", limit.as_secs_f64()))),
        };
        Ok(Client {
            endpoint: endpoint.clone(),
            limit,
            runtime,
            service: RuntimeServiceClient::new(channel).max_decoding_message_size(LONGEST_ANSWER),
        })
    }

    /// Which runtime it is.
    ///
    /// # Errors
    /// It gives no answer.
    pub fn version(&mut self) -> Result<Version, Error> {
        let answer = self.call("Version", async |service| {
            service.version(v1::VersionRequest::default()).await
        })?;
        Ok(Version {
            name: answer.runtime_name,
            version: answer.runtime_version,
        })
    }

    /// All its pod sandboxes, whatever their state. One whose network is still being made is not
    /// among them.
    ///
    /// # Errors
    /// It gives no answer, or one with a sandbox that has no id.
    pub fn sandboxes(&mut self) -> Result<Vec<Sandbox>, Error> {
        const CALL: &str = "ListPodSandbox";
        let answer = self.call(CALL, async |service| {
            let all = v1::ListPodSandboxRequest::default();
            service.list_pod_sandbox(all).await
        })?;
        let sandboxes = answer.items.into_iter().map(Sandbox::read);
        sandboxes
            .collect::<Result<_, _>>()
            .map_err(|reason| Error::Odd {
                endpoint: self.endpoint.clone(),
                call: CALL,
                reason,
            })
    }

    /// One call; its answer.
    pub(crate) fn call<T>(
        &mut self,
        call: &'static str,
        ask: impl AsyncFnOnce(&mut RuntimeServiceClient<Channel>) -> Result<Response<T>, Status>,
    ) -> Result<T, Error> {
        let (limit, service) = (self.limit, &mut self.service);
        let answer = self
            .runtime
            .block_on(async { tokio::time::timeout(limit, ask(service)).await });
        match answer {
            Ok(answer) => answer
                .map(Response::into_inner)
                .map_err(|status| Error::of(&self.endpoint, call, &status)),
            Err(_) => Err(Error::Late {
                endpoint: self.endpoint.clone(),
                call,
                limit,
            }),
        }
    }
}
