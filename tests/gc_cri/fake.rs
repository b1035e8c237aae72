//! A container runtime that answers as a test wants it.

use std::convert::Infallible;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread::JoinHandle;

use cri::v1::{ListPodSandboxRequest, ListPodSandboxResponse, PodSandbox, PodSandboxMetadata};
use tokio::net::UnixListener;
use tokio::sync::oneshot;
use tonic::body::Body;
use tonic::codegen::tokio_stream::wrappers::UnixListenerStream;
use tonic::codegen::{BoxFuture, Context, Service, http};
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::{Code, Request, Response, Status};
use tonic_prost::ProstCodec;

/// What it says to whoever asks for its sandboxes.
#[derive(Debug, Clone)]
pub enum Says {
    /// All of them.
    Sandboxes(Vec<PodSandbox>),
    /// A status that is no success.
    Error(Code, &'static str),
    /// Nothing, ever.
    Nothing,
}

/// The runtime; it ends with the value.
#[derive(Debug)]
pub struct FakeRuntime {
    endpoint: String,
    says: Arc<Mutex<Says>>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// A sandbox as the wire has it; its state is a number there.
pub fn sandbox(id: &str, state: i32) -> PodSandbox {
    PodSandbox {
        id: id.to_owned(),
        state,
        metadata: Some(PodSandboxMetadata {
            name: format!("pod-{id}"),
            namespace: "default".to_owned(),
            ..PodSandboxMetadata::default()
        }),
        ..PodSandbox::default()
    }
}

impl FakeRuntime {
    /// Listens in the folder, and has no sandbox yet.
    pub fn new(folder: &Path) -> FakeRuntime {
        let socket = folder.join("cri.sock");
        let _ = fs::remove_file(&socket);
        let says = Arc::new(Mutex::new(Says::Sandboxes(Vec::new())));
        let (end, ended) = oneshot::channel::<()>();
        let (listens, listening) = oneshot::channel::<()>();
        let service = Fake(Arc::clone(&says));
        let place = socket.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            let served = runtime.block_on(async {
                let incoming = UnixListenerStream::new(UnixListener::bind(place).unwrap());
                listens.send(()).unwrap();
                let server = tonic::transport::Server::builder().add_service(service);
                tokio::select! {
                    served = server.serve_with_incoming(incoming) => served,
                    _ = ended => Ok(()),
                }
            });
            served.unwrap();
        });
        listening.blocking_recv().unwrap();
        FakeRuntime {
            endpoint: format!("unix://{}", socket.display()),
            says,
            end: Some(end),
            thread: Some(thread),
        }
    }

    /// Where it listens.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// What it says from now on.
    pub fn say(&self, says: Says) {
        *self.says.lock().unwrap() = says;
    }

    /// That these are its sandboxes, ready ones.
    pub fn has(&self, ids: &[&str]) {
        let sandboxes = ids.iter().map(|id| sandbox(id, 0));
        self.say(Says::Sandboxes(sandboxes.collect()));
    }
}

impl Drop for FakeRuntime {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Serves the one call, and no other.
#[derive(Clone)]
struct Fake(Arc<Mutex<Says>>);

impl NamedService for Fake {
    const NAME: &'static str = "runtime.v1.RuntimeService";
}

impl Service<http::Request<Body>> for Fake {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let fake = self.clone();
        Box::pin(async move {
            if request.uri().path() != "/runtime.v1.RuntimeService/ListPodSandbox" {
                return Ok(Status::unimplemented("another call").into_http());
            }
            let codec = ProstCodec::default();
            Ok(Grpc::new(codec).unary(fake, request).await)
        })
    }
}

impl UnaryService<ListPodSandboxRequest> for Fake {
    type Response = ListPodSandboxResponse;
    type Future = BoxFuture<Response<ListPodSandboxResponse>, Status>;

    fn call(&mut self, _: Request<ListPodSandboxRequest>) -> Self::Future {
        let says = self.0.lock().unwrap().clone();
        Box::pin(async move {
            match says {
                Says::Sandboxes(items) => Ok(Response::new(ListPodSandboxResponse { items })),
                Says::Error(code, message) => Err(Status::new(code, message)),
                Says::Nothing => std::future::pending().await,
            }
        })
    }
}
