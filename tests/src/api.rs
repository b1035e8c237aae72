//! An API server as a test wants it: it lists and watches nodes, takes conditions and events, and fails
//! when it is told to.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use lab::Namespace;
use serde_json::{Value, json};

use crate::{api_nodes, sh};

/// How the API fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failing {
    /// It does not.
    Not,
    /// It answers with that status.
    Status(u16),
    /// It ends each connection in the middle of an answer.
    Reset,
    /// It takes a request, and never answers.
    Silent,
    /// It listens no more.
    Gone,
}

#[derive(Debug)]
struct State {
    nodes: BTreeMap<String, Value>,
    /// Each change, with its number.
    changes: Vec<(u64, &'static str, Value)>,
    version: u64,
    /// Watches from before this number are told that it is too old.
    oldest: u64,
    failing: Failing,
    /// Watches of another number are cut off.
    cut: u64,
    requests: Vec<String>,
    events: Vec<Value>,
}

/// It serves on the loopback of a namespace until it is dropped.
#[derive(Debug)]
pub struct Api {
    /// Where it listens.
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Drop for Api {
    fn drop(&mut self) {
        self.fail(Failing::Gone);
    }
}

impl Api {
    /// One that knows of no node yet.
    pub fn new(namespace: &Namespace) -> Api {
        let listener = namespace
            .run(|| TcpListener::bind("127.0.0.1:0"))
            .unwrap()
            .unwrap();
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        let state = State {
            nodes: BTreeMap::new(),
            changes: Vec::new(),
            version: 100,
            oldest: 0,
            failing: Failing::Not,
            cut: 0,
            requests: Vec::new(),
            events: Vec::new(),
        };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        thread::spawn(move || accept(&listener, &shared));
        Api { address, state }
    }

    /// One that knows those of [`api_nodes`]. The namespace's loopback is brought up.
    pub fn with_nodes(namespace: &Namespace) -> Api {
        sh(namespace, "ip link set lo up");
        let api = Api::new(namespace);
        api_nodes().iter().for_each(|node| api.put(node));
        api
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Puts a node there, or another in its place.
    pub fn put(&self, node: &Value) {
        let mut state = self.state();
        let name = node["metadata"]["name"].as_str().unwrap().to_owned();
        let kind = if state.nodes.contains_key(&name) {
            "MODIFIED"
        } else {
            "ADDED"
        };
        state.set(&name, node.clone(), kind);
    }

    /// Removes a node.
    pub fn delete(&self, name: &str) {
        let mut state = self.state();
        let node = state.nodes.get(name).cloned().unwrap();
        state.set(name, node, "DELETED");
        state.nodes.remove(name);
    }

    /// Fails from now on, and cuts off whatever is being watched.
    pub fn fail(&self, failing: Failing) {
        let mut state = self.state();
        state.failing = failing;
        state.cut += 1;
    }

    /// Forgets what changed before now: who watches from before is told 410.
    pub fn compact(&self) {
        let mut state = self.state();
        state.version += 10;
        state.oldest = state.version;
        state.changes.clear();
        state.cut += 1;
    }

    /// Knows only these nodes, at an earlier version, as one whose store was rolled back.
    pub fn roll_back(&self, nodes: &[Value]) {
        let mut state = self.state();
        state.version = 10;
        state.changes.clear();
        state.nodes.clear();
        for node in nodes {
            let name = node["metadata"]["name"].as_str().unwrap().to_owned();
            state.set(&name, node.clone(), "ADDED");
        }
        state.changes.clear();
        state.cut += 1;
    }

    /// The node as the API has it.
    pub fn node(&self, name: &str) -> Value {
        self.state().nodes[name].clone()
    }

    /// The events that were sent.
    pub fn events(&self) -> Vec<Value> {
        self.state().events.clone()
    }

    /// Method and path of each request.
    pub fn requests(&self) -> Vec<String> {
        self.state().requests.clone()
    }

    /// A kubeconfig that leads to it.
    pub fn kubeconfig(&self, folder: &Path) -> std::path::PathBuf {
        let file = folder.join("kubeconfig");
        let server = format!("http://{}", self.address);
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{ "name": "c", "cluster": { "server": server } }],
            "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
            "users": [{ "name": "u", "user": {} }],
        });
        std::fs::write(&file, text.to_string()).unwrap();
        file
    }
}

impl State {
    fn set(&mut self, name: &str, mut node: Value, kind: &'static str) {
        self.version += 1;
        node["apiVersion"] = "v1".into();
        node["kind"] = "Node".into();
        node["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.nodes.insert(name.to_owned(), node.clone());
        self.changes.push((self.version, kind, node));
    }
}

fn accept(listener: &TcpListener, state: &Arc<Mutex<State>>) {
    loop {
        // Those that wait while it is gone are turned away when it is back.
        match listener.accept() {
            Ok((stream, _)) if state.lock().unwrap().failing != Failing::Gone => {
                let state = Arc::clone(state);
                stream.set_nonblocking(false).unwrap();
                thread::spawn(move || drop(serve(stream, &state)));
            }
            Ok(_) => {}
            Err(_) => thread::sleep(Duration::from_millis(5)),
        }
        if Arc::strong_count(state) == 1 {
            return;
        }
    }
}

/// A request: method, target and body.
fn request(stream: &TcpStream) -> std::io::Result<(String, String, Value)> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let mut words = first.split(' ').map(str::to_owned);
    let (method, target) = (words.next(), words.next());
    let body = serde_json::from_slice(&body).unwrap_or_default();
    Ok((method.unwrap_or_default(), target.unwrap_or_default(), body))
}

fn serve(mut stream: TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    let (method, target, body) = request(&stream)?;
    let failing = {
        let mut state = state.lock().unwrap();
        state.requests.push(format!("{method} {target}"));
        state.failing
    };
    match failing {
        Failing::Not => reply(&mut stream, state, (&method, &target), &body),
        Failing::Status(code) => answer(&mut stream, code, &status(code)),
        Failing::Reset => {
            write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{{\"kind\""
            )
        }
        Failing::Silent => {
            while state.lock().unwrap().failing == Failing::Silent {
                thread::sleep(Duration::from_millis(20));
            }
            Ok(())
        }
        Failing::Gone => Ok(()),
    }
}

fn reply(
    stream: &mut TcpStream,
    state: &Mutex<State>,
    (method, target): (&str, &str),
    body: &Value,
) -> std::io::Result<()> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    match (method, path) {
        ("GET", "/api/v1/nodes") if query.contains("watch=true") => {
            let mut keys = query.split('&');
            let from = keys.find_map(|key| key.strip_prefix("resourceVersion="));
            watch(stream, state, from.unwrap().parse().unwrap())
        }
        ("GET", "/api/v1/nodes") => {
            let list = {
                let state = state.lock().unwrap();
                let asked = query.split_once("fieldSelector=metadata.name%3D");
                let name = asked.and_then(|(_, name)| name.split('&').next());
                let nodes = state.nodes.iter();
                let nodes = nodes.filter(|(key, _)| name.is_none_or(|name| name == *key));
                json!({
                    "apiVersion": "v1", "kind": "NodeList",
                    "metadata": { "resourceVersion": state.version.to_string() },
                    "items": nodes.map(|(_, node)| node).collect::<Vec<_>>(),
                })
            };
            answer(stream, 200, &list)
        }
        // As older APIs take events about what is in no namespace.
        ("POST", path) if !path.contains("/namespaces/kube-system/") => {
            answer(stream, 422, &status(422))
        }
        ("POST", _) => {
            state.lock().unwrap().events.push(body.clone());
            answer(stream, 201, body)
        }
        ("GET" | "PATCH", _) => {
            let name = path
                .trim_start_matches("/api/v1/nodes/")
                .trim_end_matches("/status");
            let found = {
                let mut state = state.lock().unwrap();
                if method == "PATCH"
                    && let Some(mut node) = state.nodes.get(name).cloned()
                {
                    merge(&mut node, body);
                    state.set(name, node, "MODIFIED");
                }
                state.nodes.get(name).cloned()
            };
            match found {
                Some(node) => answer(stream, 200, &node),
                None => answer(stream, 404, &status(404)),
            }
        }
        _ => answer(stream, 405, &status(405)),
    }
}

/// Conditions are known by their type.
fn merge(node: &mut Value, patch: &Value) {
    let new = patch["status"]["conditions"][0].clone();
    let all = &mut node["status"]["conditions"];
    let mut kept = all.as_array().cloned().unwrap_or_default();
    kept.retain(|one| one["type"] != new["type"]);
    kept.push(new);
    *all = kept.into();
}

fn watch(stream: &mut TcpStream, state: &Mutex<State>, from: u64) -> std::io::Result<()> {
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    )?;
    let mut from = from;
    let cut = state.lock().unwrap().cut;
    loop {
        let (lines, ends) = {
            let state = state.lock().unwrap();
            // What happens from then on is told by nobody.
            if state.cut != cut {
                (Vec::new(), true)
            } else if from < state.oldest {
                (
                    vec![json!({ "type": "ERROR", "object": status(410) })],
                    true,
                )
            } else {
                let new = state
                    .changes
                    .iter()
                    .filter(|(version, _, _)| *version > from);
                let lines = new.map(|(_, kind, node)| json!({ "type": kind, "object": node }));
                (lines.collect(), false)
            }
        };
        for line in lines {
            if let Some(version) = line["object"]["metadata"]["resourceVersion"].as_str() {
                from = version.parse().unwrap();
            }
            let text = format!("{line}\n");
            write!(stream, "{:x}\r\n{text}\r\n", text.len())?;
        }
        if ends {
            return write!(stream, "0\r\n\r\n");
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn status(code: u16) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code,
        "reason": "Test", "message": format!("as the test wants it: {code}"),
    })
}

fn answer(stream: &mut TcpStream, code: u16, body: &Value) -> std::io::Result<()> {
    let text = body.to_string();
    write!(
        stream,
        "HTTP/1.1 {code} Test\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}",
        text.len()
    )
}
